from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
import uuid
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.atopgpud import server as atopgpud_server
from gpu_tracker.atopgpud.ledger import Ledger, ListedGpu
from gpu_tracker.atopgpud.server import MOST_CLIENTS, Server
from gpu_tracker.gpus.model import GpuProcess, GpuReading
from gpu_tracker.system import sockets
from support.atop.atop_client import LONGEST, connected, parsed_statistics
from support.gpus.gpu_readings import known, monitored
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.atop.atop_client import AtopClient

TYPES = '1@00000000:17:00.0 NVIDIA_H200 1'
MANY = tuple(GpuProcess(pid, memory=2**30) for pid in range(100_000, 100_400))


class Service:
    """A server of one GPU at work in a thread, on sockets that nobody else has."""

    def __init__(self, most_clients: int = MOST_CLIENTS) -> None:
        self.complaints: list[str] = []
        self.notes: list[str] = []
        self._ledger = Ledger(TIMEOUT)
        self._ledger.show([ListedGpu('GPU-a', known(0, 'GPU-a', '00000000:17:00.0', 'NVIDIA H200', True))], 0.0)
        self._server = Server(self._ledger, self.complaints.append, self.notes.append, most_clients)
        self._tcp = sockets.tcp_socket(sockets.Address(socket.AF_INET, '127.0.0.1', 0, ('127.0.0.1', 0)))
        self._place = self._tcp.getsockname()
        self._name = f'test-{uuid.uuid4()}'
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        unix = sockets.unix_socket(self._name)
        asyncio.run_coroutine_threadsafe(self._server.listen([self._tcp], unix), self._loop).result(TIMEOUT)
        self.do(lambda: self.take(monitored(None, 50, 25, 2**40, 2**30, ())))

    def take(self, activity: GpuReading) -> None:
        self._ledger.take('GPU-a', activity, {}, 0.0)

    def do(self, work):
        """Return what ``work`` does in the thread of the server."""

        async def done():
            return work()

        return asyncio.run_coroutine_threadsafe(done(), self._loop).result(TIMEOUT)

    def after(self, seconds: float) -> None:
        """Look for stalled clients as if so much time had passed since one of them has stalled."""

        def look() -> None:
            begun = min((client.stalled_since for client in self.stalled), default=self._loop.time())
            self._server.give_up_stalled(begun + seconds)

        self.do(look)

    @property
    def stalled(self) -> list[atopgpud_server.Connection]:
        """Those clients that have not taken their answer."""
        return self._server._over_tcp.stalled + self._server._over_unix.stalled

    def over_tcp(self) -> AtopClient:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # so that a client stalls before long
        return connected(client, self._place, 1)

    def over_socket(self) -> AtopClient:
        return connected(socket.socket(socket.AF_UNIX), f'\0{self._name}', 2)

    def close(self) -> None:
        self.do(self._server.close)
        self.do(lambda: None)  # connections end in the next turn of the loop
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT)
        self._loop.close()


@contextlib.contextmanager
def serving(**options) -> Iterator[Service]:
    service = Service(**options)
    try:
        yield service
    finally:
        service.close()


@pytest.fixture
def service() -> Iterator[Service]:
    with serving() as found:
        yield found


def ask_without_reading(service: Service, client: AtopClient, requests: int) -> None:
    """Ask so often that the server cannot send all answers, and wait until it has noticed that."""
    client.send(b'S\1' * requests)
    eventually(lambda: service.stalled)


def test_requests_may_come_in_any_pieces_and_several_at_a_time(service):
    for client in (service.over_tcp(), service.over_socket()):
        with client:
            for byte in b'T\1':
                client.send(bytes([byte]))
            assert client.answer() == (1, TYPES)
            client.send(b'T\1T\1T')
            assert [client.answer(), client.answer()] == [(1, TYPES), (1, TYPES)]
            client.send(b'\1')
            assert client.answer() == (1, TYPES)
    assert service.complaints == []


def test_a_client_that_asks_and_sends_no_more_gets_its_answer(service):
    with service.over_tcp() as client:
        client.send(b'T\1')
        client.finish()
        assert client.answer() == (1, TYPES)
        assert client.is_closed()
    assert service.complaints == []


@pytest.mark.parametrize(
    ('request_', 'complaint'),
    [
        (b'X\1', "a client sent an unknown request: b'X\\x01'"),
        (b't\2', "a client sent an unknown request: b't\\x02'"),
        (b'\0\0', "a client sent an unknown request: b'\\x00\\x00'"),
        (b'T', "a client disconnected after an incomplete request: b'T'"),
    ],
)
def test_what_is_no_request_ends_the_connection_without_an_answer(service, request_, complaint):
    with service.over_tcp() as other:
        for client in (service.over_tcp(), service.over_socket()):
            with client:
                client.send(request_)
                client.finish()
                assert client.is_closed()
        assert service.complaints == [complaint, complaint]
        assert other.ask('T', 1) == (1, TYPES)


def test_clients_that_come_and_go_are_noted(service):
    service.over_tcp().close()
    eventually(lambda: len(service.notes) == 2)
    assert service.notes == ['a client has come: 1 of its kind', 'a client has gone: 0 of its kind']
    assert service.complaints == []


