"""How a server ends, whatever its clients and its own work do."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess

import psutil
import pytest

from gpu_tracker.cli.serving import LAST_WORDS
from gpu_tracker.fleet.web.capacity import Limits
from gpu_tracker.fleet.web.connection import LAST_MOMENT
from support.fleet.web_server import PATHS, PROGRAM, WebServer
from support.tracked_program import environment
from support.waiting import TIMEOUT, eventually

FOR_EVER = {'head_time': 1e6, 'idle_time': 1e6, 'stranger_idle_time': 1e6, 'unread_time': 1e6}
"""No client is given up before the end."""


def test_what_the_end_waits_for_is_done_within_5_seconds():
    assert Limits().end_time + 3 * LAST_MOMENT + LAST_WORDS <= 4  # the answers; connections, work, tasks; lines


def test_it_ends_in_time_with_streams_open():
    with WebServer(limits=FOR_EVER) as server, contextlib.ExitStack() as clients:
        for path in ('/events', '/deaf', '/flood') * 2:
            client = clients.enter_context(server.client())
            client.get(path)
            client.until(b'\r\n\r\n')
        assert server.end() == 0


def test_a_stream_is_told_of_the_end():
    with WebServer(limits={'end_time': 1000}) as server, server.client() as client:
        client.get('/events')
        client.until(b'data: 1\n\n')
        server.process.send_signal(signal.SIGTERM)
        assert client.rest().endswith(b'b\r\ndata: end\n\n\r\n0\r\n\r\n')
        assert server.process.wait(TIMEOUT) == 0


def test_it_does_not_wait_for_clients_that_say_nothing_or_half_of_something():
    with WebServer(limits=FOR_EVER) as server, server.client(), server.client() as half, server.client() as idle:
        half.send('GET / HTTP/1.1\r\nHost:')
        idle.get()
        idle.until(b'hello\n')
        assert server.end() == 0
        assert server.log.count('\n') == 1


@pytest.mark.parametrize('kind', ['stubborn', 'busy'])
def test_it_ends_in_time_whatever_works_in_the_background(kind):
    with WebServer(f'--background={kind}') as server:
        assert server.end() == 0


@pytest.mark.parametrize(
    ('kind', 'text'),
    [
        ('fails', 'the configuration has gone'),
        ('breaks', 'internal error: a background task ended: ValueError: broken'),
        ('ends', 'internal error: a background task ended: it has ended'),
    ],
)
def test_it_ends_with_a_reason_where_its_own_work_has_ended(kind, text):
    with WebServer(f'--background={kind}') as server:
        assert server.process.wait(TIMEOUT) == 125
        assert server.log == f'gpu-tracker: serving {server.url}\ngpu-tracker: {text}\n'


@pytest.mark.parametrize(
    ('kind', 'text'),
    [('fails', 'the configuration has gone'), ('breaks', 'internal error: ValueError: broken')],
)
def test_it_goes_on_as_it_was_where_a_reload_fails_in_any_way(kind, text):
    with WebServer(f'--reload={kind}') as server, server.client() as client:
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: f'gpu-tracker: SIGHUP: nothing changes: {text}\n' in server.log)
        client.get()
        client.until(b'hello\n')
        assert server.end() == 0


def test_ctrl_c_ends_it_as_it_ends_any_program():
    with WebServer() as server:
        assert server.end(signal.SIGINT) == -signal.SIGINT
        assert server.log.count('\n') == 1


def test_a_second_signal_ends_it_at_once():
    with WebServer(limits={'end_time': 1000}) as server, server.client() as client:
        client.get('/deaf')
        client.until(b'data: 1\n\n')
        server.process.send_signal(signal.SIGTERM)
        eventually(lambda: not _listens(server))
        assert server.end(signal.SIGINT) == 0


def test_its_port_is_free_afterwards_and_taken_before():
    with WebServer() as server:
        again = WebServer(port=server.port)
        try:
            assert again.process.wait(TIMEOUT) == 125
            assert again.log == (
                f'gpu-tracker: port {server.port} of 127.0.0.1 is in use by another program ("ss -lp" '
                'shows which program)\n'
            )
        finally:
            again.__exit__()
        with server.client() as client:
            client.get()
            client.until(b'hello\n')
        assert server.end() == 0
        with socket.create_server(('127.0.0.1', server.port)):
            pass


def test_systemd_is_told_when_it_is_ready_and_when_it_ends(tmp_path):
    path = tmp_path / 'notify'
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        manager.settimeout(TIMEOUT)
        with WebServer(changes={'NOTIFY_SOCKET': str(path)}) as server:
            assert manager.recv(100) == b'READY=1'
            assert server.end() == 0
            assert manager.recv(100) == b'STOPPING=1'


def test_it_takes_as_many_descriptors_as_it_may():
    with WebServer(before=['sh', '-c', 'ulimit -S -n 100 && exec "$@"', 'sh']) as server:
        soft, hard = psutil.Process(server.process.pid).rlimit(psutil.RLIMIT_NOFILE)
        assert soft == (65536 if hard == psutil.RLIM_INFINITY else min(hard, 65536))


def test_it_serves_and_ends_where_nobody_reads_its_messages():
    reader, writer = _full_pipe()
    words = [*PROGRAM, '--port=0']
    with subprocess.Popen(words, env=environment({'PYTHONPATH': PATHS}), stderr=writer) as program:
        try:
            port = eventually(lambda: _port(program))
            for _ in range(3):
                assert _body(port, '/error') == b'Internal Server Error\n'
            program.send_signal(signal.SIGTERM)
            assert program.wait(TIMEOUT) == 0
        finally:
            program.kill()
            os.close(writer)
            os.close(reader)


def _full_pipe() -> tuple[int, int]:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    for size in (4096, 1):
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writer, b'x' * size)
    os.set_blocking(writer, True)
    return reader, writer


def _body(port: int, path: str) -> bytes:
    with contextlib.closing(http.client.HTTPConnection('127.0.0.1', port, timeout=TIMEOUT)) as connection:
        connection.request('GET', path)
        return connection.getresponse().read()


def _port(program: subprocess.Popen[bytes]) -> int | None:
    assert program.poll() is None
    found = psutil.Process(program.pid).net_connections('tcp')
    return next((one.laddr.port for one in found if one.status == psutil.CONN_LISTEN), None)


def _listens(server: WebServer) -> bool:
    connections = psutil.Process(server.process.pid).net_connections('tcp')
    return any(one.status == psutil.CONN_LISTEN for one in connections)
