"""One tracked run: a sampler from its start to the evidence that it leaves, and the result that is made of it."""

from __future__ import annotations

import sys

from gpu_tracker.errors import ParameterError, SamplerError, see
from gpu_tracker.job import batch_request
from gpu_tracker.processes import default_reader, proc_fault
from gpu_tracker.real import os, time
from gpu_tracker.running.run_files import RunFiles
from gpu_tracker.sampler.session import Session
from gpu_tracker.sampler.spawn import OwnChildren

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from gpu_tracker.processes.reaped import OrphansUse
    from gpu_tracker.result.sampling import Sampling
    from gpu_tracker.result.usage import ResourceUsage
    from gpu_tracker.running.command import TrackedCommand
    from gpu_tracker.running.options import Options
    from gpu_tracker.totals import Configuration, Evidence, ProcessUse, Totals

_LONGEST_DISCARD = 2.0
"""Seconds to wait for a sampler that removes what it has recorded."""
_LONGEST_KEPT = 1.0
"""Seconds that a command waits at most for the end of a recording without a name of its own."""
_LONGEST_CHECK = 5.0
"""Seconds that a check of UUIDs takes at most."""
_READERS = ('proc', 'psutil')
_RU_MAXRSS_UNIT = 1 if sys.platform == 'darwin' else 1024
"""Bytes in one unit of ru_maxrss, see getrusage(2) of the system."""
_UNWRITTEN = 'The record of this rank could not be written to {}: {}.'
_NO_RESULT = 'The sampler has left no result.'


