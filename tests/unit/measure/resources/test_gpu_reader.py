from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_tracker.errors import GpuError
from gpu_tracker.gpus.model import Gpu, GpuProcess, GpuReading, Unseen
from gpu_tracker.gpus.process_ids import UNKNOWN_ATTRIBUTION
from gpu_tracker.resources import gpu
from gpu_tracker.resources.gpu.figures import NO_GPUS, UNKNOWN
from gpu_tracker.resources.gpu.reader import GpuReader, next_reading
from support.gpus.gpu_readings import capable, sampled
from support.waiting import eventually

if TYPE_CHECKING:
    import pytest

TIMEOUT = 300.0


class OneGpu:
    """A GPU with one process, 7; each reading waits for the gate."""

    compute_files = frozenset()

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.is_blocked = threading.Event()
        self.problem: Exception | None = None

    def gpus(self) -> tuple[Gpu, ...]:
        return (capable(0, 'a', 'GPU', 1000),)

    def follow(self, members: frozenset[int]) -> None:
        pass

    def read(self, uuid: str) -> GpuReading:
        if not self.gate.wait(0):
            self.is_blocked.set()
            self.gate.wait(TIMEOUT)
        if self.problem is not None:
            raise self.problem
        return sampled(500, self.processes(uuid), [])

    def processes(self, uuid: str) -> list[GpuProcess] | None:
        return [GpuProcess(7, 300)]

    def unseen(self, uuid: str) -> Unseen:
        return Unseen()

    def utilization(self, uuid: str) -> float | None:
        return 25.0

    def peak_memory(self, uuid: str, pid: int) -> int | None:
        return None

    def take_messages(self) -> list[tuple[str, str]]:
        return []

    def close(self) -> None:
        pass


def test_what_opening_the_driver_gives_rise_to_is_reported() -> None:
    def open_backend() -> OneGpu:
        source.leave_out('Another driver does not work.')
        return OneGpu()

    source = GpuReader(open_backend, 3600, None, in_initial_pid_namespace=True)
    source.start()
    assert source.wait(TIMEOUT)
    assert source.take_messages() == [('warning', 'Another driver does not work.')]
    assert eventually(lambda: source.totals()['devices'])
    totals = source.totals()
    assert [device['uuid'] for device in totals['devices']] == ['a']
    assert {totals[name] for name in UNKNOWN if name not in {'devices', 'missed'}} == {None}


def test_a_uuid_may_be_that_of_a_gpu_whose_driver_does_not_work() -> None:
    def open_backend() -> OneGpu:
        source.leave_out('Another driver does not work.')
        return OneGpu()

    source = GpuReader(open_backend, 3600, ('b',), in_initial_pid_namespace=True)
    source.start()
    assert source.wait(TIMEOUT)
    assert source.error is None
    assert eventually(lambda: source.totals()['devices'])
    assert (source.totals()['expected'], source.totals()['max_sum'], source.row()[-1]) == (1, None, None)
    source = GpuReader(OneGpu, 3600, ('b',), in_initial_pid_namespace=True)
    source.start()
    assert source.wait(TIMEOUT)
    assert source.error == 'UUIDs of GPUs of this machine (a)'


def test_the_last_reading_knows_the_last_members() -> None:
    source = GpuReader(OneGpu, 3600, None, in_initial_pid_namespace=True)
    source.start()
    assert source.wait(TIMEOUT)
    assert source.totals()['main'] == 0
    source.follow(7, frozenset())
    source.request_last()
    source.wait_for_last(TIMEOUT)
    assert source.totals() == {
        'count': 1,
        'expected': 1,
        'capacity': 1000,
        'system': 500,
        'main': 300,
        'descendants': 0,
        'combined': 300,
        'max_sum': 25.0,
        'mean_sum': 25.0,
        'missed': [],
        'devices': [
            {
                'uuid': 'a',
                'name': 'GPU',
                'vendor': 'nvidia',
                'index': 0,
                'place': '0',
                'capacity': 1000,
                'system': 500,
                'main': 300,
                'descendants': 0,
                'combined': 300,
                'missed': [],
                'utilization': 25.0,
                'max_utilization': 25.0,
                'own_utilization': None,
                'max_own_utilization': None,
                'others': False,
                'is_used': True,
                'is_visible': False,
            }
        ],
    }
    assert source.take_messages() == []


def test_no_driver() -> None:
    source = GpuReader(lambda: None, 1, None)
    source.start()
    assert source.wait(TIMEOUT)
    source.request_last()
    source.wait_for_last(TIMEOUT)
    assert source.totals() == NO_GPUS
    assert source.take_messages() == [('info', 'No GPU driver is at work on this machine: GPU figures are 0.')]
    assert source.take_messages() == []


def test_a_driver_that_cannot_be_opened() -> None:
    def fail() -> None:
        raise GpuError('It is broken.', 'broken')

    source = GpuReader(fail, 1, None)
    source.start()
    assert source.wait(TIMEOUT)
    source.request_last()
    source.wait_for_last(TIMEOUT)
    assert source.totals() == UNKNOWN
    assert source.take_messages() == [('warning', 'It is broken.')]


