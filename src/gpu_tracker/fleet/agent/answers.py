"""What the agent answers to each question, from what is at hand."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from gpu_tracker.fleet.hosts.host import UP
from gpu_tracker.fleet.nvgpu_form import nvgpu_report
from gpu_tracker.fleet.program_answers import health, json_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client.registry import Collector
    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from gpu_tracker.fleet.agent.cluster_status import ClusterStatus
    from gpu_tracker.fleet.agent.local_host import LocalHost

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
        """Tell of this machine in our form."""
        return json_answer(self._host.body())

    async def gpu_status(self, _: Request) -> Response:
        """Tell of this machine in nvgpu's form, which has no words for figures that are old or not known."""
        state = self._host.state()
        if state.state != UP or state.report is None:
            return PlainTextResponse(f'{state.error}\n', _UNAVAILABLE)
        return json_answer(nvgpu_report(state.report, self._now()))

    async def cluster_status(self, _: Request) -> Response:
        """Tell of all configured hosts in nvgpu's form."""
        return json_answer(await self._cluster.reports())

    async def metrics(self, request: Request) -> Response:
        """Tell of this machine in Prometheus' form, or in that of OpenMetrics where it is asked for."""
        try:
            encode, media_type = choose_encoder(request.headers.get('accept', ''))
        except (TypeError, ValueError):  # it asks for a version that is no number
            encode, media_type = choose_encoder('')
        return Response(encode(self._registry), headers={'content-type': media_type})
