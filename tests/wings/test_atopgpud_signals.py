"""atopgpud in the background, and how it takes signals."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from typing import TYPE_CHECKING

import pytest

from support.atop.atop_daemon import AtopDaemon
from support.atop.atopgpud_program import NO_LOG, Manager, OwnSocket, has_handler, is_pending, said, taken
from support.atop.honest_client import bus_ids, busy, samples
from support.cli_program import PROGRAM, Marked
from support.gpus.gpu_machine import GIB, Machine
from support.own_network import OwnNetwork
from support.simulated_nvml import UNKNOWN, Failure, Gpu, Hang
from support.tracked_program import as_root
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

A = Gpu(uuid='GPU-a', name='NVIDIA H200', pci='00000000:17:00.0', total=80 * GIB, used=GIB, util=75)
B = Gpu(uuid='GPU-b', name='NVIDIA H100', pci='00000000:65:00.0', total=80 * GIB, used=GIB, util=30)


pytestmark = [pytest.mark.machine(gpus=[A])]


class Background(Marked):
    """Daemons in the background on a machine."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self._machine = machine

    def start(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Run the command to its end."""
        words = [*PROGRAM, 'atopgpud', '--daemon', *options]
        environment = self._machine.environment(self.environment)
        return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False)

    def kill(self) -> None:
        """Kill what lives."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def background(machine) -> Iterator[Background]:
    found = Background(machine)
    yield found
    found.kill()


def test_in_the_background_clients_are_answered_as_soon_as_the_command_has_ended(background) -> None:
    own = OwnSocket()
    ended = background.start(*own.options)
    assert (ended.returncode, ended.stdout) == (0, '')
    with own.client() as client:
        assert bus_ids(client) == [A.pci]
        assert busy(client) == [75]
        (daemon,) = background.processes()
        assert os.getsid(daemon) != os.getsid(0)
        before = samples(client)
        eventually(lambda: samples(client)[0] > before[0] + 3)
        os.kill(daemon, signal.SIGTERM)
        assert client.is_closed()
    eventually(lambda: not background.processes())


def test_what_stands_in_the_way_of_a_daemon_in_the_background_is_told_by_the_command(background) -> None:
    with socket.create_server(('127.0.0.1', 0)) as listener:
        port = listener.getsockname()[1]
        ended = background.start(f'--port={port}', f'--socket={OwnSocket().name}')
    assert (ended.returncode, ended.stdout) == (1, '')
    assert said(ended.stderr) == [taken(f'port {port} of 127.0.0.1')]
    eventually(lambda: not background.processes())


def test_without_a_gpu_nothing_stays_in_the_background(background, machine) -> None:
    machine.write(gpus=[])
    assert background.start(*OwnSocket().options).returncode == 0
    eventually(lambda: not background.processes())


@as_root
def test_sigterm_ends_it_with_success_and_the_next_one_serves_at_once(machine) -> None:
    """The daemon's end of a connection that it has closed stays for a minute, and keeps others from the port."""
    with OwnNetwork() as network:
        with AtopDaemon(machine, network=network) as daemon, daemon.over_tcp() as client, daemon.over_tcp() as other:
            assert busy(client) == [75]
            other.send(b'X\1')
            assert other.is_closed()
            other.close()
            assert daemon.end() == 0
            assert client.is_closed()
            assert said(daemon.log)[-1] == 'atopgpud: info: ended by SIGTERM'
        connections = network.start('cat', '/proc/net/tcp', stdout=subprocess.PIPE).communicate()[0]
        assert ' 0100007F:E6F3 0100007F:' in connections  # 127.0.0.1:59123
        with AtopDaemon(machine, network=network) as daemon, daemon.over_tcp() as client, daemon.over_socket() as other:
            assert busy(client) == busy(other) == [75]


def test_sigint_ends_it_by_sigint_without_a_traceback(machine) -> None:
    own = OwnSocket()
    with machine.started('atopgpud', *own.options) as process:
        eventually(own.is_served)
        process.send_signal(signal.SIGINT)
        printed, errors = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, printed) == (-signal.SIGINT, '')
    assert all(line.startswith('atopgpud: info: ') for line in said(errors))


def test_a_sigint_that_is_ignored_stays_ignored(machine) -> None:
    """A shell without job control starts what it puts in the background so."""
    own = OwnSocket()
    script = '"$@" & daemon=$!; read line; kill -INT $daemon; read line; kill $daemon; wait $daemon'
    words = ['/bin/bash', '-c', script, 'bash', *PROGRAM, 'atopgpud', *own.options]
    with subprocess.Popen(words, stdin=subprocess.PIPE, env=machine.environment(), text=True) as process:
        eventually(own.is_served)
        with own.client() as client:
            assert process.stdin is not None
            process.stdin.write('\n')
            process.stdin.flush()
            before = samples(client)
            eventually(lambda: samples(client)[0] > before[0] + 3)
        process.communicate('\n', timeout=TIMEOUT)
    assert process.returncode == 0


