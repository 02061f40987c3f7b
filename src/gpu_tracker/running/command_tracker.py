"""Trackers for the command line: they keep a report on disk, and pass warnings on to it."""

from __future__ import annotations

import os
import sys
import time

from gpu_tracker.processes import default_reader, stat
from gpu_tracker.processes.process import Process
from gpu_tracker.resources import chosen
from gpu_tracker.resources.settle import CommandUse
from gpu_tracker.running.options import Parameters
from gpu_tracker.running.run import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from gpu_tracker.processes.reaped import OrphansUse
    from gpu_tracker.sampling import Sampling
    from gpu_tracker.totals import ProcessUse
    from gpu_tracker.usage import ResourceUsage

_LONGEST_STOP = 5.0
"""Seconds for which the user waits after the end of the command, at most; the sampler takes 20 ms in the usual way."""
_RU_MAXRSS_UNIT = 1 if sys.platform == 'darwin' else 1024
"""Bytes in one unit of ru_maxrss, see getrusage(2) of the system."""


class ReportingTracker:
    """A tracker whose sampler keeps the report so far in a file of any format.

    :param report_file: The absolute path of that file, or None for none.
    :param report_form: The fields of a :class:`gpu_tracker.report.Form`.
    :param appends: Whether the report becomes a line of the table in that file, where this process is killed.
    :param warn: Called with each warning.
    :param configuration: What the sampler is told beside the parameters.
    :param options: The parameters of :class:`~gpu_tracker.Tracker`.
    """

    def __init__(
        self,
        *,
        report_file: str | None,
        report_form: Sequence[Any] = ('text',),
        appends: bool = False,
        warn: Callable[[str], None],
        configuration: Mapping[str, Any] | None = None,
        **options: Any,  # noqa: ANN401 - those of Tracker, which Parameters checks
    ) -> None:
        parameters = Parameters(**{'n_join_attempts': 1, 'join_timeout': _LONGEST_STOP, **options})
        report = None if report_file is None else (report_file, tuple(report_form), appends)
        self.run = Run(
            parameters,
            lambda level, text: warn(text) if level == 'warning' else None,
            {**({} if report is None else {'report': report}), **(configuration or {})},
        )

    def start(self) -> None:
        """Start tracking; return when the first sample is complete."""
        self.run.start(_import_for_report)
        self.run.notify_first()

    def keep_file(self) -> None:
        """Let go of the file that the recording replaces: the run has begun."""
        self.run.keep_file()

    def exceeded(self) -> tuple[str, float] | None:
        """Return the limit that the sampler has found exceeded, and what was used; None: none so far."""
        return None if self.run.session is None else self.run.session.exceeded()

    @property
    def has_sampler(self) -> bool:
        """Whether the sampler still runs, as far as :meth:`exceeded` has seen."""
        return self.run.session is not None and not self.run.session.has_ended

    def note_termination(self, reason: str) -> None:
        """Take note, between :meth:`stop` and :meth:`finish`, that a limit has ended the run."""
        self.run.note_termination(reason)

    def exceeded_at_end(self, limits: Mapping[str, float]) -> list[tuple[str, float]]:
        """Return the limits that the result exceeds, each with what was used; it is settled."""
        return self.run.exceeded_at_end(limits)

    def note_exceeded(self, messages: Mapping[str, str]) -> None:
        """Take note of limits that were exceeded and have not ended the run; see :meth:`gpu_tracker.run.Run`."""
        self.run.note_exceeded(messages)

    def stop(self) -> None:
        """Stop tracking; afterwards the result is there, and :meth:`finish` completes a recording."""
        self.run.stop()

    def finish(self, exit_code: int | None = None) -> None:
        """Complete the recording, if there is one; the result changes no more.

        :param exit_code: That of the command; None: none is known.
        """
        self.run.finish(exit_code)

    def note_exit(self, exit_code: int) -> None:
        """Write into the job's folder, if there is one, how a command has ended of which there is no result."""
        self.run.note_exit(exit_code)

    def write_report(self) -> None:
        """Write the result into the ``resource_usage_file``, if there is one: the sampler does not know all of it."""
        self.run.write_report()

    @property
    def is_in_folder(self) -> bool:
        """Whether the job's folder, if there is one, has the result."""
        return self.run.is_in_folder

    @property
    def resource_usage(self) -> ResourceUsage:
        """What was used, from the end on."""
        return self.run.usage()

    @property
    def sampling(self) -> Sampling:
        """How the run was sampled, from its end on."""
        return self.run.sampling()


