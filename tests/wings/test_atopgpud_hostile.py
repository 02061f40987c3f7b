"""Clients that mean atopgpud harm, or that are many; one that means well is answered all the while."""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import signal
import socket
import struct
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from support.atop.atop_client import parsed_statistics
from support.atop.atop_daemon import SOCKET, AtopDaemon
from support.atop.honest_client import BUSY, GPUS, asking, busy
from support.gpus.gpu_machine import Machine, words_as_nobody
from support.own_network import OwnNetwork
from support.tracked_program import MEGABYTE, as_root
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DESCRIPTORS = 900
"""What the clients of a test need."""


pytestmark = [pytest.mark.machine(gpus=GPUS)]


@pytest.fixture(scope='module')
def daemon(tmp_path_factory) -> Iterator[AtopDaemon]:
    """Give the daemon that has to outlive all clients of this file."""
    machine = Machine(tmp_path_factory.mktemp('machine'))
    machine.write(gpus=GPUS)
    with AtopDaemon(machine) as daemon:
        yield daemon
        assert daemon.end() == 0


@pytest.fixture
def honest(daemon) -> Iterator[Callable[[], None]]:
    """Ask all the while, and see afterwards that the daemon has given all descriptors back."""
    before = descriptors(daemon)
    with asking(daemon) as go_on:
        yield go_on
    eventually(lambda: descriptors(daemon) == before)


def descriptors(daemon: AtopDaemon) -> int:
    return len(os.listdir(f'/proc/{daemon.pid}/fd'))


def sockets_of(daemon: AtopDaemon, count: int) -> Iterator[socket.socket]:
    """Give connected sockets, of both kinds."""
    for number in range(count):
        yield (daemon.over_socket() if number % 2 else daemon.over_tcp())._connection


@pytest.mark.parametrize('beginning', [b'', b'T\1', b'S\2S\1'])
def test_random_bytes(daemon, honest, beginning) -> None:
    source = random.Random(20)  # noqa: S311 - for bytes that are the same each time
    for connection in sockets_of(daemon, 30):
        with connection, contextlib.suppress(ConnectionError, BlockingIOError):
            connection.sendall(beginning + source.randbytes(source.choice([1, 2, 3, 1000, 50_000])))
            connection.setblocking(False)
            connection.recv(source.choice([1, 1000]))


def test_requests_of_one_byte_at_a_time(daemon, honest) -> None:
    clients = [daemon.over_tcp(), daemon.over_socket(), daemon.over_tcp(), daemon.over_socket()]
    with contextlib.ExitStack() as stack:
        for client in clients:
            stack.enter_context(client)
        for byte in b'T\1S\1' * 2:
            for client in clients:
                client.send(bytes([byte]))
            honest()
        for client in clients:
            for _ in range(2):
                assert client.answer().text.startswith('2@')
                assert parsed_statistics(client.answer().text, 1)[0].busy == 75


def test_half_a_request_and_silence(daemon, honest) -> None:
    connections = list(sockets_of(daemon, 30))
    for connection in connections:
        connection.sendall(b'S')
    honest()
    for connection in connections:
        connection.sendall(b'\1')
        assert connection.recv(1) == b'\1'
        connection.close()


def test_asking_without_end_and_never_reading(daemon, honest) -> None:
    """The daemon reads no more of a client that does not take its answers: only the kernel's buffers fill up."""
    before = daemon.resident_bytes
    connections = list(sockets_of(daemon, 20))
    for connection in connections:
        connection.setblocking(False)
    for _ in range(2):
        for connection in connections:
            with contextlib.suppress(BlockingIOError):
                while True:
                    connection.send(b'S\1' * 5000)
        honest()
    assert daemon.resident_bytes - before < 8 * MEGABYTE
    for connection in connections:
        connection.close()


def test_reading_one_byte_at_a_time(daemon, honest) -> None:
    """An answer to each of many is waiting all the while."""
    connections = list(sockets_of(daemon, 20))
    for connection in connections:
        connection.sendall(b'S\1' * 200)
    for _ in range(50):
        for connection in connections:
            assert len(connection.recv(1)) == 1
    honest()
    for connection in connections:
        connection.close()


def test_coming_and_going_in_a_loop(daemon, honest) -> None:
    for connection in sockets_of(daemon, 100):
        connection.close()


def test_connections_that_are_reset(daemon, honest) -> None:
    linger = struct.pack('ii', 1, 0)  # a close sends RST, socket(7)
    for sent in (b'', b'T', b'T\1', b'S\1' * 1000):
        for connection in sockets_of(daemon, 20):
            connection.sendall(sent)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            connection.close()
        honest()


def test_connections_that_are_half_closed(daemon, honest) -> None:
    for connection in sockets_of(daemon, 20):
        with connection:
            connection.sendall(b'S\1T\1')
            connection.shutdown(socket.SHUT_WR)
            received = b''
            while more := connection.recv(65536):
                received += more
            assert received.endswith(b'@00000000:02:00.0 NVIDIA_Simulated_GPU 1')