def told(daemon: AtopDaemon) -> list[str]:
    """Return the GPUs that a new client is told."""
    with daemon.over_socket() as client:
        return bus_ids(client)


def test_sighup_finds_gpus_that_have_come_or_gone_and_clients_keep_those_they_know(machine) -> None:
    with AtopDaemon(machine) as daemon, daemon.over_tcp() as early, daemon.over_socket() as another:
        assert busy(early) == busy(another) == [75]
        machine.write(gpus=[A, B])
        daemon.process.send_signal(signal.SIGHUP)
        eventually(lambda: told(daemon) == [A.pci, B.pci])
        before = samples(early)
        eventually(lambda: samples(early)[0] > before[0] + 3)
        assert busy(early) == busy(another) == [75]
        with daemon.over_tcp() as late:
            eventually(lambda: busy(late) == [75, 30])
            machine.write(gpus=[B])
            daemon.process.send_signal(signal.SIGHUP)
            eventually(lambda: told(daemon) == [B.pci])
            eventually(lambda: busy(late) == [-1, 30])
            gone, _ = late.statistics()
            assert gone == (-1, -1, 0, 0, gone.samples, -1, -1, gone.memory_total, ())
            assert busy(early) == [-1]
            assert bus_ids(early) == [B.pci]  # who asks again is told anew
            assert busy(early) == [30]
            machine.write(gpus=[])
            daemon.process.send_signal(signal.SIGHUP)
            eventually(lambda: busy(late) == [-1, -1])
            machine.write(gpus=[A, B])
            daemon.process.send_signal(signal.SIGHUP)
            eventually(lambda: busy(late) == [75, 30])
        assert daemon.end() == 0


@pytest.mark.parametrize('calls', ['nvmlInit*', 'nvmlDeviceGetUUID'])
def test_sighup_while_gpus_are_looked_for_the_first_time_changes_nothing(machine, calls) -> None:
    machine.write(gpus=[A], hang=[Hang(calls)])
    own = OwnSocket()
    with machine.started('atopgpud', *own.options) as process:
        eventually(lambda: has_handler(process.pid, signal.SIGHUP))
        eventually(lambda: calls == 'nvmlInit*' or machine.driver.calls())
        process.send_signal(signal.SIGHUP)
        eventually(lambda: not is_pending(process.pid, signal.SIGHUP))
        machine.write(gpus=[A])
        eventually(own.is_served)
        with own.client() as client:
            assert busy(client) == [75]
            before = samples(client)
            eventually(lambda: samples(client)[0] > before[0] + 3)
        found = machine.driver.calls()
        assert [call for call in found if call.startswith(('nvmlInit', 'nvmlShutdown'))] == ['nvmlInitWithFlags']
        process.send_signal(signal.SIGHUP)  # from now on it is heeded
        eventually(lambda: 'nvmlShutdown' in machine.driver.calls())
        eventually(lambda: machine.driver.calls().count('nvmlInitWithFlags') == 2)
        process.terminate()
        _, errors = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 0
        if NO_LOG in errors:  # else it went to the system log
            assert [line.count('searching for GPUs') for line in said(errors) if 'SIGHUP' in line] == [1]


def test_sighup_with_a_driver_that_fails_leaves_the_daemon_alive(machine) -> None:
    with AtopDaemon(machine) as daemon, daemon.over_tcp() as client:
        assert busy(client) == [75]
        counted = machine.driver.calls().count('nvmlDeviceGetCount_v2')
        for failure in (
            Failure('nvmlInit*', UNKNOWN),
            Failure('nvmlDeviceGetCount*', UNKNOWN, after=counted + 1),  # it stops working while it is opened
        ):
            machine.write(gpus=[A], fail=[failure])
            daemon.process.send_signal(signal.SIGHUP)
            eventually(lambda: busy(client) == [-1])
            assert bus_ids(client) == [A.pci]
            machine.write(gpus=[A])
            daemon.process.send_signal(signal.SIGHUP)
            eventually(lambda: busy(client) == [75])
            counted += 2


def test_systemd_is_told_when_it_is_ready_when_it_looks_for_gpus_and_when_it_ends(machine) -> None:
    own, manager = OwnSocket(), Manager()
    with machine.started('atopgpud', *own.options, env=manager.environment) as process:
        assert manager.state() == 'READY=1'
        assert own.is_served()
        process.send_signal(signal.SIGHUP)
        assert manager.state().startswith('RELOADING=1\nMONOTONIC_USEC=')
        assert manager.state() == 'READY=1'
        process.terminate()
        assert manager.state() == 'STOPPING=1'
        assert process.wait(TIMEOUT) == 0
    manager.close()
