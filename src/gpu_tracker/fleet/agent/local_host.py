"""This machine as the agent tells of it: from the newest reading, never from the driver."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from gpu_tracker.fleet.hosts.host import HostState
from gpu_tracker.fleet.hosts.report import parse_report
from gpu_tracker.fleet.own_report import OwnReport
from gpu_tracker.gpus.machine import Seen, host_name, snapshot_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_tracker.fleet.watch import Reading, Watch

HOST_ID = '0'

_NOT_YET = 'the GPU driver has not answered yet'


class LocalHost:
    """This machine as the newest reading has it, and how old that is. It belongs to one thread.

    :param version: Of this agent.
    :param now: Seconds since 1970.
    """

    def __init__(self, watch: Watch, version: str, now: Callable[[], float] = time.time) -> None:
        self._watch = watch
        self._version = version
        self._now = now
        self._state = HostState(HOST_ID, host_name())
        self._report = OwnReport(watch, version)

    @property
    def reading(self) -> Reading | None:
        """The newest reading; None: the first look goes on."""
        return self._watch.peek()

    @property
    def time(self) -> float | None:
        """When the newest reading that has told the GPUs was taken, in seconds since 1970; None: there was none."""
        reading = self._watch.last_with_gpus
        taken = None if reading is None else reading.snapshot['time']
        return taken if isinstance(taken, float) else None

    def body(self) -> dict[str, object]:
        """Return what ``/api/v1/host`` answers."""
        reading = self._watch.peek()
        if reading is not None:
            return self._report.body(reading)
        not_known = snapshot_of(Seen(self._now(), None, driver_problem=_NOT_YET))
        interval = self._watch.usual_interval
        return {**not_known, 'age_seconds': None, 'interval_seconds': interval, 'agent_version': self._version}

    def state(self) -> HostState:
        """Return how this host is now; what was known last is kept while its driver does not work."""
        reading = self._watch.peek()
        report = parse_report(json.dumps(self.body()).encode()) if reading is None else self._report.of(reading)
        self._state = self._state.reported(report, self._now())
        return self._state
