"""The service: an application behind a gate, and lines on what goes wrong with clients, few enough for any disk."""

from __future__ import annotations

import asyncio
import math
import socket
import time
from typing import TYPE_CHECKING, Any

import uvicorn

from gpu_tracker.fleet.web.connection import LAST_MOMENT, Connection
from gpu_tracker.fleet.web.gate import Gate
from gpu_tracker.fleet.web.host_names import LOCAL_NAMES, FullName, HostNames
from gpu_tracker.fleet.web.listener import Listener
from gpu_tracker.system.terminal_text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpu_tracker.fleet.web.access import Access
    from gpu_tracker.fleet.web.capacity import Limits, Slot
    from gpu_tracker.fleet.web.gate import Application

_LONGEST = 500
"""Characters of a line."""


class Complaints:
    """Lets the first lines of each period through and counts the others.

    :param say: Takes a line.
    :param most: Lines of a period.
    :param period: Seconds.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        most: int = 5,
        period: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._say = say
        self._most = most
        self._period = period
        self._clock = clock
        self._began = clock()
        self._count = 0

    def __call__(self, line: str) -> None:
        """Say a line, without what could command a terminal, or only count it."""
        now = self._clock()
        if now - self._began >= self._period:
            if self._count > self._most:
                self._say(f'{self._count - self._most} more messages of this kind were left out')
            self._began, self._count = now, 0
        self._count += 1
        if self._count <= self._most:
            self._say(printable(line[:_LONGEST]))


_STEP = 0.02
"""Seconds between two looks at whether all clients have gone."""


class Service:
    """Answers clients with an application behind a gate.

    :param sockets: Which listen; they are closed with the service.
    :param complain: Takes lines about what went wrong with a client or a request, of each kind not too many.
    """

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        application: Application,
        access: Access,
        limits: Limits,
        complain: Callable[[str], None],
    ) -> None:
        names = HostNames(access.server_names | LOCAL_NAMES | {socket.gethostname()})
        self._gate = Gate(
            application,
            names=names,
            credentials=access.credentials,
            limits=limits,
            complain=Complaints(complain),
            refused=Complaints(complain, most=1),
        )
        self._full_name = FullName(names)
        self._looking: asyncio.Task[None] | None = None
        self._server = _server(self._gate, limits)
        self._opened: set[Connection] = set()
        self._limits = limits
        self._listener = Listener(
            sockets, self._connection, tls=access.tls, limits=limits, complain=Complaints(complain)
        )

    def open(self) -> None:
        """Begin to answer."""
        self._listener.open()
        self._looking = asyncio.get_running_loop().create_task(self._full_name.find())

    async def update(self, access: Access) -> None:
        """Answer from now on whom ``access`` lets in, with its certificate; where to listen stays as it is.

        Who is connected has to come again, once what is being answered has ended or a moment is over.
        """
        self._gate.credentials = access.credentials
        self._listener.tls = access.tls
        before = list(self._opened)
        for connection in before:
            connection.shutdown()
        await asyncio.sleep(self._limits.end_time)
        for connection in before:
            connection.abort()

    async def close(self, hurry: asyncio.Future[Any]) -> None:
        """Answer nobody else, let what is being answered end for a moment, and cut off the rest.

        :param hurry: Ends that moment as soon as it is done.
        """
        self._listener.close()
        if self._looking:
            self._looking.cancel()
        for connection in list(self._opened):
            connection.shutdown()
        await self._wait(self._limits.end_time, hurry)
        for task in list(self._server.server_state.tasks):
            task.cancel()
        for connection in list(self._opened):
            connection.abort()
        await self._wait(LAST_MOMENT, None)

    def _connection(self, slot: Slot) -> Connection:
        return Connection(self._server, self._limits, slot, self._opened)

    async def _wait(self, seconds: float, hurry: asyncio.Future[Any] | None) -> None:
        """Wait until nothing is being answered any more."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while (self._listener.count or self._server.server_state.tasks) and loop.time() < deadline:
            if hurry and hurry.done():
                return
            await asyncio.sleep(_STEP)


def _server(gate: Gate, limits: Limits) -> uvicorn.Server:
    """Return uvicorn's server, which is never started: its configuration and state are those of its protocol."""
    config = uvicorn.Config(
        gate,
        http='h11',
        ws='none',
        lifespan='off',
        interface='asgi3',
        log_config=None,
        log_level='warning',
        access_log=False,
        workers=1,  # otherwise an environment variable is read
        proxy_headers=False,
        server_header=False,
        date_header=False,  # the gate adds it: uvicorn's own comes from a server that is not used here
        timeout_keep_alive=math.ceil(limits.idle_time) + 1,  # the connection's own deadline comes first
        h11_max_incomplete_event_size=limits.head_size,
    )
    config.load()
    return uvicorn.Server(config)