class Run:
    """What a process and everything it starts use of the machine, sampled from :meth:`start` to :meth:`stop`.

    :param options: What to track, and how.
    :param notify: Called once with the level and the text of each message, ``warning`` or ``info``.
    :param command: The command that is tracked; None: the process of the options.
    :param report: The report that the sampler keeps on disk: its path, the fields of a
        :class:`gpu_tracker.result.formats.Form`, and whether it is a line of the table in that file. None: the
        ``resource_usage_file`` of the options.
    :param commit_interval: Seconds after which samples are in the recording; None: as usual.
    :param limits: The limits that the sampler compares with each sample, by their reasons.
    :param keeps: Whether it is recorded and kept under a number, without a file of its own in the options.
    :ivar files: Its recording, its regions, and its record in the folder of a job.
    :ivar session: The sampler; None before the start.
    :ivar seconds: How long the run was tracked; known at its end.
    :ivar totals: What was measured, from :meth:`stop` on; None if there is no result.
    :ivar problem: What went wrong with the sampler, as a text for people; None: nothing.
    :ivar are_kills_reported: Somebody else has reported what the kernel killed for lack of memory.
    :ivar number: The number under which it is kept, from :meth:`finish` on; None: it is not.
    :ivar is_in_folder: The job's folder, if there is one, has the result.
    """

    def __init__(
        self,
        options: Options,
        notify: Callable[[str, str], object],
        *,
        command: TrackedCommand | None = None,
        report: tuple[str, Sequence[Any], bool] | None = None,
        commit_interval: float | None = None,
        limits: Mapping[str, float] | None = None,
        keeps: bool = False,
    ) -> None:
        self.options = options
        self.session: Session | None = None
        self.seconds = 0.0
        self.totals: Totals | None = None
        self.problem: str | None = None
        self.are_kills_reported = False
        self.number: int | None = None
        self.is_in_folder = True
        self._keeps = keeps
        self._kept_path: str | None = None
        self._notify = notify
        self._notified = 0
        self._command = command
        self._report = report
        if report is None and options.resource_usage_file is not None:
            self._report = options.resource_usage_file, ('json',), False
        self._limits = limits
        self.files = RunFiles(options, command, commit_interval, keeps=keeps)
        self._launcher_peak: int | None = None
        if command is not None and command.launcher is not None and default_reader() == 'proc':
            self._launcher_peak = _peak_of(command.launcher)
        self._evidence: Evidence | None = None
        self._conclude: Callable[[], None] | None = None
        """Makes the totals when the sampler was asked to stop."""
        self._facts: dict[str, Any] = {}
        """What is known at the end, see KernelFacts."""
        self._additions: dict[str, Any] = {}
        """What totals have beside what was measured."""
        self._first_messages: Sequence[tuple[str, str]] = ()
        self._started_at = 0.0
        self._main_at_end: tuple[float | None, bool] = None, False
        """If the sampler has failed: the CPU seconds of the command alone, and whether it has reaped children."""
        self._own_use_before: tuple[int, int, int, int] | None = None

    @property
    def _tracks_itself(self) -> bool:
        return self.options.process_id == os.getpid()

    @property
    def _is_held(self) -> bool:
        return self._command is not None and self._command.launcher is not None

    @property
    def recording(self) -> str | None:
        """The path of the recording; None: there is none, or it is not kept so far."""
        return self._kept_path or self.files.recording

    def start(self) -> None:
        """Start the sampler; return when the first sample is complete. A held command is to be released at once then.

        :raises SamplerError: if nothing can be measured.
        :raises ParameterError: if the sampler refuses an option: there is no such process or GPU.
        """
        self.files.make()
        session: Session | None = None
        try:
            configuration = self._configuration()
            if sys.platform != 'linux':
                self.files.hand_over()  # before the sampler, which cannot inherit the lock, takes one of its own
            session = Session(configuration)
            self.files.hand_over()
            _import_for_end(with_report=not self._tracks_itself, keeps=self._keeps)
            ready = session.wait_until_ready()
        except BaseException as error:
            refusal = None
            if session is not None:
                session.end()
                refusal = self._refusal(session.refusal, str(error))
            self.files.discard(is_unmeasured=isinstance(error, SamplerError) and refusal is None)
            if refusal is not None:
                raise refusal from None
            raise
        self.session = session
        self.files.join()
        self._first_messages = ready['messages']
        self._own_use_before = self._own_use()
        self._started_at = time.monotonic()
        if self._command is not None:
            self._started_at = self._command.started_at or self._started_at
            self.notify_first()
        if self._is_held:
            session.announce_launch()

    def check_uuids(self) -> None:
        """Check the UUIDs of GPUs, if there are any, in a sampler that is ended at once.

        The driver is not loaded into the program. A driver that does not answer in time is no error.

        :raises ParameterError: if this machine has no GPU of a UUID.
        """
        if self.options.gpu_uuids is None:
            return
        try:
            nothing: Any = dict.fromkeys(('recording', 'rows_file', 'recording_handle', 'report', 'rank', 'regions'))
            session = Session({**self._configuration(), **nothing, 'keeps': False, 'sections': (), 'limits': {}})
        except SamplerError:
            return  # the start reports it
        try:
            session.wait_until_ready(_LONGEST_CHECK)
        except SamplerError as error:
            refusal = self._refusal(session.refusal, str(error))
            if refusal is not None and refusal.parameter == 'gpu_uuids':
                raise refusal from None
        finally:
            session.end()

    def keep_files(self) -> None:
        """Keep the files of the run after its start, and report an older recording that was renamed."""
        self.files.keep()
        if self.files.renamed is not None:
            path, renamed = map(os.path.basename, self.files.renamed)
            self._warn(f'{path}: the older recording is now {renamed}.')

    def notify_first(self) -> None:
        """Pass on what the sampler has said at its start; an exception of that leaves the run as it is."""
        self._notify_new(self._first_messages)

    def stop(self) -> None:
        """Have the sampler make its last sample, and settle what it has measured.

        :raises SamplerError: if there is no result.
        """
        session = self.session
        if session is None:
            raise SamplerError(_NO_RESULT)
        self.seconds = time.monotonic() - self._started_at
        facts = self._facts_at_end()
        is_cut_off = True

        def conclude() -> None:
            self._evidence = self._evidence or session.evidence()
            if not session.is_recording or self._evidence is None:
                session.end()
                self.files.end()
            if self._evidence is not None:
                self._settle(**facts, is_cut_off=is_cut_off)

        self._conclude = conclude
        try:
            self.files.leave()
            self.problem = session.stop(self.seconds, self.options.n_join_attempts, self.options.join_timeout)
            is_cut_off = self.problem is not None
        finally:  # also if the user interrupts it
            conclude()
        if self.problem is not None and self._is_held:
            self._main_at_end = _read_ended(self.options.process_id)
        totals = self.require_totals()
        self._notify_new([*totals['messages'], ('warning', self.problem)] if self.problem else totals['messages'])
        if 'control_group' in totals and totals['control_group']['oom_kills']:
            self._note_kills(totals['control_group']['oom_kills'])

    def _facts_at_end(self) -> dict[str, Any]:
        """Return what this process knows when the run ends, see KernelFacts."""
        from gpu_tracker.resources.settle import ChildrenUse  # noqa: PLC0415 - see _import_for_end()

        facts: dict[str, Any] = {'tracked_seconds': self.seconds}
        if self._command is not None and self._command.started_at is not None:
            facts |= {'counts_over': self.seconds, 'counts_before': True}
        before, now = self._own_use_before, self._own_use()
        if before is not None and now is not None:
            facts['own_switches'] = now[2] - before[2], now[3] - before[3]
            if sys.platform == 'linux':
                facts['children'] = ChildrenUse(max(before[0], OwnChildren.peak), now[0], now[1] - before[1])
        return facts

    def _settle(self, **facts: Any) -> None:  # noqa: ANN401 - see KernelFacts
        """Make the totals of what was read, and of what the kernel has reported, with more that is known."""
        from gpu_tracker.resources.settle import KernelFacts, settle  # noqa: PLC0415 - see _import_for_end()

        if self._evidence is None:
            raise SamplerError(_NO_RESULT)
        self._facts |= facts
        measured: Any = {**settle(self._evidence, KernelFacts(**self._facts)), **self._additions}
        self.totals = measured

    def settle_command(self, use: ProcessUse, orphans: OrphansUse | None) -> None:
        """Settle once more, with what the kernel reported when the command was reaped.

        :param use: The use of the command and of the children that it has waited for, see wait4(2).
        :param orphans: The use of descendants that the launcher has reaped; None if unknown.
        """
        from gpu_tracker.resources.settle import CommandUse  # noqa: PLC0415 - see _import_for_end()

        main_seconds, has_reaped = None, False
        if self.problem is not None:
            orphans = None  # they may have ended after the sampler
            main_seconds, has_reaped = self._main_at_end
        command = CommandUse(
            cpu_seconds=use.ru_utime + use.ru_stime,
            peak=max(use.ru_maxrss, 0 if orphans is None else orphans.max_rss) * _RU_MAXRSS_UNIT,
            launcher_peak=self._launcher_peak,
            switches=(use.ru_nvcsw, use.ru_nivcsw),
            orphans=orphans,
            main_seconds=main_seconds,
            has_reaped=has_reaped,
        )
        self._settle(counts_over=self.seconds, command=command)
        self.add(major_faults=use.ru_majflt)
        if self.require_totals()['ram']['main'][0] is None and self.problem is None:
            from gpu_tracker.units import from_bytes  # noqa: PLC0415 - hardly ever needed

            unit = self.options.ram_unit
            peak = from_bytes(use.ru_maxrss * _RU_MAXRSS_UNIT, unit)
            self._warn(
                f'The command has ended before its memory could be read: its peak RAM was at most {peak:.3g} {unit}.'
            )

    def add(self, **more: Any) -> None:  # noqa: ANN401 - see Totals
        """Add to the totals what was not measured, or replace it."""
        self._additions |= more
        found: Any = {**self.require_totals(), **more}
        self.totals = found

    def add_own_group(self, figures: Mapping[str, Any]) -> None:
        """Add the figures of the command's control group.

        :param figures: See :meth:`gpu_tracker.control_groups.own_group.OwnGroup.end`.
        """
        totals = self.require_totals()
        kills = figures.get('oom_kills')
        sampled = totals['control_group']['oom_kills'] if 'control_group' in totals else None
        if kills is not None and sampled is not None:  # groups below may be gone that a sample has still seen
            figures = {**figures, 'oom_kills': max(kills, sampled)}
        self.add(own_group=figures)

    def finish(self, exit_code: int | None = None) -> None:
        """Complete the recording, if there is one, with the totals, which do not change any more.

        :param exit_code: The exit code of the command, if there was one.
        """
        session = self.session
        if session is None or self.totals is None:
            return
        if self._command is not None or self._tracks_itself:
            batch = batch_request(os.environ, time.time())
            if batch is not None:
                self.add(batch=batch)
        if session.is_recording:
            try:
                timeout = min(self.options.join_timeout, _LONGEST_KEPT) if self._keeps else self.options.join_timeout
                problem = session.finish(self.totals, exit_code, timeout)
                if self._keeps and problem is None:
                    self._keep(session.kept_recording)
            finally:
                session.end()
                self.files.end()
            if problem is not None and not self._keeps:
                self._warn(problem)
        try:
            self.files.write_end(self.totals, exit_code)
        except OSError as error:
            self._notify('warning', _UNWRITTEN.format(self.files.rank_report, error.strerror))
            self.is_in_folder = False

    def _keep(self, path: str | None) -> None:
        """Keep the recording under a number.

        :param path: Its path if the options have none; None: there is no folder for it.
        """
        if path is None:
            return
        from gpu_tracker.running import numbered_runs  # noqa: PLC0415 - only if it is kept

        folder = os.path.dirname(path)
        self.number = numbered_runs.keep_in_time(self.files.recording or path, folder)
        if self.number is not None:
            self._kept_path = numbered_runs.path_of(self.number, folder)

    def write_report(self) -> None:
        """Write the settled result into the ``resource_usage_file``, if there is one."""
        path = self.options.resource_usage_file
        if path is None:
            return
        from gpu_tracker.result.formats import as_json  # noqa: PLC0415 - at the end
        from gpu_tracker.system import files  # noqa: PLC0415 - as above

        try:
            files.write_whole(path, f'{as_json(self.usage())}\n')
        except OSError as error:
            self._notify('warning', f'The report could not be written to {path}: {error.strerror}.')

    def discard(self) -> None:
        """End the sampler without a result: the command could not be started."""
        if self.session is not None:
            if self.files.has_recording:
                self.session.discard(_LONGEST_DISCARD)
            self.session.end()
        self.files.discard()

    def require_totals(self) -> Totals:
        """Return the totals.

        :raises SamplerError: if there are none.
        """
        if self.totals is None and self._conclude is not None:
            self._conclude()  # the user has interrupted it
        if self.totals is None:
            raise SamplerError(_NO_RESULT)
        return self.totals

    def usage(self) -> ResourceUsage:
        """Return the documented result, in the units asked for.

        :raises SamplerError: if there is none.
        """
        from gpu_tracker.resources.building import build  # noqa: PLC0415 - keeps the measured process light until the end
        from gpu_tracker.units import Units  # noqa: PLC0415 - keeps the measured process light until the end

        return build(self.require_totals(), Units(*self.options.units()))

    def usage_so_far(self) -> ResourceUsage:
        """Return what the sampler has published last, with the marks of a run that goes on.

        :raises SamplerError: if there is nothing.
        """
        from dataclasses import replace  # noqa: PLC0415 - as above

        from gpu_tracker.figures import so_far  # noqa: PLC0415 - as above
        from gpu_tracker.resources.building import build  # noqa: PLC0415 - as above
        from gpu_tracker.resources.settle import settle  # noqa: PLC0415 - as above
        from gpu_tracker.units import Units  # noqa: PLC0415 - as above

        evidence = None if self.session is None else self.session.published()
        if evidence is None:
            raise SamplerError(_NO_RESULT)
        usage = build(settle(evidence), Units(*self.options.units()))
        return replace(usage, lower_bounds=so_far(usage))

    def sampling(self) -> Sampling:
        """Return how the run was sampled, and which figures are lower bounds.

        :raises SamplerError: if there is no result.
        """
        from gpu_tracker.result.sampling import record_of  # noqa: PLC0415 - as above

        return record_of(self.require_totals())

    def _configuration(self) -> Configuration:
        fault = proc_fault() if sys.platform == 'linux' else None
        if fault is not None:
            raise SamplerError(fault)
        options, command = self.options, self._command
        percent = options.max_overhead_percent
        words: tuple[tuple[str, ...], str] | None = None
        if command is not None and self._is_held and options.sections:
            words = command.words, command.folder or _folder()
        found: dict[str, Any] = {
            'owner': os.getpid(),
            'target': options.process_id,
            'launcher': None if command is None else command.launcher,
            'exec_handle': None if command is None else command.exec_handle,
            'reader': _reader(),
            'interval': options.sleep_time,
            'brands': options.gpu_brand,
            'uuids': options.gpu_uuids,
            'overhead': None if percent is None else percent / 100,
            'report': self._report,
            'keeps': True,
            'settles': self._is_held,
            'units': options.units(),
            'sections': options.sections,
            'command': words,
            'limits': self._limits or {},
            **self.files.requests(),
        }
        configuration: Any = found
        return configuration  # type: ignore[no-any-return]

    def _own_use(self) -> tuple[int, int, int, int] | None:
        """Return what the kernel reports of this process so far; None: another process is tracked.

        These are the bytes of its largest child, the page faults of children that are trackers' own, and its voluntary
        and involuntary context switches. The sampler's short-lived starter, to which vfork has lent this process' own
        peak, has been waited for.
        """
        if not self._tracks_itself or sys.platform == 'win32':
            return None
        import resource  # noqa: PLC0415 - not on every system

        largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * _RU_MAXRSS_UNIT
        used = resource.getrusage(resource.RUSAGE_SELF)
        return largest, OwnChildren.faults, used.ru_nvcsw, used.ru_nivcsw

    def _refusal(self, reason: str | None, text: str) -> ParameterError | None:
        """Return the error of the option that the sampler has refused; None if it has failed for another reason."""
        options = self.options
        if reason == 'process':
            return ParameterError(
                'process_id', options.process_id, 'the id of a process that exists', see('no-such-process')
            )
        if reason == 'uuids':
            advice = f'"gpu-tracker gpus --json" lists them; without a GPU leave it out. {see("gpu-uuids")}'
            return ParameterError('gpu_uuids', list(options.gpu_uuids or ()), text, advice)
        if reason == 'recording':
            name = 'tracking_file' if options.job_folder is None else 'job_folder'
            return ParameterError(name, getattr(options, name), text, see('cannot-write'))
        return None

    def _note_kills(self, count: int) -> None:
        """Add to the messages what was killed for lack of memory; not in the sampler, which may be killed like that."""
        from gpu_tracker.control_groups.oom_kills import sentence  # noqa: PLC0415 - hardly ever needed

        text = sentence(count)
        self.add(messages=[*self.require_totals()['messages'], ('warning', text)])
        if not self.are_kills_reported:
            self._warn(text)

    def _warn(self, text: str) -> None:
        if not self.options.disable_logs:
            self._notify('warning', text)

    def _notify_new(self, messages: Sequence[tuple[str, str]]) -> None:
        """Pass on the messages that were not passed on yet."""
        new = messages[self._notified :]
        self._notified = max(self._notified, len(messages))
        if not self.options.disable_logs:
            for level, text in new:
                self._notify(level, text)


