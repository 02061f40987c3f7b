"""The agents as targets for Prometheus, in the form that its ``http_sd_configs`` read."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.routing import Route

from gpu_tracker.fleet.hosts.nvgpu import NVGPU, nvgpu_state
from gpu_tracker.fleet.program_answers import SharedBody, json_answer, json_list

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from gpu_tracker.fleet.config.cluster import Cluster, ConfiguredHost
    from gpu_tracker.fleet.hosts.host import HostState
    from gpu_tracker.fleet.polling.poller import Poller

_PORTS = {'http': 80, 'https': 443}


def targets(cluster: Cluster, states: Sequence[HostState]) -> list[dict[str, object]]:
    """Return what ``json.dumps`` takes: the agents with the same labels together, in the order of the configuration.

    Labels are ``__scheme__``, ``group`` where a host has one, and ``name`` where the configuration gives one. This
    machine is not among the targets, since the dashboard has no metrics, and no agent of nvgpu, which has none either.
    Tokens are no part of it: Prometheus has a file for them.

    :param states: The hosts as they are now, in the same order.
    """
    by_labels: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for host, state in zip(cluster.hosts, states, strict=True):
        if host.url is not None and (state.report is None or state.report.agent != NVGPU):
            by_labels.setdefault(_labels(host, host.url), []).append(_target(host.url))
    return [{'targets': listed, 'labels': dict(labels)} for labels, listed in by_labels.items()]


def _labels(host: ConfiguredHost, url: str) -> tuple[tuple[str, str], ...]:
    labels = {'__scheme__': urlsplit(url).scheme, 'group': host.group, 'name': host.name}
    return tuple((key, value) for key, value in labels.items() if value is not None)


def _target(url: str) -> str:
    parts = urlsplit(url)
    return parts.netloc if parts.port is not None else f'{parts.netloc}:{_PORTS[parts.scheme]}'


class PolledAnswers:
    """The routes for programs: ``/sd`` for Prometheus, and ``/cluster_status`` as nvgpu's masters have it."""

    def __init__(self, poller: Poller) -> None:
        self._poller = poller
        self._shared = SharedBody()

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [Route('/sd', self.discovery), Route('/cluster_status', self.cluster_status)]

    async def discovery(self, _: Request) -> Response:
        """Tell Prometheus which agents there are."""
        return json_answer(targets(self._poller.cluster, self._poller.fleet.states()))

    async def cluster_status(self, request: Request) -> Response:
        """Report all hosts in nvgpu's form."""
        poller = self._poller
        fleet, now = poller.fleet, poller.fleet.now()
        reports = (nvgpu_state(state, poller.error_for_nvgpu(state.id), now) for state in fleet.states())
        return await self._shared.answer(request, json_list(reports), (fleet.rounds, fleet.removals))
