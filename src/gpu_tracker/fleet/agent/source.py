"""This machine as a fleet of one host, for its own page."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from gpu_tracker.fleet.hosts.fleet import Fleet
from gpu_tracker.fleet.hosts.history import History

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_tracker.fleet.agent.audience import Audience
    from gpu_tracker.fleet.agent.local_host import LocalHost
    from gpu_tracker.fleet.hosts.source import Past

_LONGEST_PAUSE = 1.0
_SHORTEST_PAUSE = 0.1


class LocalSource:
    """Takes each new reading of this machine; see ``gpu_tracker.fleet.hosts.source.FleetSource``.

    :param interval: Seconds between two readings.
    :param complain: Takes lines for people.
    """

    def __init__(self, host: LocalHost, audience: Audience, interval: float, complain: Callable[[str], None]) -> None:
        self._host = host
        self._audience = audience
        self._complain = complain
        self._has_complained = False
        self._history = History(interval=interval)
        self._pause = min(_LONGEST_PAUSE, max(_SHORTEST_PAUSE, interval / 2))
        self.fleet = Fleet([host.state()], interval=interval, history=self._history)

    async def run(self) -> None:
        """Keep the fleet up to date until it is cancelled."""
        while True:
            self._audience.ask_if_there()
            try:
                self.fleet.put(self._host.state())  # the same reading too: until there is another, it is what is known
            except Exception as error:  # noqa: BLE001 - whatever one reading holds, the next is due
                if not self._has_complained:
                    self._has_complained = True
                    self._complain(f'a reading cannot be shown: {type(error).__name__}: {error}')
            await asyncio.sleep(self._pause)

    async def past(self, host_id: str, seconds: float) -> Past | None:
        """Return the last half hour; None: there is no such host."""
        return None if self.fleet.state(host_id) is None else self._history.past(host_id, seconds)
