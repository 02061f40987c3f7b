"""A host with eight GPUs, no two of them alike, as an agent reports it to Prometheus."""

from __future__ import annotations

import json

from gpu_tracker.fleet.hosts.host import HostState
from gpu_tracker.fleet.hosts.report import parse_report
from gpu_tracker.gpus.machine import snapshot
from gpu_tracker.gpus.model import GpuHealth
from support.gpus.example_gpus import GPUS, NOW, user_name

HEALTH = GpuHealth(((79, 1),), 1, 2, 3, 4, 5, 6, True, False, ('power_cap',), 7.5, 8, 9, 10, 11)


class ReportingHost:
    """Stands in for the LocalHost of an agent.

    :param time: Of its reading, in seconds since 1970.
    """

    def __init__(self, time: float) -> None:
        self.time = time
        gpus = [GPUS[0]._replace(health=HEALTH), *GPUS[1:]]
        told = snapshot(gpus, hostname='node01', now=NOW, user_name=user_name)
        self.report = parse_report(json.dumps(told).encode())

    def state(self) -> HostState:
        """Return the host, which is up."""
        return HostState('0', 'node01').reported(self.report, self.time)
