"""What this machine reports of itself: the newest reading, as agents report it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from gpu_tracker.fleet.hosts.nvgpu import NOT_AVAILABLE
from gpu_tracker.fleet.hosts.report import HostReport, ReportError, parse_report
from gpu_tracker.fleet.polling.failures import AgentError
from gpu_tracker.gpus.machine import host_name
from gpu_tracker.version import __version__

if TYPE_CHECKING:
    from gpu_tracker.gpus.latest_reading import Reading, Watch


class OwnReport:
    """Makes a report of each reading of a watch, once. It belongs to one thread.

    :param version: Of gpu-tracker.
    """

    def __init__(self, watch: Watch, version: str) -> None:
        self._watch = watch
        self._version = version
        self._parsed: tuple[Reading, HostReport] | None = None

    def body(self, reading: Reading) -> dict[str, object]:
        """Return what ``/api/v1/host`` answers: a snapshot, how old it is, and by what it was taken."""
        return {
            **reading.snapshot,
            'age_seconds': self._watch.age(reading),
            'interval_seconds': self._watch.usual_interval,
            'agent_version': self._version,
        }

    def of(self, reading: Reading) -> HostReport:
        """Return a reading as a report, with the age that it has now."""
        if self._parsed is None or self._parsed[0] is not reading:
            # It goes the way of what other hosts report, so that all are read alike.
            report = self._read(reading)
            self._parsed = reading, report._replace(time=None)  # it is this machine's clock, which has no error
        return self._parsed[1]._replace(age=self._watch.age(reading))

    def _read(self, reading: Reading) -> HostReport:
        try:
            return parse_report(json.dumps(self.body(reading)).encode())
        except ReportError as error:  # as much as no machine has; the next reading may be another
            problem = f'the data of the GPU driver cannot be used: {error}'
            return HostReport(host_name(), f'gpu-tracker {self._version}', None, driver_problem=problem)


_LOOKS_EVERY = 0.05


class ThisMachine:
    """Reports the newest reading of a watch."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._report = OwnReport(watch, __version__)

    async def ask(self) -> HostReport:
        """Return the newest reading, as soon as there is one. There is no limit in time: whoever asks cancels."""
        while (reading := self._watch.latest()) is None:  # noqa: ASYNC110 - the watch is a thread and has no events
            await asyncio.sleep(_LOOKS_EVERY)  # only where the dashboard has just been started
        return self._report.of(reading)


def not_yet() -> AgentError:
    """Return the error of a first reading that takes longer than a round may."""
    return AgentError('the GPU driver has not responded yet', NOT_AVAILABLE)
