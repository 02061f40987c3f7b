"""Clients that keep a server waiting, send what is no HTTP, or are too many."""

from __future__ import annotations

import contextlib
import fcntl
import re
import socket
import struct
from typing import TYPE_CHECKING

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.fleet.web_server import Client, WebServer
from support.own_network import OwnNetwork
from support.tracked_program import as_root
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = 'Host: localhost\r\n'
SIOCSIFADDR = 0x8916
"""Gives an interface an address: netdevice(7)."""


@pytest.fixture(scope='module')
def server() -> Iterator[WebServer]:
    with WebServer() as server:
        yield server


@pytest.fixture(scope='module')
def hasty_server() -> Iterator[WebServer]:
    with WebServer(limits={'head_time': 0.3, 'unread_time': 0.5}) as server:
        yield server


@pytest.fixture(scope='module')
def server_that_drops_who_does_not_read() -> Iterator[WebServer]:
    with WebServer(limits={'unread_time': 0.3}) as server:
        yield server


def connections(server: WebServer) -> int:
    """Return how many clients the server has."""
    found = psutil.Process(server.process.pid).net_connections('tcp')
    return sum(one.status != psutil.CONN_LISTEN for one in found)


def _answered(server: WebServer, path: str, text: bytes) -> Client | None:
    """Return a client that has had an answer; none where this process was so slow that it was dropped before."""
    client = server.client()
    client.get(path)
    try:
        client.until(text)
    except (AssertionError, ConnectionResetError):
        client.socket.close()
        return None
    return client


def still_serves(server: WebServer) -> bool:
    with server.client() as client:
        client.get('/', 'Connection: close')
        return client.rest().startswith(b'HTTP/1.1 200 OK\r\n')


@pytest.mark.parametrize('sent', ['', 'G', 'GET / HTTP/1.1\r\nHost: localhost\r\nX: '])
def test_who_does_not_finish_a_request_is_dropped(hasty_server, sent):
    with hasty_server.client() as client:
        client.send(sent)
        assert client.rest() == b''


def test_a_byte_now_and_then_buys_no_time(hasty_server):
    with hasty_server.client() as client:
        client.socket.settimeout(0.05)
        received = None
        while received is None:
            client.send('G')
            with contextlib.suppress(TimeoutError, ConnectionResetError):
                received = client.socket.recv(1)
        assert received == b''


def test_a_connection_without_requests_is_dropped_after_a_while():
    with WebServer(limits={'idle_time': 0.3}) as server, server.client() as client:
        client.get()
        client.until(b'hello\n')
        assert client.rest() == b''


def test_half_of_a_second_request_is_not_waited_for_either(hasty_server):
    with eventually(lambda: _answered(hasty_server, '/', b'hello\n')) as client:
        client.send('GET / HT')
        assert client.rest() == b''


def test_a_stream_may_go_on_longer_than_any_request():
    with (
        WebServer(limits={'head_time': 0.5, 'idle_time': 0.1, 'unread_time': 0.1}) as server,
        eventually(lambda: _answered(server, '/events', b'data: 1\n\n')) as client,
    ):
        for _ in range(50):
            client.until(b'data: 1\n\n')


@pytest.mark.parametrize('path', ['/flood', '/heavy'])
@pytest.mark.parametrize('header', ['Connection: close', 'Connection: keep-alive'])
def test_who_does_not_take_an_answer_is_dropped(server_that_drops_who_does_not_read, path, header):
    server = server_that_drops_who_does_not_read
    with server.client() as client:
        client.get(path, header)
        assert client.socket.recv(1) == b'H'
        eventually(lambda: connections(server) == 0)
        assert still_serves(server)


def test_who_takes_an_answer_slowly_gets_all_of_it(server):
    # Both ends have room for little, so that the server has to wait for the client again and again.
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        client.connect(('127.0.0.1', server.port))
        client.sendall(b'GET /heavy HTTP/1.0\r\nHost: localhost\r\n\r\n')
        size = 0
        while more := client.recv(16384):
            size += len(more)
        assert size > 20_000_000


def test_a_head_without_end_is_refused(server):
    with server.client() as client:
        client.send(f'GET / HTTP/1.1\r\n{HOST}')
        for _ in range(1000):
            client.send(f'X: {"x" * 1000}\r\n')
        answer = client.rest()
        # Who goes on sending may lose the answer: a connection is reset where something is unread.
        assert answer == b'' or answer.startswith((b'HTTP/1.1 400 ', b'HTTP/1.1 431 '))
    assert still_serves(server)


