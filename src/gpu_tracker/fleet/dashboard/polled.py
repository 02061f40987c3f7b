"""What a dashboard tells beside its page where it asks the agents itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Route

from gpu_tracker.fleet.dashboard.discovery import targets
from gpu_tracker.fleet.hosts.host import UP
from gpu_tracker.fleet.nvgpu_form import nvgpu_report

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from gpu_tracker.fleet.config.cluster import Cluster
    from gpu_tracker.fleet.hosts.host import HostState
    from gpu_tracker.fleet.polling.poller import Poller

_NOT_AVAILABLE = 'Host not available'


class PolledAnswers:
    """The routes for programs: ``/sd`` for Prometheus, and ``/cluster_status`` as nvgpu's masters have it."""

    def __init__(self, cluster: Cluster, poller: Poller) -> None:
        self._cluster = cluster
        self._poller = poller

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [Route('/sd', self.discovery), Route('/cluster_status', self.cluster_status)]

    async def discovery(self, _: Request) -> Response:
        """Tell Prometheus which agents there are."""
        return _json(targets(self._cluster, self._poller.fleet.states()))

    async def cluster_status(self, _: Request) -> Response:
        """Tell of all hosts in nvgpu's form."""
        return _json([self._in_nvgpus_form(state) for state in self._poller.fleet.states()])

    def _in_nvgpus_form(self, state: HostState) -> dict[str, object]:
        if state.state == UP and state.report is not None:
            return nvgpu_report(state.report, self._poller.fleet.now())
        return {'error': self._poller.error_for_nvgpu(state.id) or state.error or _NOT_AVAILABLE}


def _json(value: object) -> Response:
    """Return an answer in ASCII, in which every text can be written."""
    return Response(json.dumps(value), media_type='application/json')
