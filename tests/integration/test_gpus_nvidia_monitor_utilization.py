"""GPUs under observation through the real nvidia-ml-py on the simulated driver: how busy each process keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_tracker.gpus.model import Account, GpuReading
from support.gpus.gpu_machine import words_as_nobody
from support.gpus.gpu_monitors import START, Monitors
from support.gpus.gpu_readings import monitored
from support.simulated_nvml import Account as Kept
from support.simulated_nvml import Failure, Gpu, Mig, Process
from support.tracked_program import as_root

if TYPE_CHECKING:
    from collections.abc import Iterator

SAMPLES = 'nvmlDeviceGetProcessUtilization'
ACCOUNTS = 'nvmlDeviceGetAccountingStats'
NOT_SUPPORTED = 3
NOT_AVAILABLE = 0xFFFFFFFF


@pytest.fixture
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitors]:
    """Give monitors of a driver that has not been called yet: it counts its calls, and keeps the modes that are set."""
    with Monitors(tmp_path_factory.mktemp('machine')) as started:
        yield started


def us(second: float) -> int:
    """Return the time stamp of a second of the script."""
    return round((START + second) * 1e6)


def percents(activity: GpuReading) -> dict[int, tuple[int | None, int | None]]:
    """Return the two percentages of each process."""
    assert activity.processes is not None
    return {process.pid: (process.utilization, process.memory_utilization) for process in activity.processes}


def accounts(activity: GpuReading) -> dict[int, tuple[int | None, int | None]]:
    """Return the two percentages over the life of each process; none if accounting mode is off."""
    assert activity.processes is not None
    return {process.pid: tuple(process.account) for process in activity.processes if process.account is not None}


def test_samples_since_the_last_look(monitors: Monitors) -> None:
    monitors.begin(now=10, gpus=[Gpu()])
    for now, stamp, expected in [
        (10, us(9), (0, 0)),  # older than the second before the first reading
        (10.5, us(10) + 1, (40, 20)),
        (11, us(10) + 1, (0, 0)),  # seen already
        (11, us(10.5), (40, 20)),
        (12, us(12.9), (40, 20)),  # the driver's clock may be ahead
        (13, us(12.9), (0, 0)),
        (13, us(14) + 1, (0, 0)),  # garbage: too far ahead
        (60, us(12.9), (0, 0)),  # seen already
        (61, us(60.5), (40, 20)),
        (20, us(19), (0, 0)),  # the clock has been set back
        (19.9, us(19.1), (40, 20)),
    ]:
        monitors.write(now, gpus=[Gpu(processes=[Process(7, sm=40, memory_util=20, time_us=stamp)])])
        assert percents(monitors.look()) == {7: expected}, (now, stamp)


def test_the_newest_sample_of_a_process_counts_and_garbage_does_not(monitors: Monitors) -> None:
    processes = [
        Process(7, sm=10, memory_util=1, time_us=us(9.8)),
        Process(7, sm=30, memory_util=3, time_us=us(9.9)),
        Process(7, sm=20, memory_util=2, time_us=us(9.7)),
        Process(7, sm=101, memory_util=4, time_us=us(9.95)),
        Process(8, sm=100, memory_util=100, time_us=us(9.2)),
        Process(9, sm=50, memory_util=3_000_000_000, time_us=us(10)),
        Process(10),
    ]
    monitors.begin(now=10, gpus=[Gpu(processes=processes)], garbage=True)
    assert percents(monitors.look()) == {7: (30, 3), 8: (100, 100), 9: (None, None), 10: (0, 0)}
    later = [Process(7, sm=50, time_us=us(9.9)), Process(8, sm=60, time_us=us(9.9) + 1)]
    monitors.write(11, gpus=[Gpu(processes=later)])
    assert percents(monitors.look()) == {7: (0, 0), 8: (60, 0)}


@pytest.mark.parametrize('idle_success', [False, True])
def test_an_idle_gpu(monitors: Monitors, *, idle_success: bool) -> None:
    monitors.begin(gpus=[Gpu(processes=[Process(7)])], idle_success=idle_success)
    assert percents(monitors.look()) == {7: (0, 0)}


def test_more_processes_than_a_driver_keeps_samples_of(monitors: Monitors) -> None:
    monitors.begin(now=5, gpus=[Gpu(processes=[Process(pid, sm=1, memory_util=2) for pid in range(1, 301)])])
    assert percents(monitors.look()) == dict.fromkeys(range(1, 301), (1, 2))


@pytest.mark.parametrize('code', [NOT_SUPPORTED, 13])
def test_a_gpu_without_samples_is_not_asked_again_until_it_is_opened_anew(monitors: Monitors, code: int) -> None:
    gpus = [Gpu(total=1, processes=[Process(7, sm=40)])]
    monitors.begin(now=5, gpus=gpus, fail=[Failure(SAMPLES, code)])
    activity = monitors.look()
    assert (activity.gap, percents(activity)) == (None, {7: (None, None)})
    monitors.write(5, gpus=gpus)
    activity = monitors.look()
    assert (activity.gap, percents(activity)) == (None, {7: (None, None)})
    monitors.write(5, gpus=gpus, fail=[Failure('nvmlDeviceGetMemoryInfo*', 999)])
    monitors.look()
    monitors.write(5, gpus=gpus)
    assert percents(monitors.look()) == {7: (40, 0)}


def test_samples_are_asked_for_again_when_the_mig_mode_changes(monitors: Monitors) -> None:
    processes = [Process(7, sm=40)]
    monitors.begin(now=5, gpus=[Gpu(mig=[Mig(uuid='MIG-a', gi=1)], processes=processes)])
    assert percents(monitors.look()) == {7: (None, None)}
    monitors.write(5, gpus=[Gpu(processes=processes)])
    assert percents(monitors.look()) == {7: (40, 0)}


@pytest.mark.parametrize('code', [4, 7, 15, 999])
def test_samples_that_fail_once_are_asked_for_again(monitors: Monitors, code: int) -> None:
    gpus = [Gpu(processes=[Process(7, sm=40)])]
    monitors.begin(now=5, gpus=gpus, fail=[Failure(SAMPLES, code)])
    activity = monitors.look()
    assert (activity.problem, percents(activity)) == (None, {7: (None, None)})
    assert activity.gap == f'how busy processes are is not reported (NVML code {code})'
    monitors.write(5, gpus=gpus)
    activity = monitors.look()
    assert (activity.gap, percents(activity)) == (None, {7: (40, 0)})


def test_samples_are_asked_for_once_more_where_processes_came_meanwhile(fresh: Monitors) -> None:
    fresh.begin(now=5, gpus=[Gpu(processes=[Process(7, sm=40)])], fail=[Failure(SAMPLES, 7, after=1, times=1)])
    assert percents(fresh.look()) == {7: (40, 0)}
    assert [call for call in fresh.calls() if call == 'GetProcessUtilization'] == ['GetProcessUtilization'] * 4


def test_accounts_tell_of_the_life_of_processes_and_samples_of_what_they_do_now(monitors: Monitors) -> None:
    processes = [Process(pid, sm=40, memory_util=20) for pid in (7, 8, 9, 10)]
    kept = [
        Kept(pid=7, max_memory=5, util=70, memory_util=35),
        Kept(pid=8, max_memory=5, util=NOT_AVAILABLE, memory_util=101),
        Kept(pid=9, max_memory=5, util=3, memory_util=1, time=900, running=0),  # an earlier process' with this ID
    ]
    monitors.begin(now=5, gpus=[Gpu(accounting=1, processes=processes, accounts=kept)])
    assert monitors.identity().keeps_accounts is True
    activity = monitors.look()
    unknown = (None, None)
    assert accounts(activity) == {7: (70, 35), 8: unknown, 9: unknown, 10: unknown}
    assert percents(activity) == dict.fromkeys((7, 8, 9, 10), (40, 20))
    monitors.write(6, gpus=[Gpu(accounting=1, processes=[Process(7)], accounts=kept)])
    activity = monitors.look()
    assert (accounts(activity), percents(activity)) == ({7: (70, 35)}, {7: (0, 0)})


def test_samples_that_fail_are_a_gap_whatever_accounts_tell(monitors: Monitors) -> None:
    gpu = Gpu(accounting=1, processes=[Process(7)], accounts=[Kept(pid=7, max_memory=5, util=70)])
    monitors.begin(now=5, gpus=[gpu], fail=[Failure(SAMPLES, 4)])
    activity = monitors.look()
    assert (accounts(activity), percents(activity)) == ({7: (70, 0)}, {7: (None, None)})
    assert activity.gap == 'how busy processes are is not reported (NVML code 4)'


def test_accounts_that_fail_leave_the_samples(monitors: Monitors) -> None:
    gpus = [Gpu(accounting=1, processes=[Process(7, sm=40)], accounts=[Kept(pid=7, max_memory=5, util=70)])]
    monitors.begin(now=5, gpus=gpus, fail=[Failure(ACCOUNTS, 999)])
    activity = monitors.look()
    assert (accounts(activity), percents(activity)) == ({7: (None, None)}, {7: (40, 0)})
    monitors.write(5, gpus=gpus)
    assert accounts(monitors.look()) == {7: (70, 0)}


def test_accounting_mode_that_is_switched_off_meanwhile(monitors: Monitors) -> None:
    processes = [Process(7, sm=40), Process(8, sm=30)]
    kept = [Kept(pid=7, max_memory=5, util=70), Kept(pid=8, max_memory=5, util=80)]
    monitors.begin(now=5, gpus=[Gpu(accounting=1, processes=processes, accounts=kept)])
    assert accounts(monitors.look()) == {7: (70, 0), 8: (80, 0)}
    monitors.write(6, gpus=[Gpu(accounting=0, processes=processes)])
    monitors.calls()
    activity = monitors.look()
    assert (accounts(activity), percents(activity)) == ({}, {7: (40, 0), 8: (30, 0)})
    assert monitors.calls().count('GetAccountingStats') == 1
    assert monitors.identity().keeps_accounts is False
    monitors.write(5, gpus=[Gpu(accounting=0)])
    assert monitors.look() == monitored(None, 0, 0, None, None, ())
    assert 'GetAccountingStats' not in monitors.calls()


def test_the_accounts_of_processes_that_have_ended(monitors: Monitors) -> None:
    ended = [
        Kept(pid=7, max_memory=5, util=70, memory_util=35, time=61_250, running=0),
        Kept(pid=8, max_memory=5, util=NOT_AVAILABLE, memory_util=NOT_AVAILABLE, time=3, running=0),
    ]
    processes = [Process(pid) for pid in (7, 8, 9, 10)]
    monitors.begin(gpus=[Gpu(accounting=1, processes=processes), Gpu(accounting=0, processes=processes)])
    assert (monitors.look(0).ended, monitors.look(1).ended) == ((), ())
    left = [Gpu(accounting=1, processes=processes[3:], accounts=ended), Gpu(accounting=0, accounts=ended)]
    monitors.write(gpus=left, fail=[Failure('nvmlDeviceGet*RunningProcesses*', 4)])
    assert (monitors.look(0).ended, monitors.look(1).ended) == ((), ())  # they may still be there
    monitors.write(gpus=left)
    activity = monitors.look(0)
    assert sorted(activity.ended) == [Account(7, 70, 35, 61_250), Account(8, None, None, 3)]
    assert percents(activity) == {10: (0, 0)}
    assert (monitors.look(0).ended, monitors.look(1).ended) == ((), ())


@as_root
def test_switching_accounting_mode_on(fresh: Monitors) -> None:
    gpus = [
        Gpu(accounting=0, processes=[Process(7, sm=40)], accounts=[Kept(pid=7, max_memory=5, util=70)]),
        Gpu(accounting=1),
        Gpu(accounting=None),
        Gpu(missing=True),
    ]
    fresh.begin(now=5, gpus=gpus)
    assert percents(fresh.look()) == {7: (40, 0)}
    assert [fresh.keep_accounts(number) for number in range(4)] == [
        None,
        None,
        'this GPU does not support accounting mode (NVML code 3)',
        'lost: fallen off the bus or otherwise out of reach (NVML code 15)',
    ]
    assert [fresh.identity(number).keeps_accounts for number in range(4)] == [True, True, False, False]
    assert fresh.calls().count('SetAccountingMode') == 2
    assert accounts(fresh.look()) == {7: (70, 0)}


@as_root
def test_accounting_mode_that_is_on_need_not_be_switched_on_by_root(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Monitors(tmp_path_factory.mktemp('machine'), words=tuple(words_as_nobody())) as monitors:
        monitors.begin(gpus=[Gpu(accounting=0), Gpu(accounting=1)])
        assert [monitors.keep_accounts(number) for number in range(2)] == ['needs root (NVML code 4)', None]
        assert [monitors.identity(number).keeps_accounts for number in range(2)] == [False, True]


@as_root
def test_accounting_mode_that_the_driver_refuses_or_forgets(fresh: Monitors) -> None:
    fresh.begin(gpus=[Gpu(accounting=0)], fail=[Failure('nvmlDeviceSetAccountingMode', 999)])
    assert fresh.keep_accounts() == 'the driver refused to switch on accounting mode (NVML code 999)'
    fresh.begin(gpus=[Gpu(accounting=0)], fail=[Failure('nvmlDeviceGetAccountingMode', 999)])
    assert fresh.keep_accounts() == 'the driver has not done it'
