"""A fleet that a test writes, served by the real dashboard's application in a thread."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.request
from typing import TYPE_CHECKING, Self

from gpu_tracker.fleet.dashboard.run import application
from gpu_tracker.fleet.hosts.fleet import Fleet
from gpu_tracker.fleet.web.access import check_access
from gpu_tracker.fleet.web.capacity import Limits
from gpu_tracker.fleet.web.listener import listening_sockets, url
from gpu_tracker.fleet.web.service import Service
from support.fleet.page_hosts import NOW, MadeUpSource, made_up_totals_history
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from gpu_tracker.fleet.hosts.host import HostState


class PageServer:
    """Serves hosts until it is left, behind the gate that the dashboard has, at any free port of loopback.

    :param now: Tells the fleet's time in seconds since 1970.
    :param port: 0: any that is free.
    """

    def __init__(self, hosts: Iterable[HostState], *, now: Callable[[], float] = lambda: NOW, port: int = 0) -> None:
        self._hosts = list(hosts)
        self._now = now
        self._port = port
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._is_ready = threading.Event()
        self.url = ''
        self.complaints: list[str] = []

    def __enter__(self) -> Self:
        """Serve."""
        self._thread.start()
        assert self._is_ready.wait(TIMEOUT), 'the server has not started'
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End it."""
        self.stop()

    def stop(self) -> None:
        """End all streams and the server, unless that was done already."""
        if not self._thread.is_alive():
            return
        self.close_fleet()
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(TIMEOUT)
        assert not self._thread.is_alive(), 'the server has not ended'

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.url.rpartition(':')[2])

    def put(self, *hosts: HostState) -> None:
        """Have the fleet change."""
        self._in_loop(lambda: [self.fleet.put(host) for host in hosts])

    def remove(self, host_id: str) -> None:
        """Have a host go."""
        self._in_loop(lambda: self.fleet.remove(host_id))

    def close_fleet(self) -> None:
        """End all streams, as the dashboard does when it is to end."""
        self._in_loop(self.fleet.close)

    def json(self, path: str) -> object:
        """Return what is served there."""
        with urllib.request.urlopen(f'{self.url}{path}', timeout=TIMEOUT) as answer:  # noqa: S310 - our server
            return json.load(answer)

    def _in_loop(self, work: Callable[[], object]) -> None:
        async def done() -> None:
            work()

        asyncio.run_coroutine_threadsafe(done(), self._loop).result(TIMEOUT)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        past = made_up_totals_history(self._hosts, self._now)
        self.fleet = Fleet(self._hosts, interval=5.0, totals_history=past, now=self._now)
        self.source = MadeUpSource(self.fleet)
        access = check_access(host='127.0.0.1', port=self._port)
        listening = listening_sockets(access.addresses)
        service = Service(listening, application(self.source), access, Limits(), self.complaints.append)
        service.open()
        self.url = url('http', listening[0])
        self._is_ready.set()
        await self._ended.wait()
        await service.close(self._loop.create_future())
