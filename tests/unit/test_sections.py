"""Sections that others measure: they are looked at beside the run, which they neither delay nor end."""

from __future__ import annotations

import re
import threading

import pytest

from gpu_tracker.errors import GpuTrackerError
from gpu_tracker.resources.cuda import Cuda, open_reader
from gpu_tracker.resources.entry_points import load
from gpu_tracker.resources.section import SectionReader, Target
from support.cuda.installed_package import offer
from support.waiting import eventually


class Section:
    """Tells how often it was looked at, and by then of which processes."""

    def __init__(self, *failures: Exception, broken_close: bool = False) -> None:
        self.failures = list(failures)
        self.broken_close = broken_close
        self.seen: list[frozenset[int]] = []
        self.opened: list[Target] = []
        self.closed = 0
        self.go_on = threading.Event()
        self.go_on.set()

    def open(self, target: Target) -> Section:
        self.opened.append(target)
        return self

    def look(self, members: frozenset[int]) -> dict[str, object]:
        self.seen.append(members)
        self.go_on.wait()
        if len(self.seen) > 1 and self.failures:
            raise self.failures.pop()
        return {'seconds': float(len(self.seen))}

    def close(self) -> None:
        self.closed += 1
        if self.broken_close:
            raise OSError('closed already')


TARGET = Target(10, frozenset({11}), ('train', '--fast'), '/srv')


def opened(section: Section, **clock) -> SectionReader:
    reader = SectionReader('cuda', dict, **clock)
    reader.open(lambda: section.open, TARGET)
    return reader


def test_it_is_opened_and_looked_at_before_the_run_begins() -> None:
    section = Section()
    reader = opened(section)
    assert section.opened == [TARGET]
    assert section.seen == [frozenset({10, 11})]
    assert reader.result() == {'seconds': 1.0}
    reader.finish(60)


def test_the_last_look_is_waited_for_and_knows_the_newest_processes() -> None:
    section = Section()
    reader = opened(section)
    reader.members(frozenset({10, 12}))
    reader.finish(0.0)
    reader.finish(60)
    assert reader.result() == {'seconds': 2.0}
    assert section.seen == [frozenset({10, 11}), frozenset({10, 12})]
    assert section.closed == 0  # the end of the process does that
    assert reader.take_messages() == []


def test_a_look_that_hangs_delays_nothing_and_is_told_once() -> None:
    section = Section()
    now = [100.0]
    reader = opened(section, monotonic=lambda: now[0])
    section.go_on.clear()
    reader.finish(0.0)
    eventually(lambda: len(section.seen) == 2)
    assert reader.take_messages() == []
    now[0] += 2.5
    assert reader.take_messages() == [
        ('warning', 'What probes CUDA calls has not answered for 2 s; its figures are old until it does.')
    ]
    reader.finish(0.001)
    assert reader.take_messages() == []
    assert reader.result() == {'seconds': 1.0}
    section.go_on.set()


def test_a_run_that_ends_while_it_looks_has_the_figures_before() -> None:
    section = Section()
    reader = opened(section)
    section.go_on.clear()
    reader.finish(0.001)
    assert reader.take_messages() == [
        (
            'warning',
            'What probes CUDA calls had not told its last figures when the run ended; those before them are given.',
        )
    ]
    assert reader.result() == {'seconds': 1.0}
    section.go_on.set()


@pytest.mark.parametrize('broken_close', [False, True])
def test_what_fails_later_is_told_once_and_keeps_what_was_known(*, broken_close: bool) -> None:
    section = Section(OSError('the ring is gone'), broken_close=broken_close)
    reader = opened(section)
    reader.finish(60)
    problem = 'CUDA calls cannot be probed: OSError: the ring is gone.'
    assert reader.result() == {'seconds': 1.0, 'problem': problem}
    assert reader.take_messages() == [('warning', problem)]
    assert section.closed == 1
    reader.finish(60)
    assert len(section.seen) == 2


def raising(error: Exception):
    def open_section(target: Target) -> Section:
        raise error

    return open_section


@pytest.mark.parametrize(
    ('error', 'problem'),
    [
        (GpuTrackerError('A right is missing.'), 'A right is missing.'),
        (
            ModuleNotFoundError("No module named 'lz4'", name='lz4'),
            'CUDA calls cannot be probed: a package is missing; install gpu-tracker[cuda].',
        ),
        (OSError(5, 'broken'), 'CUDA calls cannot be probed: OSError: [Errno 5] broken.'),
    ],
)
def test_what_cannot_be_opened_is_a_problem_and_a_warning(error: Exception, problem: str) -> None:
    cuda = Cuda(open_reader(lambda: raising(error), Target(10)))
    cuda.follow(10, frozenset({11}))
    cuda.request_last()
    cuda.wait_for_last()
    assert cuda.totals() == {'problem': problem}
    assert cuda.take_messages() == [('warning', problem)]
    assert cuda.take_messages() == []


@pytest.mark.parametrize(
    ('found', 'problem'),
    [
        ({'seconds': object()}, 'ValueError: unmarshallable object'),
        ({'notes': ['x' * 2_000_000]}, r'ValueError: 20000\d\d bytes of figures are too many'),
        ({'main': {'watts': 3}}, r'TypeError: .*watts.*'),
        (None, r'TypeError: .*'),
    ],
)
def test_what_has_no_place_in_the_result_is_left_out_and_told(found: object, problem: str) -> None:
    section = Section()
    section.look = lambda members: found
    cuda = Cuda(open_reader(lambda: section.open, Target(10)))
    ((level, text),) = cuda.take_messages()
    assert level == 'warning'
    assert re.fullmatch(f'CUDA calls cannot be probed: {problem}\\.', text)
    assert cuda.totals() == {'problem': text}


def test_members_are_the_root_while_it_lives_and_its_descendants() -> None:
    section = Section()
    reader = open_reader(lambda: section.open, Target(10))
    Cuda(reader).follow(None, frozenset({12}))
    reader.finish(60)
    assert section.seen == [frozenset({10}), frozenset({12})]


def test_a_part_is_found_by_the_name_of_its_entry_point(tmp_path, monkeypatch) -> None:
    offer(tmp_path, 'gpu_tracker.sources', 'def opened():\n    return 7\n')
    monkeypatch.syspath_prepend(tmp_path)
    assert load('gpu_tracker.sources', 'cuda')() == 7


def test_a_part_that_nobody_offers_says_what_to_install() -> None:
    message = r'^CUDA calls cannot be probed: nothing that is installed can do it; install gpu-tracker\[cuda\]\.$'
    with pytest.raises(GpuTrackerError, match=message):
        load('gpu_tracker.nothing', 'cuda')
