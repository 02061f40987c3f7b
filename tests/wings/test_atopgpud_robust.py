"""atopgpud where its driver and time are against it."""

from __future__ import annotations

import pickle
import signal
import uuid
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.atopgpud.ledger import Ledger
from gpu_tracker.atopgpud.ledger import ListedGpu as KnownGpu
from gpu_tracker.gpus.model import Account, GpuProcess
from support.atop.atop_client import parsed_statistics
from support.atop.atop_daemon import AtopDaemon
from support.atop.atopgpud_program import has_handler
from support.atop.honest_client import BUS_IDS, BUSY, GPUS, bus_ids, busy, samples
from support.gpus.gpu_machine import GIB, NO_SUCH_PROCESS
from support.gpus.gpu_readings import known, monitored
from support.own_network import OwnNetwork
from support.simulated_nvml import GPU_IS_LOST, Failure, Gpu, Hang, Process
from support.tracked_program import MEGABYTE, as_root
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from collections.abc import Sequence

HANGS = 'nvmlDeviceGetMemoryInfo*'

pytestmark = pytest.mark.machine(gpus=GPUS)


def test_a_driver_that_hangs_from_the_start_costs_the_figures_of_its_gpu_only(machine) -> None:
    machine.write(gpus=GPUS, hang=[Hang(HANGS, 3600, gpu=1)])
    with AtopDaemon(machine) as daemon, daemon.over_tcp() as client, daemon.over_socket() as other:
        for one in (client, other):
            assert bus_ids(one) == BUS_IDS
            assert busy(one) == [75, -1]
            assert one.statistics()[1] == (-1, -1, 0, 0, 0, -1, -1, 0, ())
        daemon.process.send_signal(signal.SIGHUP)
        before = samples(client)
        while samples(client)[0] < before[0] + 5:
            assert busy(other) == [75, -1]
            with daemon.over_tcp() as late:
                assert bus_ids(late) == BUS_IDS
        machine.write(gpus=GPUS)
        eventually(lambda: busy(client) == busy(other) == BUSY)


@as_root
def test_a_driver_that_begins_to_hang_makes_its_gpu_unknown_until_it_ends(machine) -> None:
    with (
        OwnNetwork() as network,
        AtopDaemon(machine, network=network) as daemon,
        daemon.over_tcp() as client,
        daemon.over_socket() as other,
    ):
        machine.write(gpus=GPUS, hang=[Hang(HANGS, 3600, gpu=1)])
        eventually(lambda: samples(client)[0] > samples(client)[1] + 5)
        assert busy(client) == BUSY  # it is told as it was read last, for as long as that is worth something
        eventually(lambda: busy(client) != BUSY)
        assert busy(client) == busy(other) == [75, -1]
        machine.write(gpus=GPUS)
        eventually(lambda: busy(client) == BUSY)
        for message in ('has not answered in time: its figures are unknown until it does', 'works again'):
            assert [line.count('GPU 1 (') for line in daemon.log.splitlines() if message in line] == [1]


@pytest.mark.parametrize('calls', [HANGS, 'nvmlShutdown'])
def test_a_driver_that_hangs_keeps_nobody_from_ending_the_daemon(machine, calls) -> None:
    machine.write(gpus=GPUS, hang=[Hang(calls, 3600, gpu=1 if calls == HANGS else None)])
    with AtopDaemon(machine) as daemon, daemon.over_tcp() as client:
        assert busy(client) == [75, -1 if calls == HANGS else 30]
        assert daemon.end() == 0


@pytest.mark.parametrize('calls', ['nvmlInit*', 'nvmlDeviceGet*RunningProcesses*'])
def test_a_driver_that_hangs_before_anybody_is_served_keeps_nobody_from_ending_the_daemon(machine, calls) -> None:
    machine.write(gpus=GPUS, hang=[Hang(calls, 3600)])
    with machine.started('atopgpud', '--port=0', f'--socket=test-{uuid.uuid4()}') as process:
        eventually(lambda: has_handler(process.pid, signal.SIGHUP))
        eventually(lambda: calls == 'nvmlInit*' or machine.driver.calls())
        process.terminate()
        assert process.wait(TIMEOUT) == 0


