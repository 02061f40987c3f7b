"""GPUs that only a program of an idle monitor uses: free for ``available``, whose claim makes the program leave."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.gpus.gpu_machine import GB, Machine, sees_all_processes
from support.idle.idle_monitor import IdleMonitor, config, make_gpus, process
from support.simulated_nvml import Gpu, Process
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

WAITING = 'gpu-tracker: waiting until the idle program on GPU 0 has left\n'
SHOW = ('printenv', 'CUDA_VISIBLE_DEVICES')
IN_USE = '  GPU 1 (NVIDIA Simulated GPU): 88.9 % of its memory is in use; at most 20 % may be\n'

pytestmark = sees_all_processes


def gpu(number: int, *processes: Process) -> Gpu:
    """Return a GPU whose device file has its number; with a process most of its memory is in use."""
    used = 8 * GB if processes else 0
    return Gpu(uuid=f'GPU-{number}', minor=number, total=9 * GB, used=used, processes=list(processes))


class Occupied(Machine):
    """A machine on whose GPU 0 an idle program is, as long as it lives, and on whose GPU 1 somebody else."""

    def occupy(self, monitor: IdleMonitor) -> int:
        """Let the driver list the idle program, and return its process ID."""
        pid = monitor.running('spare')
        self.write(gpus=[gpu(0, Process(pid, memory=8 * GB)), gpu(1, Process(1, memory=8 * GB))])
        return pid

    def leave(self) -> None:
        """Let the driver list the idle program no more."""
        self.write(gpus=[gpu(0), gpu(1, Process(1, memory=8 * GB))])


@pytest.fixture(scope='module')
def occupied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Occupied, IdleMonitor]]:
    folder = tmp_path_factory.mktemp('machine')
    make_gpus(folder, 2)
    machine = Occupied(folder)
    machine.write(gpus=[gpu(0), gpu(1)])
    environment = machine.driver.environment() | {'GPU_TRACKER_CLAIMS': str(machine.claims)}
    with IdleMonitor(folder, config(process('spare', 'sleep 3600')), environment=environment) as monitor:
        yield machine, monitor


@pytest.fixture
def machine(occupied: tuple[Occupied, IdleMonitor]) -> Occupied:
    """Return the machine of this file, without claims and with the idle program."""
    machine, monitor = occupied
    for claim in machine.claims.glob('*'):
        claim.unlink()
    machine.write(gpus=[gpu(0), gpu(1)])
    monitor.running('spare')
    return machine


@pytest.fixture
def monitor(occupied: tuple[Occupied, IdleMonitor]) -> IdleMonitor:
    return occupied[1]


def test_such_a_gpu_is_free_and_marked_in_the_table(machine: Occupied, monitor: IdleMonitor) -> None:
    machine.occupy(monitor)
    assert machine.available() == '0'
    assert [one['status'] for one in machine.gpus()] == ['free', 'in_use']
    rows = machine.told('gpus', '--no-color')[1].splitlines()[1:]
    assert [row.split()[:2] for row in rows] == [['0', '[i]'], ['1', '[~]']]


@pytest.mark.parametrize('claim', [(), ('--claim',)], ids=['without a claim', 'with a claim'])
def test_a_command_starts_when_the_program_has_left(machine: Occupied, monitor: IdleMonitor, claim) -> None:
    pid = machine.occupy(monitor)
    with machine.started('available', *claim, '-n', '1', '--', *SHOW) as command:
        assert command.stderr is not None
        assert command.stderr.readline() == WAITING
        reason = monitor.not_running('spare')
        assert reason.startswith('GPU 0 claimed by ')
        assert command.poll() is None  # the driver still lists the program, so the command has not begun
        machine.leave()
        printed, errors = command.communicate(timeout=TIMEOUT)
    assert (command.returncode, printed, errors) == (0, '0\n', '')
    eventually(lambda: monitor.running('spare', but=pid))


def test_a_claim_for_a_time_keeps_the_program_away(machine: Occupied, monitor: IdleMonitor) -> None:
    machine.occupy(monitor)
    with machine.started('available', '--claim', '--claim-seconds=10000') as claiming:
        monitor.not_running('spare')
        machine.leave()
        printed, errors = claiming.communicate(timeout=TIMEOUT)
    assert (claiming.returncode, printed, errors) == (0, '0\n', WAITING)
    assert monitor.not_running('spare').startswith('GPU 0 claimed by ')
    assert [one['status'] for one in machine.gpus()] == ['claimed', 'in_use']


def test_a_gpu_that_somebody_else_uses_too_is_not_free(machine: Occupied, monitor: IdleMonitor) -> None:
    pid = monitor.running('spare')
    both = [Process(pid, memory=GB), Process(1, memory=7 * GB)]
    machine.write(gpus=[gpu(0, *both), gpu(1, Process(1, memory=8 * GB))])
    code, _, errors = machine.told('available')
    assert (code, errors.splitlines()[-1] + '\n') == (1, IN_USE)
