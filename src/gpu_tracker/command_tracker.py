"""Trackers for the command line: they keep a report on disk, and hand warnings to it."""

from __future__ import annotations

import os
import sys

from gpu_tracker.process_tree import default_reader
from gpu_tracker.settlement import settle
from gpu_tracker.tracker import Tracker

TYPE_CHECKING = False
if TYPE_CHECKING:
    import resource
    from collections.abc import Callable, Sequence
    from typing import Any

_RU_MAXRSS_UNIT = 1 if sys.platform == 'darwin' else 1024
"""Bytes in one unit of ru_maxrss, see getrusage(2) of the system."""


class ReportingTracker(Tracker):
    """A tracker whose sampler keeps the report so far in a file of any format.

    :param report_file: The absolute path of that file, or None for none.
    :param report_format: A name in :data:`gpu_tracker.render.FORMATS`.
    :param warn: Called with each warning, in place of logging it.
    :param options: The parameters of :class:`Tracker`.
    """

    def __init__(
        self,
        *,
        report_file: str | None,
        report_format: str,
        warn: Callable[[str], None],
        **options: Any,  # noqa: ANN401 - those of Tracker, which checks them
    ) -> None:
        super().__init__(**options)
        self._report = None if report_file is None else (report_file, report_format)
        self._warn = warn

    def _tell_one(self, level: str, text: str) -> None:
        if level == 'warning':
            self._warn(text)

    def _use_the_wait(self) -> None:
        import json  # noqa: F401, PLC0415 - together these take 15 ms, which the user would wait for at the end

        from gpu_tracker import render, result, sampling  # noqa: F401, PLC0415

    def _configuration(self) -> dict[str, Any]:
        return {**super()._configuration(), 'report': self._report}


class CommandTracker(ReportingTracker):
    """Tracks a command that its launcher, this process, has forked and holds back until the sampler is ready.

    :param exec_handle: The reading end of a pipe whose other end the held process closes by its ``exec``. From then on
        its memory counts.
    :param command: The words that the held process was given to become.
    :param options: The parameters of :class:`ReportingTracker`; ``process_id`` is the held process.
    """

    def __init__(self, *, exec_handle: int, command: Sequence[str] = (), **options: Any) -> None:  # noqa: ANN401 - see above
        super().__init__(**options)
        self._exec_handle = exec_handle
        self._command = tuple(command)

    def start(self) -> None:
        """Start tracking; afterwards the held process is to be let go at once."""
        super().start()
        if self._session is not None:
            self._session.announce_launch()

    def settle(self, exact: resource.struct_rusage, orphans_seconds: float | None) -> None:
        """Put what the kernel told when the command was waited for in place of what was sampled.

        :param exact: The command's own use and that of the children that it has waited for, see wait4(2).
        :param orphans_seconds: CPU time of its descendants that this process has waited for; None where not known.
        """
        totals = self._require_totals()
        self._usage = None
        if self._problem is not None:
            orphans_seconds = None  # they may have ended after the sampler
        settle(totals, exact.ru_utime + exact.ru_stime, exact.ru_maxrss * _RU_MAXRSS_UNIT, orphans_seconds)
        if totals['ram']['main'][0] is None and self._problem is None and not self._parameters.disable_logs:
            bound = self.sampling.main_ram
            self._warn(
                'The command has ended before its memory could be read: '
                f'its peak RAM was at most {bound.upper:.3g} {self.sampling.unit}.'
            )

    def discard(self) -> None:
        """End the sampler without a result: the command could not be started."""
        if self._session is not None:
            self._session.end()
        self.state = self.State.STOPPED

    def _configuration(self) -> dict[str, Any]:
        from gpu_tracker.sources.memory_files import MemoryFiles  # noqa: PLC0415 - Linux only

        peak = MemoryFiles().peak(os.getpid()) if default_reader() == 'proc' else None
        return {
            **super()._configuration(),
            'settles': True,
            'launcher': os.getpid(),
            'launcher_peak': peak,
            'exec_handle': self._exec_handle,
            'command': (self._command, _folder()) if self._parameters.sections else None,
        }


def _folder() -> str:
    """Return where this process is; empty where that folder was removed."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ''
