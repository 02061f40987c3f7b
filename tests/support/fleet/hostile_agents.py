"""Servers on loopback that behave as agents do, and as no agent should."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import queue
import socket
import threading
from typing import TYPE_CHECKING, Any

from support.waiting import TIMEOUT

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

GB = 10**9
GPU = {
    'index': 0,
    'uuid': 'GPU-a',
    'type': 'NVIDIA A100-SXM4-40GB',
    'status': 'free',
    'utilization_percent': 5,
    'memory_total_bytes': 40 * GB,
    'memory_used_bytes': GB,
}
NVGPU_GPU = {
    'type': 'NVIDIA A100-SXM4-40GB',
    'is_available': True,
    'pids': '',
    'users': '',
    'running_since': None,
    'utilization': 5,
    'clock_mhz': 210,
    'temperature': 31,
    'cmd': None,
}


def report(**changes: Any) -> bytes:
    """Return the body of an honest report."""
    body = {
        'hostname': 'node01',
        'time': 1.0,
        'driver_problem': None,
        'claims_problem': None,
        'gpus': [GPU],
        'age_seconds': 0.5,
        'interval_seconds': 2.0,
        'agent_version': '6.0.0',
    }
    return json.dumps(body | changes).encode()


def answer(body: bytes, status: str = '200 OK', *headers: str) -> bytes:
    """Return a whole HTTP answer."""
    lines = [f'HTTP/1.1 {status}', f'Content-Length: {len(body)}', *headers]
    return '\r\n'.join([*lines, '', '']).encode() + body


def says(data: bytes) -> Behaviour:
    """Answer each request with ``data``."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await requested(reader):
            writer.write(data)
            await writer.drain()

    return behave


def says_and_closes(data: bytes) -> Behaviour:
    """Answer one request with ``data``, and end the connection."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await requested(reader)
        writer.write(data)
        await writer.drain()

    return behave


def never_ends(begin: bytes, piece: bytes) -> Behaviour:
    """Send ``begin``, and then ``piece`` as often as it is taken."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await requested(reader)
        writer.write(begin)
        while not writer.transport.is_closing():
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)

    return behave


def drips(data: bytes) -> Behaviour:
    """Send ``data`` byte by byte, far too slowly."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await requested(reader)
        for byte in data:
            writer.write(bytes([byte]))
            await asyncio.sleep(0.05)
            if writer.transport.is_closing():
                break

    return behave


def hangs(begin: bytes = b'') -> Behaviour:
    """Send ``begin`` and nothing after it, and keep the connection."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await requested(reader)
        writer.write(begin)
        await reader.read()  # until the client goes

    return behave


async def talks_at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Greet whoever connects, in plain text."""
    writer.write(b'220 hello\r\n')
    await writer.drain()
    await reader.read(1)


async def closes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """End each connection at once."""


def gzip_bomb(size: int) -> bytes:
    """Return an answer that is small as it comes and ``size`` bytes when unpacked."""
    return answer(gzip.compress(b' ' * size), '200 OK', 'Content-Encoding: gzip')


async def requested(reader: asyncio.StreamReader) -> list[str]:
    """Return the lines of a request's head; none where the client has gone."""
    try:
        head = await reader.readuntil(b'\r\n\r\n')
    except asyncio.IncompleteReadError:
        return []
    return head.decode('latin-1').split('\r\n')[:-2]


class Recorder:
    """An agent that remembers what it was asked.

    :param paths: What it answers to which path; 404 to every other.
    """

    def __init__(self, paths: dict[str, bytes]) -> None:
        self.paths = paths
        self.requests: list[list[str]] = []
        self.connections = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while head := await requested(reader):
            self.requests.append(head)
            writer.write(self.paths.get(head[0].split()[1], answer(b'no', '404 Not Found')))

    @property
    def asked_paths(self) -> list[str]:
        return [head[0].split()[1] for head in self.requests]

    def header(self, name: str) -> list[str]:
        """Return what the requests had as a header."""
        pairs = (line.partition(': ') for head in self.requests for line in head[1:])
        return [value for key, _, value in pairs if key.lower() == name.lower()]


@contextlib.asynccontextmanager
async def serving(
    behaviour: Behaviour, listener: socket.socket | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    """Run a server, and give its URL."""
    busy: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        busy.add(task)
        try:
            await behaviour(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass  # the client has gone, or the test has ended
        finally:
            busy.discard(task)
            writer.transport.abort() if writer.transport.is_closing() else writer.close()

    options: dict[str, Any] = {'host': '127.0.0.1', 'port': 0} if listener is None else {'sock': listener}
    server = await asyncio.start_server(handle, ssl=tls, **options)
    try:
        yield f'{"http" if tls is None else "https"}://127.0.0.1:{server.sockets[0].getsockname()[1]}'
    finally:
        server.close()
        for task in [*busy]:
            task.cancel()
        await asyncio.gather(*busy, return_exceptions=True)


@contextlib.contextmanager
def serving_beside(*behaviours: Behaviour, listener: socket.socket | None = None) -> Iterator[list[str]]:
    """Run servers in a thread, and give their URLs."""
    ready: queue.SimpleQueue[tuple[list[str], Callable[[], None]]] = queue.SimpleQueue()

    async def serve() -> None:
        over = asyncio.Event()
        loop = asyncio.get_running_loop()
        async with contextlib.AsyncExitStack() as stack:
            urls = [await stack.enter_async_context(serving(behaviour, listener)) for behaviour in behaviours]
            ready.put((urls, lambda: loop.call_soon_threadsafe(over.set)))
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    urls, end = ready.get(timeout=TIMEOUT)
    try:
        yield urls
    finally:
        end()
        thread.join(TIMEOUT)


@contextlib.contextmanager
def closed_port() -> Iterator[socket.socket]:
    """Give a socket whose port refuses connections until it listens."""
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(('127.0.0.1', 0))
        yield bound


@contextlib.contextmanager
def full_port() -> Iterator[str]:
    """Give the URL of a port on which no connection is made any more, since nobody accepts those that wait."""
    with contextlib.ExitStack() as open_sockets:
        listener = open_sockets.enter_context(socket.create_server(('127.0.0.1', 0), backlog=0))
        for _ in range(4):
            waiting = open_sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield f'http://127.0.0.1:{listener.getsockname()[1]}'


def url_of(bound: socket.socket) -> str:
    """Return the URL of a port."""
    return f'http://127.0.0.1:{bound.getsockname()[1]}'
