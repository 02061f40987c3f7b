"""A host with eight GPUs, no two of them alike, as an agent reports it to Prometheus."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from gpu_tracker.fleet.hosts.host import HostState
from gpu_tracker.fleet.hosts.report import parse_report
from gpu_tracker.gpus.machine import Seen, snapshot
from support.gpus.example_gpus import GPUS, NOW, user_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.gpus.model import GpuReading


class ReportingHost:
    """Stands in for the LocalHost of an agent.

    :param time: Of its reading, in seconds since 1970.
    :param gpus: What it has.
    """

    def __init__(self, time: float, gpus: Sequence[GpuReading] = GPUS) -> None:
        self.time = time
        told = snapshot(Seen(NOW, list(gpus)), hostname='node01', user_name=user_name)
        self.report = parse_report(json.dumps(told).encode())

    def state(self) -> HostState:
        """Return the host, which is up."""
        return HostState('0', 'node01').reported(self.report, self.time)
