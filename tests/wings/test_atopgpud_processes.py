"""What atopgpud tells of processes on GPUs, in both versions of atop's protocol."""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from support.atop.atop_client import GpuType, processes_of
from support.atop.atop_daemon import AtopDaemon
from support.atop.atop_gpus import COMPUTE_ONLY, H200, NOT_SUPPORTED, OLD, ONE, OTHER
from support.gpus.gpu_machine import GIB, Machine, running
from support.simulated_nvml import Account, Failure, Gpu, Process
from support.tracked_program import as_root
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.atop.atop_client import AtopClient, GpuFigures
    from support.own_network import OwnNetwork

pytestmark = [pytest.mark.machine(gpus=[H200, OLD], fail=[COMPUTE_ONLY])]


@pytest.fixture(scope='module')
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AtopDaemon]:
    machine = Machine(tmp_path_factory.mktemp('machine'))
    machine.write(gpus=[H200, OLD], fail=[COMPUTE_ONLY])
    with AtopDaemon(machine) as daemon:
        yield daemon


@pytest.fixture
def daemon(shared: AtopDaemon) -> AtopDaemon:
    """Return the daemon of this file, which has read the two GPUs as they are at first."""
    shared.machine.write(gpus=[H200, OLD], fail=[COMPUTE_ONLY])
    with shared.over_tcp() as client:
        eventually(lambda: [len(gpu.processes) for gpu in client.statistics()] == [2, 1])
    return shared


def states(client: AtopClient, pid: int) -> list[str | None]:
    """Ask, and return the state that a process has in each GPU's section."""
    return [record and record.state for record in processes_of(client.statistics(), pid)]


def changed(client: AtopClient, pid: int, before: list[str | None]) -> tuple[GpuFigures, ...]:
    """Ask, and return the answer where the states of a process are not those that they were."""
    gpus = client.statistics()
    return () if [record and record.state for record in processes_of(gpus, pid)] == before else gpus


def test_the_end_of_a_process_is_told_once_to_each_client_in_the_section_of_its_gpu(
    daemon: AtopDaemon,
) -> None:
    machine = daemon.machine
    with daemon.over_tcp() as first, daemon.over_socket() as second, daemon.over_socket(1) as third:
        for client in (first, second, third):
            assert states(client, ONE) == ['A', 'A']
        machine.write(gpus=[H200, replace(OLD, processes=[])], fail=[COMPUTE_ONLY])
        _, ended = processes_of(eventually(lambda: changed(first, ONE, ['A', 'A'])), ONE)
        assert ended == ('E', ONE, 10, 5, 0, 262144, 262144 * ended.samples, ended.samples)
        assert states(first, ONE) == ['A', None]
        still, ended = processes_of(second.statistics(), ONE)
        assert (still.state, still.type) == ('A', 'C')
        count = ended.samples
        assert ended == ('E', ONE, 'C', 10 * count, 5 * count, 262144, 262144 * count, count)
        with daemon.over_tcp() as late:
            assert states(late, ONE) == ['A', None]
            machine.write(gpus=[replace(H200, processes=[]), replace(OLD, processes=[])], fail=[COMPUTE_ONLY])
            assert eventually(lambda: states(late, OTHER) == ['E', None])
            assert states(late, OTHER) == states(late, ONE) == [None, None]
        assert states(second, ONE) == ['E', None]  # and not what it was told before
        assert states(second, ONE) == [None, None]
        assert states(third, ONE) == ['E', 'E']
        assert states(third, ONE) == [None, None]
        assert states(first, ONE) == ['E', None]


def sums(client: AtopClient, pid: int) -> tuple[int, int]:
    """Ask, and return what atop adds up of a process: samples and memory."""
    records = [record for record in processes_of(client.statistics(), pid) if record]
    return sum(record.samples for record in records), sum(record.memory_total for record in records)


