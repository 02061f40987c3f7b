"""The variables of a program, at any time of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_tracker.cuda_probe.devices.enumeration import GpuAccess, Visibility
from gpu_tracker.cuda_probe.devices.environment import Environment, EnvironmentChange, initial_variables
from gpu_tracker.cuda_probe.devices.host_gpus import HostGpu, HostGpus, PhysicalGpu

if TYPE_CHECKING:
    from pathlib import Path

VISIBLE = 'CUDA_VISIBLE_DEVICES'
ORDER = 'CUDA_DEVICE_ORDER'

FIRST, SECOND = (PhysicalGpu(f'GPU-{n}', 'nvidia', 'Model A', '570', minor=n) for n in (0, 1))
HOST = HostGpus((HostGpu(FIRST), HostGpu(SECOND)))
BOTH = GpuAccess(frozenset({0, 1}))


def change(time: int, value: str | None, name: str = VISIBLE) -> EnvironmentChange:
    return EnvironmentChange(1, time, name, value)


def visibility(initial: dict[str, str] | None, access: GpuAccess = BOTH) -> Visibility:
    return Visibility(HOST, initial, lambda: access)


def test_changes_count_from_their_times_on_in_whatever_order_they_come() -> None:
    environment = Environment({VISIBLE: '0'})
    for made in (change(30, None), change(10, '1'), change(20, '2'), change(5, 'x', 'HOME')):
        environment.change(made)
    assert [environment.at(time).get(VISIBLE) for time in (0, 9, 10, 19, 20, 30)] == ['0', '0', '1', '1', '2', None]


def test_without_the_initial_variables_only_changes_of_both_tell() -> None:
    environment = Environment(None)
    environment.change(change(10, '1'))
    assert environment.at(20) is None
    environment.change(change(15, None, ORDER))
    assert environment.at(12) is None
    assert environment.at(20) == {VISIBLE: '1'}


@pytest.mark.parametrize(
    ('content', 'expected'),
    [
        (b'', {}),
        (b'HOME=/root\0', {}),
        (b'CUDA_VISIBLE_DEVICES=\0', {VISIBLE: ''}),
        (b'CUDA_VISIBLE_DEVICES=1\0A=\0CUDA_VISIBLE_DEVICES=2\0', {VISIBLE: '1'}),
        (b'CUDA_DEVICE_ORDER=PCI_BUS_ID\0CUDA_VISIBLE_DEVICES=a=b\0', {VISIBLE: 'a=b', ORDER: 'PCI_BUS_ID'}),
        (b'ray::train\0\0\0\0\0', None),  # a title was written over them
        (b'\0\0\0\0', None),
        (b'A=1\0CUDA_VIS', None),
    ],
)
def test_what_a_program_was_started_with(tmp_path: Path, content: bytes, expected: dict[str, str] | None) -> None:
    (tmp_path / '7').mkdir()
    (tmp_path / '7' / 'environ').write_bytes(content)
    assert initial_variables(7, str(tmp_path)) == expected
    assert initial_variables(8, str(tmp_path)) is None


def test_the_value_at_the_first_call_counts() -> None:
    seen = visibility({})
    seen.changed(change(10, '1'))
    seen.changed(change(30, '0'))
    assert seen.gpu_of(0) is None  # it has not called CUDA yet
    seen.called(40)
    assert seen.gpu_of(0) is FIRST
    seen.called(20)  # on another processor, and told later
    assert seen.gpu_of(0) is SECOND
    assert seen.gpu_of(1) is None
    assert seen.gpu_of(-1) is None


def test_nothing_is_known_without_the_variables_or_the_reach() -> None:
    for seen in (visibility(None), visibility({}, GpuAccess())):
        seen.called(1)
        assert seen.gpu_of(0) is None


def test_what_a_process_can_open_is_asked_until_it_is_known() -> None:
    answers = [GpuAccess(), GpuAccess(), BOTH]
    seen = Visibility(HOST, {}, lambda: answers.pop(0))
    seen.called(1)
    assert seen.gpu_of(1) is None
    assert seen.gpu_of(1) is SECOND
    assert seen.gpu_of(0) is FIRST
    assert answers == []


def test_what_never_becomes_known_is_not_asked_for_ever() -> None:
    asked = []
    seen = Visibility(HOST, {}, lambda: asked.append(1) or GpuAccess())
    seen.called(1)
    for _ in range(50):
        assert seen.gpu_of(0) is None
    assert len(asked) == 20


def test_gpus_that_the_driver_tells_late_are_taken() -> None:
    seen = Visibility(HostGpus(), {}, lambda: BOTH)
    seen.called(1)
    assert seen.gpu_of(1) is None
    seen.set_gpus(HOST)
    assert seen.gpu_of(1) is SECOND