class StartedTracker(ReportingTracker):
    """A tracker of a command that has run for a while before the first sample.

    :param started_at: When it was started, in monotonic seconds.
    """

    def __init__(self, *, started_at: float, **options: Any) -> None:  # noqa: ANN401 - those of ReportingTracker
        super().__init__(**options)
        self._started_at = started_at

    def stop(self) -> None:
        """Stop tracking; the time from the start of the command counts, and what it has used of the CPU itself."""
        now = time.monotonic()
        super().stop()
        self.run.seconds = seconds = now - self._started_at
        self.run.settle(self.run.facts._replace(tracked_seconds=seconds, counts_over=seconds, counts_before=True))


class CommandTracker:
    """Tracks a command that its launcher has forked and holds back until the sampler is ready.

    :param process_id: The held process.
    :param exec_handle: The reading end of a pipe whose other end the held process closes by its ``exec``. From then on
        its memory counts.
    :param launcher: The process that has forked it, adopts its orphans and waits for it; None: this one.
    :param command: The words that the held process was given to become.
    :param folder: The folder that it is in; None: this process' own.
    :param regions: The path of the log that it writes regions to; None: there is none.
    :param commit_interval: Seconds after which what was measured is in a recording; None: as usual.
    :param limits: Those that the sampler compares with what it samples, see :meth:`exceeded`; None: none.
    :param options: The parameters of :class:`ReportingTracker`.
    """

    def __init__(
        self,
        *,
        process_id: int,
        exec_handle: int,
        warn: Callable[[str], None],
        launcher: int | None = None,
        command: Sequence[str] = (),
        folder: str | None = None,
        regions: str | None = None,
        commit_interval: float | None = None,
        limits: Mapping[str, float] | None = None,
        **options: Any,  # noqa: ANN401 - see above
    ) -> None:
        self._launcher_peak = _peak_of(launcher or os.getpid()) if default_reader() == 'proc' else None
        self._main_seconds: float | None = None
        self._has_reaped = False
        held = {
            'settles': True,
            'launcher': launcher or os.getpid(),
            'exec_handle': exec_handle,
            'regions': regions,
            'recorded_command': tuple(command),
            'commit_interval': commit_interval,
            **({'limits': limits} if limits else {}),
            'command': (tuple(command), folder or _folder())
            if options.get('sections') or options.get('cuda')
            else None,
        }
        self._tracker = ReportingTracker(process_id=process_id, warn=warn, configuration=held, **options)
        self._process_id = process_id
        self._warn = warn

    def start(self) -> None:
        """Start tracking; afterwards the held process is to be let go at once."""
        self._tracker.start()
        session = self._tracker.run.session
        if session is not None:
            session.announce_launch()

    def notify_by_signal(self) -> None:
        """Have SIGIO sent to this process when a limit was exceeded, or the sampler has ended (Linux)."""
        session = self._tracker.run.session
        if session is not None:
            session.notify_by_signal()

    def exceeded(self) -> tuple[str, float] | None:
        """Return the limit that the sampler has found exceeded, and what was used; None: none so far."""
        return self._tracker.exceeded()

    @property
    def has_sampler(self) -> bool:
        """Whether the sampler still runs, as far as :meth:`exceeded` has seen."""
        return self._tracker.has_sampler

    @property
    def sampler_pid(self) -> int | None:
        """The sampler's process, which may be a child of this one; None: there is none."""
        session = self._tracker.run.session
        return None if session is None else session.pid

    def leave_out_kills(self) -> None:
        """Print no warning, at :meth:`stop`, of what was killed for lack of memory: that is reported already."""
        self._tracker.run.are_kills_reported = True

    def note_termination(self, reason: str) -> None:
        """Take note, between :meth:`stop` and :meth:`finish`, that a limit has ended the run."""
        self._tracker.note_termination(reason)

    def exceeded_at_end(self, limits: Mapping[str, float]) -> list[tuple[str, float]]:
        """Return the limits that the result exceeds, each with what was used; it is settled."""
        return self._tracker.exceeded_at_end(limits)

    def note_exceeded(self, messages: Mapping[str, str]) -> None:
        """Take note of limits that were exceeded and have not ended the run; see :meth:`gpu_tracker.run.Run`."""
        self._tracker.note_exceeded(messages)

    def stop(self) -> None:
        """Stop tracking; the command has ended and was not waited for yet."""
        self._tracker.stop()
        if self._tracker.run.problem is not None:
            self._read_command()

    def settle(self, exact: ProcessUse, orphans: OrphansUse | None) -> None:
        """Raise the totals to what the kernel reported when the command was reaped.

        :param exact: The command's own use and that of the children that it has waited for, see wait4(2).
        :param orphans: The use of descendants that this process has reaped; None if unknown.
        """
        run = self._tracker.run
        if run.problem is not None:
            orphans = None  # they may have ended after the sampler
        peak = max(exact.ru_maxrss, 0 if orphans is None else orphans.max_rss) * _RU_MAXRSS_UNIT
        use = CommandUse(
            cpu_seconds=exact.ru_utime + exact.ru_stime,
            peak=peak,
            launcher_peak=self._launcher_peak,
            switches=(exact.ru_nvcsw, exact.ru_nivcsw),
            orphans=orphans,
            main_seconds=self._main_seconds,
            has_reaped=self._has_reaped,
        )
        run.settle(run.facts._replace(counts_over=run.seconds, command=use))
        if run.require_totals()['ram']['main'][0] is None and run.problem is None and not run.parameters.disable_logs:
            from gpu_tracker.units import from_bytes  # noqa: PLC0415 - hardly ever needed

            unit = run.parameters.ram_unit
            self._warn(
                'The command has ended before its memory could be read: '
                f'its peak RAM was at most {from_bytes(peak, unit):.3g} {unit}.'
            )

    def _read_command(self) -> None:
        """Read the command, a zombie now, because the sampler could not: its own CPU time, and if it had children."""
        try:
            with open(f'/proc/{self._process_id}/stat', 'rb') as file:
                line = file.read()
        except OSError:
            return  # not Linux
        command = Process(self._process_id)
        stat.update(command, line)
        self._main_seconds = command.own_cpu
        self._has_reaped = stat.has_reaped(line)

    def add_own_group(self, figures: Mapping[str, Any]) -> None:
        """Add to the result what the control group of the command has used.

        :param figures: See :meth:`gpu_tracker.control_groups.own_group.OwnGroup.end`.
        """
        totals = self._tracker.run.require_totals()
        kills = figures.get('oom_kills')
        sampled = totals['control_group']['oom_kills'] if 'control_group' in totals else None
        if kills is not None and sampled is not None:  # groups below may be gone that a sample has still seen
            figures = {**figures, 'oom_kills': max(kills, sampled)}
        self._tracker.run.add(own_group=figures)

    def keep_file(self) -> None:
        """Let go of the file that the recording replaces: the command runs."""
        self._tracker.keep_file()

    def finish(self, exit_code: int | None = None) -> None:
        """Complete the recording, if there is one; the result changes no more."""
        self._tracker.finish(exit_code)

    def write_report(self) -> None:
        """Write the result into the ``resource_usage_file``, if there is one: the sampler does not know all of it."""
        self._tracker.write_report()

    def discard(self) -> None:
        """End the sampler without a result: the command could not be started."""
        self._tracker.run.discard()

    def note_exit(self, exit_code: int) -> None:
        """Write into the job's folder, if there is one, how the command has ended of which there is no result."""
        self._tracker.note_exit(exit_code)

    @property
    def is_in_folder(self) -> bool:
        """Whether the job's folder, if there is one, has the result."""
        return self._tracker.is_in_folder

    @property
    def resource_usage(self) -> ResourceUsage:
        """What was used, from the end on."""
        return self._tracker.resource_usage

    @property
    def sampling(self) -> Sampling:
        """How the run was sampled, from its end on."""
        return self._tracker.sampling


def _import_for_report() -> None:
    """Import what makes the report while the sampler starts: 25 ms that the user would wait for at the end."""
    import json  # noqa: F401, PLC0415

    from gpu_tracker import report, sampling, usage  # noqa: F401, PLC0415

    for entry in chosen(()):
        entry.load()


def _peak_of(pid: int) -> int | None:
    from gpu_tracker.resources.ram.pages import MemoryFiles  # noqa: PLC0415 - Linux only

    found = MemoryFiles().mark(pid)
    return None if found is None else found[0]


def _folder() -> str:
    """Return where this process is; empty where that folder was removed."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ''
