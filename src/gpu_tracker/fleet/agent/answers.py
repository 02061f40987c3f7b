"""All configured hosts in nvgpu's form, as its masters have them."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from gpu_tracker.fleet.hosts.host import UP, WAITING
from gpu_tracker.fleet.hosts.nvgpu import nvgpu_report, nvgpu_state
from gpu_tracker.fleet.program_answers import SharedBody, health, json_answer, json_list, packed, takes_gzip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Protocol

    from prometheus_client.registry import Collector
    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from gpu_tracker.fleet.agent.local_host import LocalHost
    from gpu_tracker.fleet.config.cluster import Cluster
    from gpu_tracker.fleet.hosts.fleet import FleetSource

    class OtherHosts(FleetSource, Protocol):
        """Keeps a fleet of the hosts other than this one, in the cluster's order."""

        def error_for_nvgpu(self, host_id: str) -> str | None:
            """Return in nvgpu's words why a host has not answered."""


TIMEOUT = 60.0
"""Seconds without a question after which the other hosts are left alone."""
_MARGIN = 0.5
"""Seconds beyond a round's deadline in which the last of its hosts is noted as missing."""


class Reports(NamedTuple):
    """All hosts in nvgpu's form, in order."""

    reports: Iterator[dict[str, object]]
    key: object
    """Another one after each round; None: there are no rounds."""


class ClusterStatus:
    """Asks the other hosts in the background, while somebody wants to know: all agents may have one file.

    :param others: Makes what asks the other hosts; None: there are none.
    :param timeout: Seconds, see ``TIMEOUT``.
    :param now: Seconds since 1970.
    """

    def __init__(
        self,
        cluster: Cluster,
        host: LocalHost,
        others: Callable[[], OtherHosts] | None,
        timeout: float = TIMEOUT,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._host = host
        self._timeout = timeout
        self._now = now
        self._asked = asyncio.Event()
        self._asking: asyncio.Task[None] | None = None
        self.update(cluster, others)

    def update(self, cluster: Cluster, others: Callable[[], OtherHosts] | None) -> None:
        """Report the hosts of another cluster from now on."""
        self._are_self = [configured.url is None for configured in cluster.hosts]
        self._deadline = cluster.deadline + _MARGIN
        self._make_others = others
        self._others: OtherHosts | None = None
        if self._asking is not None:
            self._asking.cancel()

    async def reports(self) -> Reports:
        """Return a report for each host, in order; one that failed is an object with ``error``.

        Where nobody has asked lately, this waits for one round.
        """
        are_self = self._are_self  # another cluster may take its place while this waits
        if self._make_others is None:
            return Reports((self._of_this_machine() for _ in are_self), None)
        others = self._others = self._others or self._make_others()
        self._asked.set()
        try:
            await asyncio.wait_for(_first_round(others), self._deadline)
        except TimeoutError:
            pass  # whoever has not answered by now is reported as such
        now = self._now()
        answered = (nvgpu_state(state, others.error_for_nvgpu(state.id), now) for state in others.fleet.states())
        reports = (self._of_this_machine() if is_self else next(answered) for is_self in are_self)
        return Reports(reports, (others.fleet, others.fleet.rounds))

    async def run(self) -> None:
        """Ask the other hosts while somebody wants to know of them, until cancelled."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            if self._others is not None:
                await self._ask(self._others)

    async def _ask(self, others: OtherHosts) -> None:
        asking = self._asking = asyncio.create_task(others.run())
        try:
            while True:
                await asyncio.wait([asking], timeout=self._timeout)
                if asking.done() or not self._asked.is_set():
                    return
                self._asked.clear()
        finally:
            self._asking = None
            if self._others is others:
                self._others = None
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    def _of_this_machine(self) -> dict[str, object]:
        return nvgpu_state(self._host.state(), None, self._now())


async def _first_round(others: OtherHosts) -> None:
    """Return when each host has answered or failed."""
    while any(state.state == WAITING for state in others.fleet.states()):
        await others.fleet.change(others.fleet.version)


_UNAVAILABLE = 503


class Answers:
    """The agent's own routes; each takes GET and HEAD only."""

    def __init__(
        self,
        host: LocalHost,
        cluster: ClusterStatus,
        collectors: Iterable[Collector],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._host = host
        self._cluster = cluster
        self._shared = SharedBody()
        self._registry = CollectorRegistry(auto_describe=False)
        for collector in collectors:
            self._registry.register(collector)
        self._now = now

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [
            health(),
            Route('/api/v1/host', self.this_host),
            Route('/gpu_status', self.gpu_status),
            Route('//gpu_status', self.gpu_status),  # nvgpu's masters ask so where AGENTS has a slash at a URL's end
            Route('/cluster_status', self.cluster_status),
            Route('/metrics', self.metrics),
        ]

    async def this_host(self, _: Request) -> Response:
        """Report this machine in our form."""
        return json_answer(self._host.body())

    async def gpu_status(self, _: Request) -> Response:
        """Report this machine in nvgpu's form, which has no words for figures that are old or not known."""
        state = self._host.state()
        if state.state != UP or state.report is None:
            return PlainTextResponse(f'{state.error}\n', _UNAVAILABLE)
        return json_answer(nvgpu_report(state.report, self._now()))

    async def cluster_status(self, request: Request) -> Response:
        """Report all configured hosts in nvgpu's form."""
        reports, key = await self._cluster.reports()
        return await self._shared.answer(request, json_list(reports), key)

    async def metrics(self, request: Request) -> Response:
        """Report this machine in Prometheus' form, or in that of OpenMetrics where it is asked for."""
        try:
            encode, media_type = choose_encoder(request.headers.get('accept', ''))
        except (TypeError, ValueError):  # it asks for a version that is no number
            encode, media_type = choose_encoder('')
        headers = {'content-type': media_type, 'vary': 'accept, accept-encoding'}
        body = encode(self._registry)
        if takes_gzip(request):
            body = packed(body)
            headers['content-encoding'] = 'gzip'
        return Response(body, headers=headers)
