"""A fleet: its hosts as they are now, and who is told of changes."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Protocol

from gpu_tracker.fleet.hosts.history import FleetHistory
from gpu_tracker.fleet.hosts.host import UP
from gpu_tracker.fleet.hosts.totals import totals_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gpu_tracker.fleet.hosts.history import History, Past
    from gpu_tracker.fleet.hosts.host import HostState
    from gpu_tracker.fleet.hosts.totals import Totals


class FleetSource(Protocol):
    """Asks the hosts themselves, or whoever knows of them."""

    @property
    def fleet(self) -> Fleet:
        """The hosts as they are now."""

    async def run(self) -> None:
        """Keep the fleet up to date, until cancelled."""

    async def past(self, host_id: str, seconds: float) -> Past | None:
        """Return what was, for as many of the last seconds as are kept; None: there is no such host."""


GATHER = 0.1
"""Seconds for which changes are gathered, so that a round of many hosts is told in a few pieces."""


class Fleet:
    """The hosts of a fleet. It belongs to one event loop and has no locks.

    :param hosts: All there are, in order.
    :param interval: Seconds between two rounds, for people to know.
    :param history: Where reports are recorded; None: nowhere.
    :param totals_history: Where the totals are recorded; None: one is made.
    :param now: Returns seconds since 1970.
    """

    def __init__(
        self,
        hosts: Iterable[HostState],
        *,
        interval: float,
        history: History | None = None,
        totals_history: FleetHistory | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.interval = interval
        self.history = history
        self.totals_history = totals_history or FleetHistory(now=now, interval=interval)
        self.now = now
        self.is_closed = False
        self.version = 1
        self.rounds = 0
        """How many rounds have ended."""
        self.removals = 0
        """How often hosts were removed: who has seen another number needs all hosts anew."""
        self._hosts = {host.id: host for host in hosts}
        self._versions = dict.fromkeys(self._hosts, self.version)
        self._waiting: set[asyncio.Future[None]] = set()
        self._totals: tuple[int, Totals] | None = None

    def states(self) -> tuple[HostState, ...]:
        """Return all hosts in order."""
        return tuple(self._hosts.values())

    def state(self, host_id: str) -> HostState | None:
        """Return a host; None: there is none with this ID."""
        return self._hosts.get(host_id)

    def totals(self) -> Totals:
        """Add all hosts up."""
        if self._totals is None or self._totals[0] != self.version:
            self._totals = self.version, totals_of(self._hosts.values())
        return self._totals[1]

    def end_round(self) -> None:
        """Count a round, and put the totals into the history of the fleet."""
        self.rounds += 1
        self.totals_history.record(self.totals())

    def put(self, host: HostState) -> None:
        """Put a host as it is now in the place of what it was; one with a new ID comes last."""
        if host.state == UP and host.report is not None and self.history is not None:
            self.history.record(host.id, host.report)
        before = self._hosts.get(host.id)
        self._hosts[host.id] = host
        if before is None or _shown(before) != _shown(host):
            self._changed(host.id)

    def remove(self, host_id: str) -> None:
        """Forget a host, as one that Prometheus does not know any more."""
        if self._hosts.pop(host_id, None) is not None:
            del self._versions[host_id]
            self.removals += 1
            self._changed(None)

    def replace(self, hosts: Iterable[HostState]) -> None:
        """Put these hosts in the place of all, in this order; what is kept of the others is forgotten."""
        before = self._hosts
        self._hosts = {host.id: host for host in hosts}
        self.version += 1
        self._versions = dict.fromkeys(self._hosts, self.version)
        self.removals += 1
        if self.history is not None:
            for host_id in before.keys() - self._hosts.keys():
                self.history.forget(host_id)
        self._wake()

    def changed_since(self, version: int) -> list[HostState]:
        """Return the hosts that people see differently since the fleet had ``version``."""
        return [self._hosts[key] for key, changed in self._versions.items() if changed > version]

    async def change(self, since: int) -> None:
        """Return when there is something newer than ``since``, or the fleet was closed."""
        while self.version <= since and not self.is_closed:
            news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.add(news)
            try:
                await news
            finally:
                self._waiting.discard(news)
        if not self.is_closed:
            await asyncio.sleep(GATHER)

    def close(self) -> None:
        """Let all who wait for changes go on, and have nobody wait again."""
        self.is_closed = True
        self._wake()

    def _changed(self, host_id: str | None) -> None:
        self.version += 1
        if host_id is not None:
            self._versions[host_id] = self.version
        self._wake()

    def _wake(self) -> None:
        for news in self._waiting:
            if not news.done():
                news.set_result(None)


def _shown(host: HostState) -> HostState:
    """Return what of a host people see: not when it was last seen while it is up, nor of when its reading was."""
    report = None if host.report is None else host.report._replace(age=None, time=None, interval=None)
    last_seen = None if host.state == UP else host.last_seen
    return host._replace(report=report, last_seen=last_seen, clock_error=0.0)