def test_descriptors_that_are_passed_along_stay_nowhere(daemon, honest) -> None:
    with daemon.over_socket() as client, open(os.devnull) as file:
        for _ in range(40):
            socket.send_fds(client._connection, [b'T\1'], [file.fileno()] * 10)
            assert client.answer().text.startswith('2@')


@as_root
def test_what_hostile_clients_do_is_logged_but_fills_no_disk(machine) -> None:
    with OwnNetwork() as network, AtopDaemon(machine, network=network) as daemon, asking(daemon):
        before = len(daemon.log)
        for number in range(40):
            with (daemon.over_tcp if number % 2 else daemon.over_socket)() as client:
                client.send(b'X\1')
                assert client.is_closed()
        lines = daemon.log[before:].splitlines()
        assert lines == ["atopgpud: warning: a client sent an unknown request: b'X\\x01'"] * 10


@pytest.fixture
def enough_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS:
        pytest.skip(f'needs root, or a limit of {DESCRIPTORS} descriptors')
    if soft != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, DESCRIPTORS), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_hundreds_of_clients_at_once(daemon, honest, enough_descriptors) -> None:
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(daemon.over_tcp(1)) for _ in range(150)]
        clients += [stack.enter_context(daemon.over_socket(1)) for _ in range(150)]
        for _ in range(2):
            for client in clients:
                client.send(b'T\1S\1')
            for client in clients:
                assert client.answer().text.startswith('2@00000000:01:00.0 NVIDIA_Simulated_GPU ')
                gpus = client.answer().text.split('@')[1:]
                assert [gpu.split()[:2] for gpu in gpus] == [['75', '40'], ['30', '20']]
        honest()


class FewDescriptors(OwnNetwork):
    """A network in which a program may have no more than 32 clients of each kind."""

    def words(self, *words: str) -> list[str]:
        return super().words('sh', '-c', 'ulimit -n 320; exec "$@"', 'sh', *words)


@as_root
def test_where_there_are_too_many_those_who_ask_stay_and_others_can_come(machine, enough_descriptors) -> None:
    with FewDescriptors() as network, AtopDaemon(machine, network=network) as daemon, contextlib.ExitStack() as stack:
        good = [stack.enter_context(daemon.over_tcp()) for _ in range(15)]
        good += [stack.enter_context(daemon.over_socket()) for _ in range(15)]
        for client in good:
            assert busy(client) == BUSY
        with asking(daemon) as go_on:
            for _ in range(2):
                many_at_once(daemon, stack, 200)
                with daemon.over_tcp() as late, daemon.over_socket() as other:
                    assert busy(late) == busy(other) == BUSY
                go_on()
        for client in good:
            assert busy(client) == BUSY
        assert descriptors(daemon) < 320
        messages = [line for line in daemon.log.splitlines() if ': warning: ' in line or ': error: ' in line]
        assert messages == ['atopgpud: warning: disconnected a client: too many clients are connected'] * 10


AS_NOBODY = """
import json, socket, sys

def answered(client):
    try:
        client.connect('\\0' + sys.argv[1])
        client.send(b'T\\1')
        return client.recv(1) == b'\\1'
    except ConnectionError:
        return False

clients = [socket.socket(socket.AF_UNIX) for _ in range(40)]
print(json.dumps([answered(client) for client in clients]), flush=True)
sys.stdin.read()
"""
"""A user's program that takes all the places that it gets, and keeps them."""


@as_root
def test_no_user_keeps_root_from_its_places_on_the_unix_socket(machine) -> None:
    with FewDescriptors() as network, AtopDaemon(machine, network=network) as daemon, contextlib.ExitStack() as stack:
        words = words_as_nobody(sys.executable, '-ISc', AS_NOBODY, SOCKET)
        nobody = network.start(*words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert nobody.stdout is not None
        assert json.loads(nobody.stdout.readline()) == [True] * 24 + [False] * 16
        clients = [stack.enter_context(daemon.over_socket()) for _ in range(8)]
        for client in clients:
            assert busy(client) == BUSY
        with daemon.over_socket() as one_more, daemon.over_tcp() as other:
            assert one_more.is_closed()
            assert busy(other) == BUSY
        nobody.communicate()
        eventually(lambda: is_served(daemon))
        messages = [line for line in daemon.log.splitlines() if ': warning: ' in line or ': error: ' in line]
        assert messages == ['atopgpud: warning: disconnected a client: too many clients are connected'] * 10


def is_served(daemon: AtopDaemon) -> bool:
    """Return whether another client finds a place."""
    with daemon.over_socket() as client:
        client.send(b'T\1')
        return not client.is_closed()


def many_at_once(daemon: AtopDaemon, stack: contextlib.ExitStack, count: int) -> None:
    """Let so many clients come in one moment, who ask nothing and stay."""
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        for connection in sockets_of(daemon, count):
            stack.enter_context(connection)
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