def test_a_process_that_leaves_a_gpu_and_lives_on_has_not_ended(daemon: AtopDaemon) -> None:
    machine = daemon.machine
    with running() as pid, daemon.over_tcp() as client, daemon.over_socket() as other:
        on_first, on_second = ([Process(pid, memory=memory, sm=70, memory_util=35)] for memory in (3 * GIB, GIB))
        machine.write(gpus=[replace(H200, processes=on_first), replace(OLD, processes=on_second)])
        assert eventually(lambda: states(client, pid) == ['A', 'A'])
        before = processes_of(client.statistics(), pid)[0].samples
        told = [sums(client, pid)]
        machine.write(gpus=[replace(H200, processes=[]), replace(OLD, processes=on_second)])
        assert eventually(lambda: told.append(sums(client, pid)) or states(other, pid) == [None, 'A'])
        machine.write(gpus=[replace(H200, processes=on_first), replace(OLD, processes=on_second)])
        assert eventually(lambda: told.append(sums(client, pid)) or states(other, pid) == ['A', 'A'])
        told.append(sums(client, pid))
        assert told == sorted(told)
        assert processes_of(client.statistics(), pid)[0].samples > before
    machine.write(gpus=[replace(H200, processes=[]), replace(OLD, processes=[])])
    with daemon.over_tcp() as late:
        assert eventually(lambda: states(late, pid) == [None, None])


def test_looking_for_gpus_again_ends_no_process(daemon: AtopDaemon) -> None:
    machine = daemon.machine
    with running() as pid, daemon.over_tcp() as client:
        on_both = [replace(gpu, processes=[Process(pid, memory=GIB)]) for gpu in (H200, OLD)]
        machine.write(gpus=on_both)
        assert eventually(lambda: states(client, pid) == ['A', 'A'])
        machine.write(gpus=[replace(H200, processes=[]), on_both[1]])
        assert eventually(lambda: states(client, pid) == [None, 'A'])
        before = [gpu.samples for gpu in client.statistics()]
        daemon.process.send_signal(signal.SIGHUP)
        assert eventually(lambda: 'searching for GPUs again' in daemon.log)
        told = []
        eventually(lambda: told.append(states(client, pid)) or client.statistics()[0].samples > before[0] + 3)
        assert [one for one in told if 'E' in one] == []
        machine.write(gpus=on_both)
        assert eventually(lambda: states(client, pid) == ['A', 'A'])


def test_a_process_that_cannot_be_seen_has_ended_when_it_leaves(daemon: AtopDaemon) -> None:
    machine = daemon.machine
    with daemon.over_tcp() as client, daemon.over_tcp() as watcher:
        assert states(client, ONE) == ['A', 'A']
        machine.write(gpus=[replace(H200, processes=[]), OLD], fail=[COMPUTE_ONLY])
        assert eventually(lambda: states(watcher, ONE) == [None, 'A'])
        machine.write(gpus=[H200, OLD], fail=[COMPUTE_ONLY])
        assert eventually(lambda: states(watcher, ONE) == ['A', 'A'])
        gpu, _ = client.statistics()
        assert [(process.state, process.samples >= 1) for process in gpu.processes if process.pid == ONE] == [
            ('A', True),
            ('E', True),
        ]


def test_types_of_processes(machine: Machine) -> None:
    both = [Process(3, types='C', memory=2 * GIB), Process(3, types='G', memory=2 * GIB)]
    processes = [Process(1, memory=4 * GIB), Process(2, types='G', memory=3 * GIB), *both, Process(4, types='CG')]
    machine.write(gpus=[Gpu(total=16 * GIB, processes=processes), Gpu(processes=processes[1:3])])
    with AtopDaemon(machine) as daemon, daemon.over_socket() as client:
        eventually(lambda: client.statistics()[0].samples > 2)
        found = [
            {process.pid: (process.type, process.memory, process.samples - gpu.samples) for process in gpu.processes}
            for gpu in client.statistics()
        ]
    assert found == [
        {1: ('C', 4194304, 0), 2: ('G', 3145728, 0), 3: ('U', 2097152, 0), 4: ('U', 0, 0)},
        {2: ('G', 3145728, 0), 3: ('C', 2097152, 0)},
    ]


