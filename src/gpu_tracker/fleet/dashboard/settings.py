"""What a dashboard is told to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gpu_tracker.fleet.config.cluster import Cluster
    from gpu_tracker.fleet.prometheus.endpoint import Endpoint


class PolledHosts(NamedTuple):
    """A dashboard that asks the agents itself."""

    cluster: Cluster


class Prometheus(NamedTuple):
    """A dashboard that asks a Prometheus, which scrapes the agents."""

    endpoint: Endpoint
    interval: float
    """Seconds between two rounds of questions."""
    deadline: float
    """Seconds that a question may take."""


Settings = PolledHosts | Prometheus