def test_a_mistake_in_a_backend_is_told_and_leaves_lower_bounds() -> None:
    backend = OneGpu()
    source = GpuReader(lambda: backend, 3600, None, in_initial_pid_namespace=True)
    source.start()
    assert source.wait(TIMEOUT)
    backend.problem = ValueError('what?')
    source.request_last()
    source.wait_for_last(TIMEOUT)
    totals = source.totals()
    assert (totals['system'], totals['main'], totals['missed']) == (500, None, ['system'])
    assert (source.row(), source.by_process) == ((None,) * 6, None)
    text = 'The GPUs can no longer be read (ValueError: what?); their figures are unknown, or lower bounds.'
    assert source.take_messages() == [('warning', text)]


def test_a_driver_that_hangs_is_told_of_once_and_taken_in_when_it_answers() -> None:
    backend = OneGpu()
    backend.gate.clear()
    clock = [100.0]
    source = GpuReader(lambda: backend, 3600, None, monotonic=lambda: clock[0], in_initial_pid_namespace=True)
    source.start()
    assert backend.is_blocked.wait(TIMEOUT)
    assert not source.wait(0)
    assert source.take_messages() == []
    clock[0] = 102.5
    assert source.take_messages() == [
        ('warning', 'The GPU driver has not answered for 2 s; GPU figures are unknown, or lower bounds, until it does.')
    ]
    clock[0] = 200.0
    assert source.take_messages() == []
    assert source.totals() == UNKNOWN
    backend.gate.set()
    assert source.wait(TIMEOUT)
    assert source.totals()['system'] == 500
    source.request_last()
    source.wait_for_last(TIMEOUT)


def test_a_driver_that_is_known_to_hang_delays_the_end_no_more() -> None:
    backend = OneGpu()
    clock = [100.0]
    source = GpuReader(lambda: backend, 0.1, None, monotonic=lambda: clock[0], in_initial_pid_namespace=True)
    source.start()
    assert source.wait(TIMEOUT)
    backend.gate.clear()
    assert backend.is_blocked.wait(TIMEOUT)
    clock[0] = 100.0 + 2 * TIMEOUT
    source.request_last()
    source.wait_for_last(TIMEOUT)
    assert not source._poll.has_ended(0.0)  # it was not waited for: the reading could not end
    assert source.totals()['system'] == 500
    assert [level for level, _ in source.take_messages()] == ['warning']
    backend.gate.set()


def test_a_doubt_is_told_at_the_end_also_where_the_last_reading_takes_longer_than_that_waits() -> None:
    gpu = OneGpu()
    source = GpuReader(lambda: gpu, 0.1, None, in_initial_pid_namespace=False, pid_exists=lambda _: False)
    source.start()
    assert source.wait(TIMEOUT)
    source.follow(8, frozenset())
    assert eventually(lambda: source.totals()['combined'] is None)
    gpu.gate.clear()
    assert gpu.is_blocked.wait(TIMEOUT)
    source.request_last()
    source.wait_for_last(0)
    assert source.take_messages() == [('warning', UNKNOWN_ATTRIBUTION)]
    gpu.gate.set()


def test_finish_before_start_returns() -> None:
    source = GpuReader(OneGpu, 1, None)
    source.request_last()
    source.wait_for_last(TIMEOUT)
    assert source.totals() == UNKNOWN


@settings(deadline=None)
@given(start=st.floats(0, 1e6), elapsed=st.floats(0, 1e6), interval=st.floats(0.1, 3600))
def test_the_next_reading_lies_on_the_grid_and_in_the_future(start: float, elapsed: float, interval: float) -> None:
    wait = next_reading(start, start + elapsed, interval)
    assert 0 < wait <= interval
    points = (elapsed + wait) / interval
    assert abs(points - round(points)) < 1e-4


def test_importing_the_source_imports_neither_a_driver_nor_slow_modules() -> None:
    program = (
        'import sys, gpu_tracker\n'
        'before = set(sys.modules)\n'
        'import gpu_tracker.resources.gpu.reader, gpu_tracker.gpus\n'
        'slow = {"pynvml", "ctypes", "dataclasses", "typing", "enum", "psutil"}\n'
        'print(sorted(slow & (set(sys.modules) - before)))'
    )
    done = subprocess.run([sys.executable, '-c', program], check=True, capture_output=True, text=True)
    assert done.stdout == '[]\n'


def test_a_driver_that_does_not_answer_refuses_no_uuid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, '_LONGEST_START_WITH_UUIDS', 0.01)
    is_over = threading.Event()
    reader = GpuReader(lambda: is_over.wait(TIMEOUT) and None, 0.1, ('GPU-x',))
    reader.start()
    gpu.Gpu(reader, has_uuids=True).wait_until_ready()
    assert reader.totals() == UNKNOWN
    is_over.set()