@pytest.mark.parametrize(
    'request_text',
    [
        '\0\0\0\0\r\n\r\n',
        'hello\r\n\r\n',
        'GET /\r\n\r\n',
        'GET / HTTP/9.9\r\n\r\n',
        'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
        'GET / HTTP/1.1\r\n\r\n',
        'GET / HTTP/1.0\r\n\r\n',
        f'GET / HTTP/1.1\r\n{HOST}{HOST}\r\n',
        f'GET / HTTP/1.1\r\n{HOST}Host : evil.example\r\n\r\n',
        f'GET / HTTP/1.1\r\n{HOST}X: a\0b\r\n\r\n',
        f'GET / HTTP/1.1\r\n{HOST}X: a\rb\r\n\r\n',
        f'GET /a b HTTP/1.1\r\n{HOST}\r\n',
        f'GET /\xff HTTP/1.1\r\n{HOST}\r\n',
        f'GET http://localhost/ HTTP/1.1\r\n{HOST}\r\n',
        f'GET * HTTP/1.1\r\n{HOST}\r\n',
        f'CONNECT localhost:443 HTTP/1.1\r\n{HOST}\r\n',
        f'GET / HTTP/1.1\r\n{HOST}Content-Length: 1\r\nContent-Length: 2\r\n\r\n',
        f'GET / HTTP/1.1\r\n{HOST}Content-Length: +1\r\n\r\n',
        f'GET / HTTP/1.1\r\n{HOST}Content-Length: 1_0\r\n\r\n',
        f'GET / HTTP/1.1\r\n{HOST}Transfer-Encoding: gzip\r\n\r\n',
        f'GET / HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked, identity\r\n\r\n',
    ],
)
def test_what_is_no_request_is_refused_and_the_connection_ends(server, request_text):
    with server.client() as client:
        client.send(request_text.encode('latin-1'))
        answer = client.rest()
    assert answer.startswith((b'HTTP/1.1 400 Bad Request\r\n', b'HTTP/1.1 501 '))
    assert answer.count(b'HTTP/1.1 ') == 1
    assert b'\r\nx-content-type-options: nosniff\r\n' in answer


@pytest.mark.parametrize(
    'head',
    [
        'Content-Length: 33',
        'Transfer-Encoding: chunked',
        'Content-Length: 33\r\nTransfer-Encoding: chunked',
        'Content-Length: 0\r\nTransfer-Encoding: chunked',
        'Expect: 100-continue\r\nContent-Length: 33',
    ],
)
def test_nothing_is_hidden_in_a_body(server, head):
    with server.client() as client:
        client.send(f'GET / HTTP/1.1\r\n{HOST}{head}\r\n\r\n0\r\n\r\nGET /error HTTP/1.1\r\n{HOST}\r\n')
        answer = client.rest()
    assert answer.startswith(b'HTTP/1.1 413 ')
    assert answer.count(b'HTTP/1.1 ') == 1


def test_requests_sent_together_are_answered_in_their_order(server):
    with server.client() as client:
        client.get('/')
        client.get('/none')
        client.get('/', 'Connection: close')
        statuses = re.findall(rb'HTTP/1.1 (\d+) ', client.rest())
    assert statuses == [b'200', b'404', b'200']


def test_nobody_gets_another_protocol(server):
    for protocol in ('websocket', 'h2c'):
        with server.client() as client:
            client.get('/', 'Connection: Upgrade, close', f'Upgrade: {protocol}', 'Sec-WebSocket-Key: x')
            assert client.rest().startswith(b'HTTP/1.1 200 OK\r\n')


def test_more_requests_behind_a_stream_wait_without_filling_the_memory(server):
    process = psutil.Process(server.process.pid)
    with server.client() as client:
        client.get('/events')
        client.until(b'data: 1\n\n')
        before = process.memory_info().rss
        client.socket.settimeout(0.3)
        with contextlib.suppress(TimeoutError):
            for _ in range(5_000):
                client.socket.sendall(f'GET / HTTP/1.1\r\n{HOST}\r\n'.encode() * 1000)
        assert process.memory_info().rss - before < 5_000_000
    assert still_serves(server)


