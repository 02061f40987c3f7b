"""What atopgpud answers, in both versions of atop's protocol, to a client of the tests' own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.atop.atop_client import interval
from support.atop.atop_daemon import AtopDaemon
from support.atop.atop_gpus import COMPUTE_ONLY, H200, OLD, ONE, OTHER
from support.gpus.gpu_machine import GIB, Machine
from support.simulated_nvml import GPU_IS_LOST, Failure, Gpu, Process
from support.tracked_program import as_root
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.atop.atop_client import AtopClient
    from support.own_network import OwnNetwork

ONCE = 60
"""An interval with which the GPUs are read once, when the daemon starts."""


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


def over_tcp(daemon: AtopDaemon) -> AtopClient:
    return daemon.over_tcp()


def over_socket_as_before(daemon: AtopDaemon) -> AtopClient:
    return daemon.over_socket(1)


def over_socket(daemon: AtopDaemon) -> AtopClient:
    return daemon.over_socket(2)


VERSION_1 = (
    '@75 40 83886080 4194304 1 75 40 4194304'
    f'#A {ONE} 70 35 0 3145728 3145728 1'
    f'#A {OTHER} 5 0 0 1048576 1048576 1'
    '@-1 -1 2097152 524288 1 -1 -1 524288'
    f'#A {ONE} 10 5 0 262144 262144 1'
)
VERSION_2 = (
    '@75 40 83886080 4194304 1 75 40 4194304'
    f'#A {ONE} C 70 35 3145728 3145728 1'
    f'#A {OTHER} U 5 0 1048576 1048576 1'
    '@-1 -1 2097152 524288 1 -1 -1 524288'
    f'#A {ONE} C 10 5 262144 262144 1'
)


def test_answers_word_for_word(machine: Machine) -> None:
    with AtopDaemon(machine, interval=ONCE) as daemon:
        for connect in (over_tcp, over_socket_as_before):
            with connect(daemon) as client:
                types = '2@00000000:17:00.0 NVIDIA_H200 1@00000000:65:00.0 NVIDIA_GeForce_GT_710 1'
                assert client.ask('T', 1) == (1, types)
                assert client.ask('S', 1) == (1, VERSION_1)
                assert client.ask('S', 1) == (1, VERSION_1)
        with over_socket(daemon) as client:
            types = '2@00000000:17:00.0 NVIDIA_H200 3@00000000:65:00.0 NVIDIA_GeForce_GT_710 1'
            assert client.ask('T', 2) == (2, types)
            assert client.ask('S', 2) == (2, VERSION_2)
        with over_tcp(daemon) as client:
            assert client.ask('S', 1) == (1, VERSION_1)  # a client need not have asked which GPUs there are


def test_a_version_that_is_not_spoken_is_answered_in_the_highest(daemon: AtopDaemon) -> None:
    asked = (0, 1, 2, 3, 255)
    with daemon.over_tcp() as tcp, daemon.over_socket() as socket:
        for command in ('T', 'S'):
            assert [tcp.ask(command, version).version for version in asked] == [1, 1, 1, 1, 1]
            assert [socket.ask(command, version).version for version in asked] == [2, 1, 2, 2, 2]


@as_root
def test_what_is_no_request_is_logged_and_ends_the_connection(machine: Machine, network: OwnNetwork) -> None:
    with AtopDaemon(machine, network=network) as daemon, daemon.over_tcp() as other:
        for connect in (daemon.over_tcp, daemon.over_socket):
            with connect() as client:
                client.send(b'X\1')
                assert client.is_closed()
        assert eventually(lambda: daemon.log.count("sent an unknown request: b'X\\x01'") == 2)
        for connect in (daemon.over_tcp, daemon.over_socket):
            with connect() as client:
                client.send(b'T\1S')
                client.answer()
                client.finish()
                assert client.is_closed()
        assert eventually(lambda: daemon.log.count("after an incomplete request: b'S'") == 2)
        assert len(other.statistics()) == 2


def test_names_without_what_would_end_them(machine: Machine) -> None:
    machine.write(gpus=[Gpu(name='NVIDIA @ #1 RTX™ 5090'), Gpu(name=' '), Gpu(name='x' * 95)])
    with AtopDaemon(machine, interval=ONCE) as daemon, daemon.over_tcp() as client:
        names = [gpu.name for gpu in client.types()]
    assert names == ['NVIDIA____1_RTX__5090', '_', 'x' * 95]


def test_cumulative_figures_grow_by_each_sample_from_zero_on(daemon: AtopDaemon) -> None:
    with daemon.over_tcp() as first, daemon.over_socket() as second:
        before, typed = first.statistics(), second.statistics()
        for gpus in (before, typed):
            count = gpus[0].samples
            assert gpus[0][:8] == (75, 40, 83886080, 4194304, count, 75 * count, 40 * count, 4194304 * count)
        now = eventually(lambda: gpus if (gpus := first.statistics())[0].samples > before[0].samples + 5 else ())
        gpu = interval(before[0], now[0])
        assert gpu == (gpu.samples, 75 * gpu.samples, 40 * gpu.samples, 4194304 * gpu.samples)
        gpu = interval(before[1], now[1])
        assert gpu == (gpu.samples, -1, -1, 524288 * gpu.samples)
        (process, other), (elsewhere,) = (gpu.processes for gpu in now)
        assert process == ('A', ONE, 70, 35, 0, 3145728, 3145728 * process.samples, process.samples)
        assert process.samples == now[0].samples
        assert other == ('A', OTHER, 5, 0, 0, 1048576, 1048576 * other.samples, other.samples)
        assert elsewhere == ('A', ONE, 10, 5, 0, 262144, 262144 * elsewhere.samples, elsewhere.samples)
        process, other = second.statistics()[0].processes
        count = process.samples
        assert process == ('A', ONE, 'C', 70 * count, 35 * count, 3145728, 3145728 * count, count)
        assert other == ('A', OTHER, 'U', 5 * count, 0, 1048576, 1048576 * count, count)


def test_a_lost_gpu_is_unknown_and_when_it_is_back_its_figures_go_on_without_a_jump(
    daemon: AtopDaemon,
) -> None:
    machine = daemon.machine
    lost = Failure('nvmlDevice*', GPU_IS_LOST, gpu=0)
    with daemon.over_tcp() as client, daemon.over_socket() as other:
        before, _ = other.statistics()
        machine.write(gpus=[H200, OLD], fail=[lost, COMPUTE_ONLY])
        gone, working = eventually(lambda: gpus if (gpus := client.statistics())[0].busy == -1 else ())
        assert gone == (-1, -1, 0, 0, gone.samples, -1, -1, 4194304 * gone.samples, ())
        assert working.processes != ()
        machine.write(gpus=[H200, OLD], fail=[COMPUTE_ONLY])
        back, _ = eventually(lambda: gpus if (gpus := client.statistics())[0].busy != -1 else ())
        passed = interval(gone, back)
        assert passed == (passed.samples, 75 * passed.samples, 40 * passed.samples, 4194304 * passed.samples)
        again = interval(back, client.statistics()[0])
        assert again == (again.samples, 75 * again.samples, 40 * again.samples, 4194304 * again.samples)
        # A client that was never told that it was unknown sees nothing of it but fewer samples.
        passed = interval(before, other.statistics()[0])
        assert passed == (passed.samples, 75 * passed.samples, 40 * passed.samples, 4194304 * passed.samples)


def test_an_answer_is_never_longer_than_atop_accepts(machine: Machine) -> None:
    """The processes with the least memory are left out, and each of them on all GPUs."""
    shared = [Process(pid, memory=(pid - 999) * GIB // 64) for pid in range(1000, 1200)]
    machine.write(gpus=[Gpu(total=80 * GIB, processes=shared)] * 8)
    with AtopDaemon(machine) as daemon, daemon.over_tcp() as client, daemon.over_socket() as typed:
        eventually(lambda: all(gpu.samples for gpu in client.statistics()))  # which clients do not wait long for
        for gpus in (client.statistics(), typed.statistics()):
            told = [{process.pid for process in gpu.processes} for gpu in gpus]
            assert len(told) == 8
            assert 10 <= len(told[0]) < 200
            assert told == [set(range(1200 - len(told[0]), 1200))] * 8
        assert len(client.ask('S', 1).text) > 7800
        assert len(typed.ask('S', 2).text) > 7800
