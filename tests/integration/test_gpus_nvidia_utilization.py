"""How busy each process keeps a GPU, in readings of runs and of all GPUs, on the simulated driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_tracker.gpus.model import GpuProcess
from support.gpus.gpu_monitors import START, Monitors
from support.simulated_nvml import Failure, Gpu, Mig, Process

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLES = 'nvmlDeviceGetProcessUtilization'
UUID = 'GPU-a'

Percents = dict[int, tuple[int | None, int | None]]


def us(second: float) -> int:
    """Return the time stamp of a second of the script."""
    return round((START + second) * 1e6)


def run_percents(monitors: Monitors) -> Percents:
    """Return the two percentages of each process that a run reads."""
    return {process.pid: (process.utilization, process.memory_utilization) for process in monitors.run_reading(UUID)}


def survey_percents(monitors: Monitors) -> Percents:
    """Return the two percentages of each process in a reading of all GPUs."""
    (processes,) = monitors.survey()
    assert processes is not None
    return {process.pid: (process.utilization, process.memory_utilization) for process in processes}


@pytest.mark.parametrize('percents', [run_percents, survey_percents])
def test_percent_of_the_time_since_the_reading_before(
    monitors: Monitors, percents: Callable[[Monitors], Percents]
) -> None:
    monitors.begin(now=10, gpus=[Gpu(uuid=UUID, total=8)])
    for now, stamp, expected in [
        (10, us(9), (0, 0)),  # before the second that precedes the first reading
        (11, us(10.1), (40, 20)),
        (12, us(10.1), (0, 0)),  # seen already
        (60, us(12), (0, 0)),  # the reading before would have shown it
        (90, us(60.1), (40, 20)),
    ]:
        process = Process(7, memory=5, sm=40, memory_util=20, time_us=stamp)
        monitors.write(now, gpus=[Gpu(uuid=UUID, total=8, processes=[process])])
        assert percents(monitors) == {7: expected}, (now, stamp)


@pytest.mark.parametrize('percents', [run_percents, survey_percents])
@pytest.mark.parametrize(
    ('state', 'expected'),
    [
        ({'idle_success': True}, (0, 0)),
        ({'fail': [Failure(SAMPLES, 6)]}, (0, 0)),  # NOT_FOUND
        ({'fail': [Failure(SAMPLES, 3)]}, (None, None)),
        ({'fail': [Failure(SAMPLES, 999)]}, (None, None)),
    ],
)
def test_idle_is_0_and_not_reported_is_unknown(
    monitors: Monitors,
    percents: Callable[[Monitors], Percents],
    state: dict[str, object],
    expected: tuple[int | None, int | None],
) -> None:
    monitors.begin(now=10, gpus=[Gpu(uuid=UUID, total=8, processes=[Process(7, memory=5)])], **state)
    assert percents(monitors) == {7: expected}


@pytest.mark.parametrize('percents', [run_percents, survey_percents])
def test_unknown_in_mig_mode(monitors: Monitors, percents: Callable[[Monitors], Percents]) -> None:
    gpu = Gpu(uuid=UUID, total=8, mig=[Mig(uuid='MIG-a', gi=1)], processes=[Process(7, memory=5, gi=1, ci=0, sm=40)])
    monitors.begin(now=10, gpus=[gpu])
    assert percents(monitors) == {7: (None, None)}


def test_members_that_came_and_went_between_two_readings(monitors: Monitors) -> None:
    listed = [Process(7, memory=5, sm=40), Process(8, memory=5)]
    monitors.begin(now=10, gpus=[Gpu(uuid=UUID, total=8, processes=listed)])
    assert monitors.run_reading(UUID, 7, 8, 9) == [
        GpuProcess(7, 5, utilization=40, memory_utilization=0),
        GpuProcess(8, 5, utilization=0, memory_utilization=0),
    ]
    # In no list (type M is that of MPS clients), and yet in the samples: 7 was listed before, 10 is not tracked.
    gone = [Process(pid, sm=30, memory_util=2, types='M') for pid in (7, 9, 10)]
    monitors.write(11, gpus=[Gpu(uuid=UUID, total=8, processes=gone)])
    assert sorted(monitors.run_reading(UUID, 7, 8, 9)) == [
        GpuProcess(7, 0, utilization=30, memory_utilization=2),
        GpuProcess(9, None, utilization=30, memory_utilization=2),
    ]


@pytest.mark.parametrize('kind', ['Compute', 'Graphics'])
def test_processes_are_unknown_if_one_of_the_lists_fails(monitors: Monitors, kind: str) -> None:
    gpu = Gpu(uuid=UUID, total=8, processes=[Process(7, memory=5, types='CG')])
    monitors.begin(gpus=[gpu], fail=[Failure(f'nvmlDeviceGet{kind}RunningProcesses*', 999)])
    assert monitors.survey() == [None]
    monitors.write(gpus=[gpu])
    assert monitors.survey() == [[GpuProcess(7, 5, draws=True, utilization=0, memory_utilization=0)]]
