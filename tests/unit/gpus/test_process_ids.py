from __future__ import annotations

import os

import pytest

from gpu_tracker.gpus.model import GpuProcess
from gpu_tracker.gpus.process_ids import Attribution, has_open

MB = 10**6
OURS = frozenset({1, 2})
EXISTING = {1, 2, 3}


def uses_nothing(pid: int) -> bool:
    return False


def is_unknown_after(
    *lists: list[GpuProcess], used: int = 500 * MB, second_look: list[GpuProcess] | None = None
) -> bool:
    attribution = Attribution(EXISTING.__contains__, uses_nothing, is_certain=False)
    for processes in lists:
        again = processes if second_look is None else second_look
        attribution.check(processes, used, OURS, lambda again=again: again)  # type: ignore[misc]
    return attribution.is_unknown


STRANGER = [GpuProcess(4000, 500 * MB)]
OUR_OWN = [GpuProcess(1, 300 * MB)]


@pytest.mark.parametrize(
    ('lists', 'expected'),
    [
        ([[]], False),
        ([OUR_OWN], False),
        ([[GpuProcess(3, 500 * MB)]], False),
        ([STRANGER], True),
        ([OUR_OWN + STRANGER], False),
        ([STRANGER, OUR_OWN], False),
        ([OUR_OWN, STRANGER], False),
        ([[GpuProcess(1, 0)]], True),
        ([[GpuProcess(3, 0)]], True),
        ([[GpuProcess(1, None)]], False),
    ],
)
def test_doubt_and_trust(lists: list[list[GpuProcess]], *, expected: bool) -> None:
    assert is_unknown_after(*lists) is expected


def test_no_memory_on_a_gpu_that_is_not_in_use_is_no_memory() -> None:
    assert not is_unknown_after([GpuProcess(1, 0)], used=5 * MB)


def test_a_process_that_has_just_ended_is_gone_at_the_second_look() -> None:
    assert not is_unknown_after(STRANGER, second_look=[])


@pytest.mark.parametrize(
    ('processes', 'used', 'expected'),
    [
        ([], 500, True),
        ([], 50, False),
        ([GpuProcess(3, 100 * MB)], 500, True),
        ([GpuProcess(3, 480 * MB)], 500, False),
        ([GpuProcess(2, None)], 500, False),
    ],
)
def test_a_process_that_uses_cuda_and_is_not_listed(processes: list[GpuProcess], used: int, *, expected: bool) -> None:
    attribution = Attribution(EXISTING.__contains__, {2}.__contains__, is_certain=False)
    attribution.check(processes, used * MB, OURS, lambda: processes)
    assert attribution.is_unknown is expected


def test_a_process_of_this_machine_does_or_does_not_use_cuda() -> None:
    files = frozenset({'/dev/nvidia-uvm'})
    assert has_open(os.getpid(), files) is False
    assert has_open(2**22 + 1, files) is False  # there is no such process
    with open('/dev/full'):
        assert has_open(os.getpid(), frozenset({'/dev/full'})) is True


def test_nothing_is_doubted_in_the_machines_own_namespace() -> None:
    attribution = Attribution(EXISTING.__contains__, is_certain=True)
    attribution.check(STRANGER, 500 * MB, OURS, lambda: STRANGER)
    assert not attribution.is_unknown


def test_nothing_is_doubted_before_the_tree_has_a_process() -> None:
    attribution = Attribution(EXISTING.__contains__, is_certain=False)
    attribution.check(STRANGER, 500 * MB, frozenset(), lambda: STRANGER)
    assert not attribution.is_unknown
