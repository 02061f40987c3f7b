"""This machine as a fleet of one host, for its own page."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from gpu_tracker.fleet.hosts.fleet import Fleet
from gpu_tracker.fleet.hosts.history import History

if TYPE_CHECKING:
    from gpu_tracker.fleet.agent.audience import Audience
    from gpu_tracker.fleet.agent.local_host import LocalHost
    from gpu_tracker.fleet.hosts.source import Past

_LONGEST_PAUSE = 1.0
_SHORTEST_PAUSE = 0.1


class LocalSource:
    """Takes each new reading of this machine; see ``gpu_tracker.fleet.hosts.source.FleetSource``.

    :param interval: Seconds between two readings.
    """

    def __init__(self, host: LocalHost, audience: Audience, interval: float) -> None:
        self._host = host
        self._audience = audience
        self._history = History()
        self._pause = min(_LONGEST_PAUSE, max(_SHORTEST_PAUSE, interval / 2))
        self.fleet = Fleet([host.state()], interval=interval, history=self._history)

    async def run(self) -> None:
        """Keep the fleet up to date until it is cancelled."""
        put = None
        while True:
            self._audience.ask_if_there()
            reading, state = self._host.reading, self._host.state()
            told = (reading, state.state, state.error)
            if told != put:
                put = told
                self.fleet.put(state)
            await asyncio.sleep(self._pause)

    async def past(self, host_id: str, seconds: float) -> Past | None:
        """Return the last half hour; None: there is no such host."""
        return None if self.fleet.state(host_id) is None else self._history.past(host_id, seconds)