def accounting_gpu(*processes: Process, **account: int) -> Gpu:
    kept = Account(pid=ONE, max_memory=GIB, util=55, memory_util=22, **account)
    return replace(H200, accounting=1, processes=list(processes), accounts=[kept])


def test_figures_of_processes_come_from_accounts_where_they_are_kept(machine: Machine) -> None:
    lives = Process(ONE, memory=3 * GIB, sm=70, memory_util=35)
    machine.write(gpus=[accounting_gpu(lives)])
    with AtopDaemon(machine) as daemon, daemon.over_tcp() as client:
        assert client.types()[0] == GpuType('00000000:17:00.0', 'NVIDIA_H200', 3)
        (process,) = client.statistics()[0].processes
        count = process.samples
        assert process == ('A', ONE, 55, 22, 0, 3145728, 3145728 * count, count)
        machine.write(gpus=[accounting_gpu(running=0, time=98765)])
        (gpu,) = eventually(lambda: changed(client, ONE, ['A']))
        (process,) = gpu.processes
        count = process.samples
        assert process == ('E', ONE, 55, 22, 98765, 3145728, 3145728 * count, count)


def test_accounts_are_no_figures_of_now_in_version_2(machine: Machine) -> None:
    """A client of version 2 takes the difference of two sums, and shows it as the load of an interval."""
    machine.write(gpus=[accounting_gpu(Process(ONE, memory=GIB, sm=0, memory_util=0))])
    with AtopDaemon(machine) as daemon, daemon.over_tcp() as client, daemon.over_socket() as typed:
        (process,) = eventually(lambda: processes_of(typed.statistics(), ONE))
        assert process[:5] == ('A', ONE, 'C', 0, 0)
        (process,) = processes_of(client.statistics(), ONE)
        assert process[:4] == ('A', ONE, 55, 22)


def test_percentages_of_a_process_are_known_on_all_its_gpus_or_on_none(machine: Machine) -> None:
    """Atop adds them up, also those of an end."""
    fail = [Failure('nvmlDeviceGetProcess*Utilization*', NOT_SUPPORTED, gpu=1)]
    machine.write(gpus=[accounting_gpu(Process(ONE), Process(OTHER)), OLD], fail=fail)
    with AtopDaemon(machine) as daemon, daemon.over_tcp() as client, daemon.over_socket() as typed:
        assert [process[2:4] for process in processes_of(client.statistics(), ONE)] == [(-1, -1), (-1, -1)]
        assert [process[3:5] for process in processes_of(typed.statistics(), ONE)] == [(-1, -1), (-1, -1)]
        machine.write(gpus=[accounting_gpu(Process(OTHER), running=0, time=1000), OLD], fail=fail)
        gpus = eventually(lambda: changed(client, ONE, ['A', 'A']))
        assert [process[:4] for process in processes_of(gpus, ONE)] == [('E', ONE, -1, -1), ('A', ONE, -1, -1)]
        gpus = typed.statistics()
        assert [process[:5] for process in processes_of(gpus, ONE)] == [
            ('E', ONE, 'C', -1, -1),
            ('A', ONE, 'C', -1, -1),
        ]


@as_root
def test_accounting_mode_is_switched_on_when_it_is_asked_for(machine: Machine, network: OwnNetwork) -> None:
    machine.write(gpus=[replace(accounting_gpu(Process(ONE, memory=GIB)), accounting=0), OLD])
    with AtopDaemon(machine, '--enable-accounting', network=network) as daemon, daemon.over_tcp() as client:
        assert [gpu.task_support for gpu in client.types()] == [3, 1]
        assert client.statistics()[0].processes[0].busy == 55
        assert 'switched on accounting mode of GPU 0 (NVIDIA H200, 00000000:17:00.0)' in daemon.log
        assert 'accounting mode of GPU 1' in daemon.log
    assert machine.driver.calls().count('nvmlDeviceSetAccountingMode') == 2
