"""What a dashboard tells beside its page where it asks the agents itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.routing import Route

from gpu_tracker.fleet.dashboard.discovery import targets
from gpu_tracker.fleet.nvgpu_form import nvgpu_state
from gpu_tracker.fleet.program_answers import json_answer

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from gpu_tracker.fleet.config.cluster import Cluster
    from gpu_tracker.fleet.polling.poller import Poller


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
        return json_answer(targets(self._cluster, self._poller.fleet.states()))

    async def cluster_status(self, _: Request) -> Response:
        """Tell of all hosts in nvgpu's form."""
        poller = self._poller
        now = poller.fleet.now()
        return json_answer(
            [nvgpu_state(state, poller.error_for_nvgpu(state.id), now) for state in poller.fleet.states()]
        )
