"""Pages that are open: clients of a dashboard's server-sent events, and what they were told when."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.session import FailedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from benchmarks.fleet_servers import Server

_PATH = '/api/v1/events'
_BOUNDARY = b'\n\n'
_MOST_AT_ONCE = 2**18


class Told(NamedTuple):
    """An event, as a page gets it.

    :ivar when: When it was complete, by the clock of ``time.monotonic()``.
    """

    when: float
    name: str
    data: dict[str, Any]


class Stream:
    """An open page, which reads all that it is told.

    :param keeps: Whether it keeps that; it is read later, so as not to take time while others are measured.
    """

    def __init__(self, server: Server, *, keeps: bool) -> None:
        self._connection = server.connection()
        self._pieces: list[tuple[float, bytes]] | None = [] if keeps else None
        self._connection.request('GET', _PATH)
        # The answer takes the socket over: the connection itself has none afterwards.
        self._socket = self._connection.sock
        self._answer = self._connection.getresponse()
        if self._answer.status != http.client.OK:
            raise FailedError(f'{_PATH} answers {self._answer.status} {self._answer.reason}')
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def told(self) -> list[Told]:
        """Return all events until now."""
        return events_of(list(self._pieces or ()))

    def close(self) -> None:
        """Leave the page."""
        with contextlib.suppress(OSError):  # the server has ended it
            self._socket.shutdown(socket.SHUT_RDWR)
        self._reader.join()
        self._answer.close()
        self._connection.close()

    def _read(self) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):  # it was closed, here or there
            while piece := self._answer.read1(_MOST_AT_ONCE):
                if self._pieces is not None:
                    self._pieces.append((time.monotonic(), piece))


@contextlib.contextmanager
def open_pages(server: Server, number: int) -> Iterator[list[Stream]]:
    """Have so many pages open; the first keeps what it is told."""
    with contextlib.ExitStack() as stack:
        streams = []
        for place in range(number):
            stream = Stream(server, keeps=place == 0)
            stack.callback(stream.close)
            streams.append(stream)
        yield streams


def events_of(pieces: Iterable[tuple[float, bytes]]) -> list[Told]:
    """Return the events in what has come, comments left out; the last may be incomplete, and then is no event.

    :param pieces: Of each when it came, and what it was.
    """
    events = []
    rest = b''
    for when, piece in pieces:
        *complete, rest = (rest + piece).split(_BOUNDARY)
        events += [event for block in complete if (event := _event(when, block)) is not None]
    return events


def _event(when: float, block: bytes) -> Told | None:
    name, data = 'message', []
    for line in block.decode().splitlines():
        field, _, value = line.partition(':')
        if field == 'event':
            name = value.strip()
        elif field == 'data':
            data.append(value.strip())
    return Told(when, name, json.loads('\n'.join(data))) if data else None