def _peak_of(pid: int) -> int | None:
    from gpu_tracker.resources.ram.pages import MemoryFiles  # noqa: PLC0415 - Linux only

    found = MemoryFiles().mark(pid)
    return None if found is None else found[0]


def _read_ended(pid: int) -> tuple[float | None, bool]:
    """Return the CPU seconds of an ended command alone, a zombie now, and whether it has reaped children."""
    from gpu_tracker.processes import stat  # noqa: PLC0415 - hardly ever needed
    from gpu_tracker.processes.process import Process  # noqa: PLC0415 - as above

    try:
        with open(f'/proc/{pid}/stat', 'rb') as file:
            line = file.read()
    except OSError:
        return None, False  # not Linux
    command = Process(pid)
    stat.update(command, line)
    return command.own_cpu, stat.has_reaped(line)


def _import_for_end(*, with_report: bool, keeps: bool) -> None:
    """Import what the end of the run needs while the sampler starts: 2 ms, and 25 ms with the report."""
    from gpu_tracker.resources import chosen, settle  # noqa: F401, PLC0415

    if keeps:
        from gpu_tracker.running import numbered_runs  # noqa: F401, PLC0415
    if not with_report:
        return
    import json  # noqa: F401, PLC0415

    from gpu_tracker.resources import building  # noqa: F401, PLC0415
    from gpu_tracker.result import formats, sampling, usage  # noqa: F401, PLC0415

    for entry in chosen(()):
        entry.load()


def _folder() -> str:
    """Return the folder of this process; empty if it was removed."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ''


def _reader() -> str:
    """Return how processes are read: as the environment variable says, else in the system's own way."""
    chosen = os.environ.get('GPU_TRACKER_READER') or default_reader()
    if chosen not in _READERS:
        raise ParameterError('the environment variable GPU_TRACKER_READER', chosen, ' or '.join(_READERS))
    return chosen