BOTH_KINDS = pytest.mark.parametrize('connect', [Service.over_tcp, Service.over_socket])


@BOTH_KINDS
def test_where_there_are_too_many_the_oldest_goes_that_has_never_asked_and_else_the_new_one(monkeypatch, connect):
    monkeypatch.setattr(atopgpud_server, '_user', lambda _: 0)  # of others not all places may be taken
    with serving(most_clients=3) as service:
        asked, silent, third = connect(service), connect(service), connect(service)
        with asked, silent, third:
            assert asked.ask('T', 1) == (1, TYPES)
            with connect(service) as fourth:
                assert silent.is_closed()
                for client in (asked, third, fourth):
                    assert client.ask('T', 1) == (1, TYPES)
                with connect(service) as fifth:
                    assert fifth.is_closed()
                for client in (asked, third, fourth):
                    assert client.ask('T', 1) == (1, TYPES)
        assert service.complaints == ['disconnected a client: too many clients are connected'] * 2


@BOTH_KINDS
def test_clients_of_one_kind_take_no_places_of_the_other(monkeypatch, connect):
    monkeypatch.setattr(atopgpud_server, '_user', lambda _: 0)
    other = Service.over_socket if connect == Service.over_tcp else Service.over_tcp
    with serving(most_clients=2) as service, contextlib.ExitStack() as stack:
        first = [stack.enter_context(connect(service)) for _ in range(2)]
        for client in first:
            assert client.ask('T', 1) == (1, TYPES)
        with connect(service) as third:
            assert third.is_closed()
        rest = [stack.enter_context(other(service)) for _ in range(2)]
        for client in (*first, *rest):
            assert client.ask('T', 1) == (1, TYPES)
        with other(service) as third:
            assert third.is_closed()
        for client in (*first, *rest):
            assert client.ask('T', 1) == (1, TYPES)
        assert service.complaints == ['disconnected a client: too many clients are connected'] * 2


def test_over_a_unix_socket_the_user_is_known_whose_places_are_counted(monkeypatch):
    found = []
    user_of = atopgpud_server._user

    def noted(connected):
        found.append(user_of(connected))
        return 1000

    monkeypatch.setattr(atopgpud_server, '_user', noted)
    with serving(most_clients=4) as service, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(service.over_socket()) for _ in range(3)]
        for client in clients:
            assert client.ask('T', 1) == (1, TYPES)
        with service.over_socket() as fourth:
            assert fourth.is_closed()
        assert found == [os.geteuid()] * 4
        with service.over_tcp() as over_tcp:
            assert over_tcp.ask('T', 1) == (1, TYPES)
        assert found[4:] == [None]


def test_a_client_that_goes_makes_room():
    with serving(most_clients=1) as service:
        for _ in range(3):
            with service.over_tcp() as client:
                assert client.ask('T', 1) == (1, TYPES)
            eventually(lambda: service.notes[-1] == 'a client has gone: 0 of its kind')
        assert service.complaints == []


def test_a_request_that_is_none_is_no_reason_to_stay():
    with serving(most_clients=1) as service, service.over_tcp() as half:
        half.send(b'T')
        with service.over_tcp() as other:
            assert half.is_closed()
            assert other.ask('T', 1) == (1, TYPES)


def test_a_client_that_reads_late_gets_all_its_answers(service):
    service.do(lambda: service.take(monitored(None, 50, 25, 2**40, 2**30, MANY)))
    with service.over_socket() as client, service.over_socket() as other:
        ask_without_reading(service, client, 200)
        assert other.ask('T', 1) == (1, TYPES)
        service.after(29)
        answers = [client.answer() for _ in range(200)]
        eventually(lambda: not service.stalled)
        assert set(answers) == {answers[0]}
        assert LONGEST - 100 < len(answers[0].text) <= LONGEST
        assert parsed_statistics(answers[0].text, 1)[0].samples == 2
        service.after(60)
        assert client.ask('T', 1) == (1, TYPES)
    assert service.complaints == []


@pytest.mark.parametrize(('connect', 'requests', 'left'), [(Service.over_socket, 200, 0), (Service.over_tcp, 2000, 2)])
def test_a_client_that_does_not_take_its_answer_is_given_up_and_one_that_is_idle_is_not(
    service, connect, requests, left
):
    service.do(lambda: service.take(monitored(None, 50, 25, 2**40, 2**30, MANY)))
    with connect(service) as stalled, service.over_tcp() as idle, service.over_tcp() as silent:
        assert idle.ask('T', 1) == (1, TYPES)
        ask_without_reading(service, stalled, requests)
        service.complaints.clear()
        service.after(31)
        assert service.complaints == ['disconnected a client that did not read its response']
        eventually(lambda: service.notes[-1] == f'a client has gone: {left} of its kind')
        assert service.stalled == []
        for client in (idle, silent):
            assert client.ask('T', 1) == (1, TYPES)


def test_closing_ends_all_connections():
    with serving() as service:
        clients = [service.over_tcp(), service.over_socket()]
        for client in clients:
            client.ask('T', 1)
    for client in clients:
        with client:
            assert client.is_closed()
