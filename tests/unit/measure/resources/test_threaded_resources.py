"""Resources that are read in a thread of their own: they neither delay nor end a run."""

from __future__ import annotations

import re
import threading
from types import SimpleNamespace

import pytest

from gpu_tracker.cuda_probe.agent_metrics import open_metrics
from gpu_tracker.cuda_probe.section import open_section
from gpu_tracker.errors import GpuTrackerError
from gpu_tracker.installation import install_command
from gpu_tracker.resources import entry_of, function_at
from gpu_tracker.resources.cuda import Cuda, open_reader
from gpu_tracker.resources.energy import Energy
from gpu_tracker.resources.energy import open_resource as open_energy
from gpu_tracker.resources.threaded import Target, ThreadedReader, problem_of
from support.waiting import eventually


class Source:
    """Tells how often it was looked at, and by then of which processes."""

    def __init__(self, *failures: Exception, broken_close: bool = False) -> None:
        self.failures = list(failures)
        self.broken_close = broken_close
        self.seen: list[frozenset[int]] = []
        self.opened: list[Target] = []
        self.closed = 0
        self.go_on = threading.Event()
        self.go_on.set()

    def open(self, target: Target) -> Source:
        self.opened.append(target)
        return self

    def read(self, members: frozenset[int]) -> dict[str, object]:
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


def opened(source: Source, **clock) -> ThreadedReader:
    reader = ThreadedReader('cuda', 'CUDA calls', dict, **clock)
    reader.open(source.open, TARGET)
    return reader


def finish(reader: ThreadedReader, timeout: float) -> None:
    reader.request_last()
    reader.wait_for_last(timeout)


def test_it_is_opened_and_looked_at_before_the_run_begins() -> None:
    source = Source()
    reader = opened(source)
    assert source.opened == [TARGET]
    assert source.seen == [frozenset({10, 11})]
    assert reader.result() == {'seconds': 1.0}
    finish(reader, 60)


def test_the_last_look_is_waited_for_and_knows_the_newest_processes() -> None:
    source = Source()
    reader = opened(source)
    reader.follow(frozenset({10, 12}))
    reader.request_last()
    reader.wait_for_last(60)
    assert reader.result() == {'seconds': 2.0}
    assert source.seen == [frozenset({10, 11}), frozenset({10, 12})]
    assert source.closed == 0  # the end of the process does that
    assert reader.take_messages() == []


def test_a_look_that_hangs_delays_nothing_and_is_told_once() -> None:
    source = Source()
    now = [100.0]
    reader = opened(source, monotonic=lambda: now[0])
    source.go_on.clear()
    reader.request_last()
    eventually(lambda: len(source.seen) == 2)
    assert reader.take_messages() == []
    now[0] += 2.5
    assert reader.take_messages() == [
        ('warning', 'What probes CUDA calls has not answered for 2 s; its figures are old until it does.')
    ]
    finish(reader, 0.001)
    assert reader.take_messages() == []
    assert reader.result() == {'seconds': 1.0}
    source.go_on.set()


def test_a_run_that_ends_while_it_looks_has_the_figures_before() -> None:
    source = Source()
    reader = opened(source)
    source.go_on.clear()
    finish(reader, 0.001)
    assert reader.take_messages() == [
        (
            'warning',
            'What probes CUDA calls had not reported its last figures when the run ended; those before them are given.',
        )
    ]
    assert reader.result() == {'seconds': 1.0}
    source.go_on.set()


@pytest.mark.parametrize('broken_close', [False, True])
def test_what_fails_later_is_told_once_and_keeps_what_was_known(*, broken_close: bool) -> None:
    source = Source(OSError('the ring is gone'), broken_close=broken_close)
    reader = opened(source)
    finish(reader, 60)
    problem = 'CUDA calls cannot be probed: OSError: the ring is gone.'
    assert reader.result() == {'seconds': 1.0, 'problem': problem}
    assert reader.take_messages() == [('warning', problem)]
    assert source.closed == 1
    finish(reader, 60)
    assert len(source.seen) == 2


def raising(error: Exception):
    def open_source(target: Target) -> Source:
        raise error

    return open_source