def test_a_client_that_goes_in_the_middle_is_no_matter(server):
    for path in ('/flood', '/events', '/heavy'):
        with server.client() as client:
            client.get(path)
            client.until(b'\r\n\r\n')
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))  # resets it
    eventually(lambda: connections(server) == 0)
    assert still_serves(server)
    assert len(server.log.splitlines()) == 1


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from(
            [
                'GET / HTTP/1.1\r\n',
                'Host: localhost\r\n',
                '\r\n',
                'Content-Length: 3\r\n',
                'abc',
                ':',
                ' ',
                '\0',
                '\xff',
            ]
        ),
        max_size=12,
    )
)
def test_no_bytes_make_it_fail(server, parts):
    with server.client() as client:
        client.send(''.join(parts).encode('latin-1'))
        client.socket.shutdown(socket.SHUT_WR)
        client.rest()
    assert len(server.log.splitlines()) == 1


def test_clients_beyond_the_limit_are_closed_at_once_while_all_others_are_being_answered():
    with WebServer(limits={'connections': 3}) as server, contextlib.ExitStack() as open_clients:
        clients = [open_clients.enter_context(server.client()) for _ in range(3)]
        for client in clients:
            client.get('/events')
            client.until(b'data: 1\n\n')
        for _ in range(5):
            with server.client() as late:
                assert late.rest() == b''
        for client in clients:
            client.until(b'data: 1\n\n')
        clients[0].socket.close()
        eventually(lambda: connections(server) == 2)
        assert eventually(lambda: still_serves(server))
        eventually(lambda: 'a client at 127.0.0.1 was turned away: there are 3 connections\n' in server.log)


def test_connections_that_only_wait_keep_nobody_out(tmp_path):
    token = tmp_path / 'token'
    token.touch(0o600)
    token.write_text('0123456789abcdef')
    shown = 'Authorization: Bearer 0123456789abcdef'
    with (
        WebServer(f'--token-file={token}', limits={'connections': 3, 'stranger_idle_time': 1000}) as server,
        server.client() as reader,
        server.client() as first,
        server.client() as second,
    ):
        reader.get('/', shown)
        reader.until(b'hello\n')
        for stranger in (first, second):
            stranger.get('/healthz')
            stranger.until(b'hello\n')
        with server.client() as other:
            other.get('/', shown)
            other.until(b'hello\n')
            assert first.rest() == b''
            for client in (reader, second):
                client.get('/', shown)
                client.until(b'hello\n')


def test_who_asks_only_for_what_is_open_is_not_waited_for_long():
    with WebServer(limits={'stranger_idle_time': 0.3, 'idle_time': 1000}) as server, server.client() as client:
        client.get('/healthz')
        client.until(b'hello\n')
        assert client.rest() == b''


@as_root
def test_one_address_cannot_take_all_connections():
    limits = {'connections': 10, 'connections_of_an_address': 2}
    with (
        OwnNetwork() as network,
        network.socket(socket.AF_INET) as anything,
        WebServer('--host=0.0.0.0', '--insecure', network=network, limits=limits) as server,
        contextlib.ExitStack() as open_clients,
    ):
        address = struct.pack('HH4s8x', socket.AF_INET, 0, socket.inet_aton('192.0.2.7'))
        fcntl.ioctl(anything, SIOCSIFADDR, struct.pack('16s16s', b'lo:1', address))
        clients = [open_clients.enter_context(server.client('192.0.2.7')) for _ in range(2)]
        with server.client('192.0.2.7') as third:
            assert third.rest() == b''
        local = [open_clients.enter_context(server.client('127.0.0.1')) for _ in range(4)]
        for client in clients + local:
            client.get()
            client.until(b'hello\n')
        eventually(lambda: 'a client at 192.0.2.7 was turned away: it has 2 connections\n' in server.log)


def test_where_descriptors_run_out_it_serves_again_as_soon_as_there_are_some():
    with WebServer(limits={'connections': 10_000}) as server, contextlib.ExitStack() as open_clients:
        process = psutil.Process(server.process.pid)
        most = process.num_fds() + 5
        process.rlimit(psutil.RLIMIT_NOFILE, (most, most))
        for _ in range(10):
            open_clients.enter_context(server.client())
        eventually(lambda: 'cannot accept a connection: Too many open files\n' in server.log)
        open_clients.close()
        assert still_serves(server)
