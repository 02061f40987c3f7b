"""One tracked run: a sampler from its start to the totals that it leaves, and the result that they make."""

from __future__ import annotations

import os
import sys
import time

from gpu_tracker import job
from gpu_tracker.errors import ParameterError, SamplerError, see
from gpu_tracker.processes import default_reader, proc_fault
from gpu_tracker.recording.schema import STOPPED
from gpu_tracker.recording.writing.run_regions import RunRegions, load_regions
from gpu_tracker.recording.writing.tracking_file import TrackingFile
from gpu_tracker.sampler.session import Session
from gpu_tracker.sampler.spawn import OwnChildren

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from gpu_tracker.jobs.rank_files import RankFiles
    from gpu_tracker.recording.reading.model import Region
    from gpu_tracker.resources.settle import KernelFacts
    from gpu_tracker.running.options import Parameters
    from gpu_tracker.sampling import Sampling
    from gpu_tracker.totals import Configuration, Evidence, RankRequest, RecordingRequest, Totals
    from gpu_tracker.usage import ResourceUsage

_LONGEST_DISCARD = 2.0
"""Seconds to wait for a sampler that removes what it has recorded."""
_OF_RECORDING = ('recorded_command', 'commit_interval')
"""What the sampler is told of the recording alone."""
_READERS = ('proc', 'psutil')
_UNWRITTEN = 'The record of this rank could not be written to {}: {}.'
_NO_RESULT = 'The sampler has left no result.'