@pytest.mark.parametrize(
    ('error', 'problem'),
    [
        (GpuTrackerError('A right is missing.'), 'A right is missing.'),
        (
            ModuleNotFoundError("No module named 'lz4'", name='lz4'),
            f"CUDA calls cannot be probed: a package is missing (No module named 'lz4'): {install_command('cuda')}",
        ),
        (OSError(5, 'broken'), 'CUDA calls cannot be probed: OSError: [Errno 5] broken.'),
    ],
)
def test_what_cannot_be_opened_is_a_problem_and_a_warning(error: Exception, problem: str) -> None:
    cuda = Cuda(open_reader(raising(error), Target(10)))
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
        ({'notes': ['x' * 2_000_000]}, r'ValueError: the figures are too large: 20000\d\d bytes'),
        (None, r'TypeError: .*'),
    ],
)
def test_what_has_no_place_in_the_result_is_left_out_and_told(found: object, problem: str) -> None:
    source = Source()
    source.read = lambda members: found
    cuda = Cuda(open_reader(source.open, Target(10)))
    ((level, text),) = cuda.take_messages()
    assert level == 'warning'
    assert re.fullmatch(f'CUDA calls cannot be probed: {problem}\\.', text)
    assert cuda.totals() == {'problem': text}


def test_members_are_the_root_while_it_lives_and_its_descendants() -> None:
    source = Source()
    reader = open_reader(source.open, Target(10))
    Cuda(reader).follow(None, frozenset({12}))
    finish(reader, 60)
    assert source.seen == [frozenset({10}), frozenset({12})]


def test_the_table_names_functions_that_are_there() -> None:
    entry = entry_of('cuda')
    assert function_at(entry.opener) is open_section
    assert function_at(entry.metrics) is open_metrics


def test_what_a_wing_needs_and_is_not_installed_says_what_to_install() -> None:
    error = ModuleNotFoundError("No module named 'lz4'", name='lz4')
    assert problem_of('CUDA calls', error, extra='cuda') == (
        f"CUDA calls cannot be probed: a package is missing (No module named 'lz4'): {install_command('cuda')}"
    )


def test_a_row_has_launches_and_memory_of_the_last_reading_and_none_before() -> None:
    source = Source()
    source.read = lambda members: {'main': {'launches': 7, 'memory_current_bytes': 5}}
    reader = open_reader(source.open, Target(10))
    cuda = Cuda(reader)
    row = dict(zip([column.name for column in cuda.columns], cuda.row(), strict=True))
    assert (row['main_cuda_launches'], row['main_cuda_memory_current']) == (7, 5)
    assert row['combined_cuda_launches'] is None
    finish(reader, 60)


class MeasuredEnergy:
    """An energy source with figures that a test sets."""

    def __init__(self) -> None:
        self.found: dict[str, object] = {}

    def read(self, members: frozenset[int]) -> dict[str, object]:
        return self.found

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ('found', 'row'),
    [
        ({}, [None, None]),
        ({'gpus': [['a', 5.0, False], ['b', 2.5, True]], 'packages': 9.0}, [7.5, 9.0]),
        ({'gpus': [['a', None, False]], 'packages': None}, [None, None]),
        ({'gpus': [], 'packages': 0.0}, [0.0, 0.0]),
    ],
)
def test_a_row_has_the_joules_of_the_last_reading(found: dict[str, object], row: list[float | None]) -> None:
    source = MeasuredEnergy()
    source.found = found
    reader = ThreadedReader('energy', 'the energy of GPUs', dict)
    reader.open(lambda _: source, Target(10))
    finish(reader, 60)
    assert list(Energy(reader, source, None).row()) == row


def test_no_extra_is_recommended_for_energy_which_has_none() -> None:
    def missing(_: Target) -> Source:
        raise ModuleNotFoundError("No module named 'pynvml'", name='pynvml')

    reader = open_energy(SimpleNamespace(config={'brands': None}, tree=None))._reader
    reader.open(missing, TARGET)
    assert reader.result() == {
        'problem': "the energy of GPUs cannot be probed: ModuleNotFoundError: No module named 'pynvml'."
    }
