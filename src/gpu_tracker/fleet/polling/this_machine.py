"""This machine as a host among the others: looked at in the process, without HTTP."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from gpu_tracker import __version__
from gpu_tracker.fleet.hosts.own_report import OwnReport
from gpu_tracker.fleet.nvgpu_form import NOT_AVAILABLE
from gpu_tracker.fleet.polling.failure import AgentError

if TYPE_CHECKING:
    from gpu_tracker.fleet.hosts.report import HostReport
    from gpu_tracker.gpus.watch import Watch

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
    """Return the error of a first look that takes longer than a round may."""
    return AgentError('its GPU driver has not answered yet', NOT_AVAILABLE)
