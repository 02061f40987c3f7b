"""All configured hosts in nvgpu's form, as its masters have them."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from gpu_tracker.fleet.hosts.host import WAITING
from gpu_tracker.fleet.nvgpu_form import nvgpu_state

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from gpu_tracker.fleet.agent.local_host import LocalHost
    from gpu_tracker.fleet.config.cluster import Cluster
    from gpu_tracker.fleet.hosts.source import FleetSource

    class OtherHosts(FleetSource, Protocol):
        """Keeps a fleet of the hosts other than this one, in the cluster's order."""

        def error_for_nvgpu(self, host_id: str) -> str | None:
            """Return in nvgpu's words why a host has not answered."""


PATIENCE = 60.0
"""Seconds without a question after which the other hosts are left alone."""
_MARGIN = 0.5
"""Seconds beyond a round's deadline in which the last of its hosts is noted as missing."""


class ClusterStatus:
    """Asks the other hosts in the background, while somebody wants to know: all agents may have one file.

    :param others: Makes what asks the other hosts; None: there are none.
    :param patience: Seconds, see ``PATIENCE``.
    :param now: Seconds since 1970.
    """

    def __init__(
        self,
        cluster: Cluster,
        host: LocalHost,
        others: Callable[[], OtherHosts] | None,
        patience: float = PATIENCE,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._are_self = [configured.url is None for configured in cluster.hosts]
        self._deadline = cluster.deadline + _MARGIN
        self._host = host
        self._make_others = others
        self._patience = patience
        self._now = now
        self._others: OtherHosts | None = None
        self._asked = asyncio.Event()

    async def reports(self) -> list[dict[str, object]]:
        """Return a report for each host, in order; one that failed is an object with ``error``.

        Where nobody has asked lately, this waits for one round.
        """
        if self._make_others is None:
            return [self._of_this_machine() for _ in self._are_self]
        others = self._others = self._others or self._make_others()
        self._asked.set()
        try:
            await asyncio.wait_for(_first_round(others), self._deadline)
        except TimeoutError:
            pass  # whoever has not answered by now is told as such
        now = self._now()
        told = (nvgpu_state(state, others.error_for_nvgpu(state.id), now) for state in others.fleet.states())
        return [self._of_this_machine() if is_self else next(told) for is_self in self._are_self]

    async def run(self) -> None:
        """Ask the other hosts while somebody wants to know of them, until cancelled."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            if self._others is not None:
                await self._ask(self._others)

    async def _ask(self, others: OtherHosts) -> None:
        asking = asyncio.create_task(others.run())
        try:
            while True:
                await asyncio.wait([asking], timeout=self._patience)
                if asking.done() or not self._asked.is_set():
                    return
                self._asked.clear()
        finally:
            self._others = None
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    def _of_this_machine(self) -> dict[str, object]:
        return nvgpu_state(self._host.state(), None, self._now())


async def _first_round(others: OtherHosts) -> None:
    """Return when each host has answered or failed."""
    while any(state.state == WAITING for state in others.fleet.states()):
        await others.fleet.change(others.fleet.version)