@as_root
def test_a_gpu_that_is_lost_for_a_while_is_logged_once_and_so_is_its_return(machine) -> None:
    with OwnNetwork() as network, AtopDaemon(machine, network=network) as daemon, daemon.over_tcp() as client:
        for _ in range(2):
            machine.write(gpus=GPUS, fail=[Failure('nvmlDevice*', GPU_IS_LOST, gpu=0)])
            eventually(lambda: busy(client) == [-1, 30])
            before = samples(client)
            eventually(lambda before=before: samples(client)[1] > before[1] + 3)
            assert samples(client)[0] == before[0]
            machine.write(gpus=GPUS)
            eventually(lambda: busy(client) == BUSY)
        label = 'GPU 0 (NVIDIA Simulated GPU, 00000000:01:00.0)'
        # A reading during which the GPU is lost may say before that something of it could not be read.
        of_gpu = [line for line in daemon.log.splitlines() if label in line]
        lines = [line for line in of_gpu if f'{label}: lost' in line or line.endswith('works again')]
        assert lines == 2 * [
            f'atopgpud: warning: {label}: lost: fallen off the bus or otherwise out of reach (NVML code 15)',
            f'atopgpud: warning: {label}: works again',
        ]


class Week:
    """A GPU on which processes come and go at each reading."""

    def __init__(self) -> None:
        self.ledger = Ledger(3.0)
        self.ledger.show([KnownGpu('GPU-a', known(0, 'GPU-a', lists_compute=True))], 0.0)
        self.idle = self.ledger.welcome()
        self._pid = 1
        self._readings = 0

    def read(self, times: int) -> None:
        for _ in range(times):
            before, self._pid = self._pid, self._pid % NO_SUCH_PROCESS + 20
            self._readings += 1
            processes = tuple(GpuProcess(pid, 2**40, utilization=100) for pid in range(self._pid, self._pid + 20))
            ended = tuple(Account(pid, 100, 100, 2**40) for pid in range(before, before + 20))
            activity = monitored(None, 100, 100, 2**50, 2**50, processes, ended=ended)
            starts = {process.pid: float(self._readings) for process in processes}
            self.ledger.take('GPU-a', activity, starts, float(self._readings))

    def size(self) -> int:
        return len(pickle.dumps(self.ledger))


def test_what_is_kept_does_not_grow_with_time() -> None:
    """A week has 604,800 readings; sums grow by digits only, and what is kept of processes not at all."""
    week = Week()
    week.read(100)
    before = week.size()
    visitor = week.ledger.welcome()
    week.read(400)
    assert week.size() < 1.01 * before
    for client in (visitor, week.idle):
        (gpu,) = parsed_statistics(week.ledger.statistics(1, client)[4:].decode(), 1)
        assert gpu[:8] == (100, 100, 2**40, 2**40, 500, 50_000, 50_000, 500 * 2**40)
        assert 'E' in {process.state for process in gpu.processes}
        (gpu,) = parsed_statistics(week.ledger.statistics(2, client)[4:].decode(), 2)
        assert [process.state for process in gpu.processes] == 20 * ['A']


def test_the_daemon_does_not_grow_while_processes_come_and_go(machine) -> None:
    def gpus(number: int) -> Sequence[Gpu]:
        processes = [Process(NO_SUCH_PROCESS - 20 * number - other, memory=GIB, sm=5) for other in range(20)]
        return [Gpu(total=80 * GIB, used=4 * GIB, util=75, processes=processes)] * 4

    with AtopDaemon(machine, interval=0.01) as daemon, daemon.over_tcp() as client, daemon.over_socket() as idle:
        machine.write(gpus=gpus(0))
        idle.types()
        number = 0

        def come_and_go(readings: int) -> int:
            nonlocal number
            end = samples(client)[0] + readings
            while samples(client)[0] < end:
                number += 1
                machine.write(gpus=gpus(number))
            return daemon.resident_bytes

        before = come_and_go(40)
        assert come_and_go(60) - before < 4 * MEGABYTE
        assert 'E' in {process.state for gpu in idle.statistics() for process in gpu.processes}