class Run:
    """What a process and everything it starts use of the machine, sampled from :meth:`start` to :meth:`stop`.

    :param parameters: What to track, and how.
    :param notify: Called with the level and the text of each message, ``warning`` or ``info``, once.
    :param configuration: What the sampler is told beside the parameters, see :func:`gpu_tracker.sampler.spawn.spawn`.
    :ivar session: The sampler; None before the start.
    :ivar seconds: How long the run was tracked; known at its end.
    :ivar totals: What was measured, from :meth:`stop` on; None where nothing is left of it.
    :ivar problem: What went wrong with the sampler, as a text for people; None: nothing.
    :ivar are_kills_reported: Whether somebody else has reported already what was killed for lack of memory.
    :ivar is_in_folder: Whether the job's folder, if there is one, has the result.
    """

    def __init__(
        self,
        parameters: Parameters,
        notify: Callable[[str, str], None],
        configuration: Mapping[str, Any] | None = None,
    ) -> None:
        self.parameters = parameters
        self.session: Session | None = None
        self.seconds = 0.0
        self.totals: Totals | None = None
        self._evidence: Evidence | None = None
        self._facts: KernelFacts | None = None
        self._additions: dict[str, Any] = {}
        """What totals have beside what was measured."""
        self.problem: str | None = None
        self.are_kills_reported = False
        self.is_in_folder = True
        self._notify = notify
        self._notified = 0
        self._first_messages: Sequence[tuple[str, str]] = ()
        self._more = configuration or {}
        self._file: TrackingFile | None = None
        self._rank: RankFiles | None = None
        self._about_rank: dict[str, Any] = {}
        self._job: Mapping[str, Any] | None = None
        self._regions: RunRegions | None = None
        self._started_at = 0.0
        self._largest_child: int | None = None
        self._own_faults = 0
        self._switches: tuple[int, int] | None = None

    def start(self, meanwhile: Callable[[], None] | None = None) -> None:
        """Start the sampler; return when the first sample is complete.

        :param meanwhile: Called while the sampler starts.
        :raises SamplerError: where nothing can be measured.
        :raises ParameterError: where the sampler refuses a parameter: there is no such process or GPU.
        """
        fault = proc_fault() if sys.platform == 'linux' else None
        if fault is not None:
            raise SamplerError(fault)
        self._make_files()
        try:
            configuration = self._configuration()
            if self._file is not None and sys.platform != 'linux':
                self._file.hand_over()  # before the sampler, which cannot inherit the lock, takes one of its own
            session = Session(configuration)
        except BaseException:
            self._discard_files()
            raise
        try:
            if self._file is not None:
                self._file.hand_over()
            if meanwhile is not None:
                meanwhile()
            ready = session.wait_until_ready()
        except BaseException as error:
            session.end()
            rank, about = self._rank, self._about_rank
            self._discard_files()
            if isinstance(error, SamplerError):
                self._raise_refusal(error, session.refusal)
                if rank is not None:  # it will run all the same: no report may say that it has never started
                    _write_unmeasured(rank, about)
            raise
        self.session = session
        if self._regions is not None:
            self._regions.join()
        self._first_messages = ready['messages']
        self._largest_child = self._largest_child_so_far()
        self._own_faults = OwnChildren.faults
        self._switches = self._own_switches()
        self._started_at = time.monotonic()

    def notify_first(self) -> None:
        """Pass on what the sampler has said at its start; what that raises leaves the run as it is."""
        self._notify_new(self._first_messages)

    def stop(self) -> None:
        """Have the sampler make its last sample, and take the totals.

        :raises SamplerError: where no result is left.
        """
        now = time.monotonic()
        session = self.session
        if session is None:
            raise SamplerError(_NO_RESULT)
        self.seconds = now - self._started_at
        largest_child = self._largest_child_so_far()
        own_faults = OwnChildren.faults - self._own_faults
        switches, before = self._own_switches(), self._switches
        if self._regions is not None:
            self._regions.leave()
        is_cut_off = True
        try:
            self.problem = session.stop(self.seconds, self.parameters.n_join_attempts, self.parameters.join_timeout)
            is_cut_off = self.problem is not None
        finally:  # also if the user interrupts it
            self._evidence = session.evidence()
            if not session.is_recording or self._evidence is None:
                session.end()
                self._end_regions()
            if self._evidence is not None:
                from gpu_tracker.resources.settle import ChildrenUse, KernelFacts  # noqa: PLC0415 - imports typing

                children = None
                if largest_child is not None and self._largest_child is not None:
                    children = ChildrenUse(max(self._largest_child, OwnChildren.peak), largest_child, own_faults)
                self.settle(
                    KernelFacts(
                        tracked_seconds=self.seconds,
                        children=children,
                        own_switches=None if switches is None or before is None else _since(before, switches),
                        is_cut_off=is_cut_off,
                    )
                )
        if self._evidence is None:
            raise SamplerError(_NO_RESULT)
        totals = self.require_totals()
        self._notify_new([*totals['messages'], ('warning', self.problem)] if self.problem else totals['messages'])
        if 'control_group' in totals and totals['control_group']['oom_kills']:
            self._note_kills(totals['control_group']['oom_kills'])

    @property
    def facts(self) -> KernelFacts:
        """What the totals were settled with."""
        if self._facts is None:
            raise SamplerError(_NO_RESULT)
        return self._facts

    def settle(self, facts: KernelFacts) -> None:
        """Make the totals of what was read, and of what the kernel has reported."""
        from gpu_tracker.resources.settle import settle  # noqa: PLC0415 - imports typing

        if self._evidence is None:
            raise SamplerError(_NO_RESULT)
        self._facts = facts
        measured: Any = {**settle(self._evidence, facts), **self._additions}
        self.totals = measured

    def add(self, **more: Any) -> None:  # noqa: ANN401 - see Totals
        """Add to the totals what was not measured, or replace it."""
        self._additions |= more
        self.settle(self.facts)

    def finish(self, exit_code: int | None = None) -> None:
        """Have the totals, which are settled now, put into the recording, and complete that.

        :param exit_code: That of the command, where there was one.
        """
        session = self.session
        if session is None or self.totals is None:
            return
        if session.is_recording:
            try:
                problem = session.finish(self.totals, exit_code, self.parameters.join_timeout)
            finally:
                session.end()
                self._end_regions()
            if problem is not None and not self.parameters.disable_logs:
                self._notify('warning', problem)
        if self._rank is not None:
            try:
                self._rank.write(self._about_rank, self.totals, STOPPED, exit_code)
            except OSError as error:
                self._notify('warning', _UNWRITTEN.format(self._rank.report, error.strerror))
                self.is_in_folder = False

    def write_report(self) -> None:
        """Write the result, which was settled since the sampler has ended, into the file that holds the one so far."""
        path = self.parameters.resource_usage_file
        if path is None:
            return
        from gpu_tracker.report import as_json  # noqa: PLC0415 - at the end
        from gpu_tracker.system import files  # noqa: PLC0415 - as above

        try:
            files.write_whole(path, f'{as_json(self.usage())}\n')
        except OSError as error:
            self._notify('warning', f'The report could not be written to {path}: {error.strerror}.')

    def note_termination(self, reason: str) -> None:
        """Take note, after :meth:`stop`, that a limit has ended the run, see :mod:`gpu_tracker.limits`."""
        self.add(termination_reason=reason)

    def exceeded_at_end(self, limits: Mapping[str, float]) -> list[tuple[str, float]]:
        """Return the limits that the settled totals exceed, each with what was used.

        :param limits: Their values by their reasons, see :mod:`gpu_tracker.limits`.
        """
        from gpu_tracker.limits import exceeded, used_in  # noqa: PLC0415 - most runs have none

        return list(exceeded(limits, used_in(self.require_totals())))

    def note_exceeded(self, messages: Mapping[str, str]) -> None:
        """Take note, after :meth:`stop`, of limits that were exceeded and have not ended the run.

        :param messages: What is said of each, by its reason.
        """
        self.add(exceeded_limits=list(messages), messages=self._with_warnings(messages.values()))

    def keep_file(self) -> None:
        """Let go of the file that the recording replaces: the run has begun."""
        if self._file is not None:
            self._file.keep()

    def note_exit(self, exit_code: int | None) -> None:
        """Write into the job's folder how a run has ended of which nothing is known beside.

        :raises OSError: where that fails.
        """
        if self._rank is not None:
            self._rank.write(self._about_rank, None, STOPPED, exit_code)

    def discard(self) -> None:
        """End the sampler without a result."""
        if self.session is not None:
            if self._file is not None:
                self.session.discard(_LONGEST_DISCARD)
            self.session.end()
        self._discard_files()

    @property
    def recording(self) -> str | None:
        """The path of the recording; None where none was asked for."""
        if self._rank is not None:
            return self._rank.recording
        return None if self.parameters.records_rows_only else self.parameters.tracking_file

    def regions(self) -> tuple[Region, ...]:
        """Return the regions of this process and of what it has started."""
        if self.recording is not None:
            return load_regions(self.recording)
        return () if self._regions is None else self._regions.load()

    def _make_files(self) -> None:
        """Make the file to record into, and the log of regions where this process is the one that is tracked."""
        parameters = self.parameters
        self._job = self._identity()
        path = parameters.tracking_file
        if parameters.job_folder is not None:
            path = self._begin_rank(parameters.job_folder)
        if path is not None:
            self._file = TrackingFile(path, overwrite=parameters.overwrite)
            try:
                self._file.create()
            except BaseException:
                self._discard_files()
                raise
        if parameters.process_id == os.getpid():
            try:
                self._regions = RunRegions()
            except OSError:
                pass  # there is no room for a log: then there are no regions

    def _with_warnings(self, texts: Iterable[str]) -> list[tuple[str, str]]:
        return [*self.require_totals()['messages'], *[('warning', text) for text in texts]]

    def _note_kills(self, count: int) -> None:
        """Add to the messages what was killed for lack of memory; not in the sampler, which may be killed like that."""
        from gpu_tracker.control_groups.oom_kills import sentence  # noqa: PLC0415 - hardly ever needed

        text = sentence(count)
        self.add(messages=self._with_warnings([text]))
        if not (self.parameters.disable_logs or self.are_kills_reported):
            self._notify('warning', text)

    def _identity(self) -> Mapping[str, Any] | None:
        parameters = self.parameters
        if parameters.job is not None:
            return parameters.job
        pid = parameters.process_id
        if pid == os.getpid() or 'recorded_command' in self._more:  # of a command that this process has started
            return job.identify(os.environ, os.getpid())
        return job.identity_of(pid)

    def _begin_rank(self, folder: str) -> str:
        """Write the start record into the job's folder, and return the path of the recording.

        :raises ParameterError: where nothing can be written there.
        """
        from gpu_tracker import __version__  # noqa: PLC0415 - that module imports this one
        from gpu_tracker.jobs import rank_files  # noqa: PLC0415 - only in jobs

        parameters = self.parameters
        own = parameters.process_id == os.getpid()
        environment = (
            os.environ if own or 'recorded_command' in self._more else job.environment_of(parameters.process_id)
        )
        try:
            rank = rank_files.new_files(folder, self._job)
            self._about_rank = rank_files.about_rank(
                rank,
                program=f'gpu-tracker {__version__}',
                identity=self._job,
                asked=job.asked_of_node(environment or os.environ),
                pid=parameters.process_id,
                command=self._more.get('recorded_command') or (tuple(sys.orig_argv) if own else None),
                interval=parameters.sleep_time,
                units=self._units(),
                sections=parameters.sections,
            )
            self._rank = rank
            rank.begin(self._about_rank)
        except OSError as error:
            accepted = f'a folder that can be written ({error.strerror})'
            raise ParameterError('job_folder', folder, accepted, see('cannot-write')) from None
        return rank.partial

    def _discard_files(self) -> None:
        if self._rank is not None:
            self._rank.discard()
            self._rank = None
        if self._file is not None:
            self._file.discard()
        if self._regions is not None:
            self._regions.remove()

    def _end_regions(self) -> None:
        if self._regions is not None:
            self._regions.remove()
            self._regions.take()

    def require_totals(self) -> Totals:
        """Return the totals.

        :raises SamplerError: where there are none.
        """
        if self.totals is None:
            raise SamplerError(_NO_RESULT)
        return self.totals

    def usage(self) -> ResourceUsage:
        """Return the documented result, in the units asked for.

        :raises SamplerError: where there is none.
        """
        from gpu_tracker.report import build  # noqa: PLC0415 - keeps the measured process light until the end
        from gpu_tracker.units import Units  # noqa: PLC0415 - keeps the measured process light until the end

        return build(self.require_totals(), Units(*self._units()))

    def sampling(self) -> Sampling:
        """Return how the run was sampled, and which figures are lower bounds.

        :raises SamplerError: where there is no result.
        """
        from gpu_tracker.sampling import record_of  # noqa: PLC0415 - as above

        return record_of(self.require_totals())

    def _configuration(self) -> Configuration:
        parameters = self.parameters
        file = parameters.resource_usage_file
        percent = parameters.max_overhead_percent
        found: Configuration = {
            'owner': os.getpid(),
            'target': parameters.process_id,
            'launcher': None,
            'exec_handle': None,
            'reader': reader(),
            'interval': parameters.sleep_time,
            'brands': parameters.gpu_brand,
            'uuids': parameters.gpu_uuids,
            'overhead': None if percent is None else percent / 100,
            'report': None if file is None else (file, ('json',), False),
            'settles': False,
            'units': self._units(),
            'sections': parameters.sections,
            'command': None,
            'recording': self._recording(),
            'rows_file': parameters.tracking_file if parameters.records_rows_only else None,
            'recording_handle': None if self._file is None else self._file.handle,
            'regions': None if self._regions is None else self._regions.path,
            'job': self._job,
            'rank': self._rank_request(),
        }
        known: Any = {name: value for name, value in self._more.items() if name not in _OF_RECORDING}
        found.update(known)
        return found

    def _rank_request(self) -> RankRequest | None:
        if self._rank is None:
            return None
        return {'folder': self._rank.folder, 'name': self._rank.name, 'about': self._about_rank}

    def _recording(self) -> RecordingRequest | None:
        parameters = self.parameters
        path = parameters.tracking_file if self._rank is None else self._rank.partial
        is_temporary = path is None or parameters.records_rows_only
        if is_temporary:
            if self._regions is None:
                return None
            path = self._regions.recording_path
        own = parameters.process_id == os.getpid()
        from gpu_tracker import __version__  # noqa: PLC0415 - that module imports this one

        return {
            'path': path or '',
            'is_temporary': is_temporary,
            'per_process': parameters.per_process,
            'commit_interval': self._more.get('commit_interval'),
            'command': self._more.get('recorded_command') or (tuple(sys.orig_argv) if own else None),
            'version': __version__,
        }

    def _largest_child_so_far(self) -> int | None:
        """Return the peak of the largest child that this process has waited for, in bytes; None where not of interest.

        Read when the sampler's short-lived starter has been waited for, to which vfork has lent this process' own peak.
        """
        if self.parameters.process_id != os.getpid() or sys.platform != 'linux':
            return None
        import resource  # noqa: PLC0415 - not on every system

        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024

    def _own_switches(self) -> tuple[int, int] | None:
        """Return the context switches of this process so far; None where they are not of interest."""
        if not self.parameters.sections or self.parameters.process_id != os.getpid() or sys.platform == 'win32':
            return None
        import resource  # noqa: PLC0415 - not on every system

        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_nvcsw, used.ru_nivcsw

    def _units(self) -> tuple[str, str, str, int | None]:
        parameters = self.parameters
        return parameters.ram_unit, parameters.gpu_ram_unit, parameters.time_unit, parameters.n_expected_cores

    def _raise_refusal(self, error: SamplerError, refusal: str | None) -> None:
        """Raise ParameterError where it was a parameter that the sampler has refused."""
        uuids = list(self.parameters.gpu_uuids or ())
        if refusal == 'process':
            accepted = 'the id of a process that exists'
            raise ParameterError('process_id', self.parameters.process_id, accepted, see('no-such-process')) from None
        if refusal == 'uuids':
            advice = f'"gpu-tracker gpus --json" lists them; without a GPU leave it out. {see("gpu-uuids")}'
            raise ParameterError('gpu_uuids', uuids, str(error), advice) from None
        if refusal == 'recording':
            name = 'tracking_file' if self.parameters.job_folder is None else 'job_folder'
            raise ParameterError(name, getattr(self.parameters, name), str(error), see('cannot-write')) from None
        if refusal == 'driver':
            raise ParameterError('gpu_uuids', uuids, f'left out: the GPU driver {error}') from None

    def _notify_new(self, messages: Sequence[tuple[str, str]]) -> None:
        """Pass on the messages that were not passed on yet."""
        new = messages[self._notified :]
        self._notified = max(self._notified, len(messages))
        if not self.parameters.disable_logs:
            for level, text in new:
                self._notify(level, text)


def _since(before: tuple[int, int], now: tuple[int, int]) -> tuple[int, int]:
    return now[0] - before[0], now[1] - before[1]


def _write_unmeasured(rank: RankFiles, about: Mapping[str, Any]) -> None:
    from gpu_tracker.jobs.rank_files import UNMEASURED  # noqa: PLC0415 - only in jobs

    try:
        rank.write(about, None, UNMEASURED)
    except OSError:
        pass  # the error that has led here is reported


def reader() -> str:
    """Return how the process tree is read: as the environment says, else in the system's own way."""
    chosen = os.environ.get('GPU_TRACKER_READER') or default_reader()
    if chosen not in _READERS:
        raise ParameterError('the environment variable GPU_TRACKER_READER', chosen, ' or '.join(_READERS))
    return chosen
