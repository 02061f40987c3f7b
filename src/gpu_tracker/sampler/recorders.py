"""What records a run in the sampler: a recording, a CSV file, the report of a rank."""

from __future__ import annotations

import os
import sys

from gpu_tracker.resources import RefusedError
from gpu_tracker.sampler.kept_run import command_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Protocol

    from gpu_tracker.recording.writing.csv_file import CsvFile
    from gpu_tracker.recording.writing.recorder import Recorder
    from gpu_tracker.recording.writing.region_log import RegionLog
    from gpu_tracker.resources import Message, Resource
    from gpu_tracker.resources.context import Context
    from gpu_tracker.sampler.kept_recording import KeptRecording
    from gpu_tracker.totals import RecordingRequest, SamplerConfiguration, Totals

    class Records(Protocol):
        """Keeps samples in a file."""

        @property
        def is_recording(self) -> bool:
            """Whether it is a recording, which waits for the settled totals."""

        def sampled(self, now: float) -> None:
            """Fold what the resources have measured at ``now``."""

        def due(self) -> float:
            """Return when :meth:`commit` is due between two samples; infinity if it is not."""

        def is_due(self, now: float) -> bool:
            """Return whether a sample at ``now`` is to be followed by a commit."""

        def published(self, now: float, totals: Totals) -> None:
            """Keep the totals so far, and commit all that was measured."""

        def commit(self, now: float) -> None:
            """Commit what was measured."""

        def take_messages(self) -> list[Message]:
            """Return the new messages for the user."""

        def finish(self, ended: str, totals: Totals | None, exit_code: int | None) -> None:
            """Write the end of the run, and close the file."""

        def discard(self) -> None:
            """Close the file; it is not needed."""


_REASON = 'recording'
"""By which the tracker finds the parameter at fault."""


class LateRecording:
    """A recording in a temporary file, which begins with the first region.

    :param path: The file, which does not exist yet.
    :param log: The log of regions.
    :param open_recorder: Opens the recording in the file.
    """

    def __init__(self, path: str, log: RegionLog, open_recorder: Callable[[], Recorder]) -> None:
        self._path = path
        self._log = log
        self._open_recorder = open_recorder
        self.has_begun = False
        self.before: tuple[float, list[float | None]] | None = None
        """The last sample, which is in the recording too."""

    def begin(self) -> Recorder | None:
        """Return the recording if it begins now."""
        if self.has_begun or not self._log.has_grown:
            return None
        self.has_begun = True
        try:
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            recorder = self._open_recorder()
        except (OSError, RefusedError):
            return None  # there is no room for regions
        if self.before is not None:
            recorder.add(*self.before)
        return recorder

    def end(self, *, is_kept: bool) -> None:
        """Remove the log, and the recording if nobody will read it."""
        self._log.remove()
        if self.has_begun and not is_kept:
            try:
                os.unlink(self._path)
            except OSError:
                pass  # somebody has removed it


class Recorders:
    """All that records a run: mostly nothing, or one thing.

    :param late: Begins a recording later; None: nothing does.
    :param lock: The descriptor that holds the lock of the file; None: there is no file, or no lock.
    """

    def __init__(
        self, members: Sequence[Records], resources: Iterable[Resource], late: LateRecording | None, lock: int | None
    ) -> None:
        self._members = list(members)
        self._resources = resources
        self._late = late
        self._lock = lock

    @property
    def is_recording(self) -> bool:
        """Whether there is a recording, which waits for the settled totals."""
        return any(member.is_recording for member in self._members)

    def sampled(self, now: float) -> None:
        """Fold a sample."""
        self._begin_late()
        if self._late is not None and not self._late.has_begun:
            self._late.before = now, [value for resource in self._resources for value in resource.row()]
        for member in self._members:
            member.sampled(now)

    def due(self) -> float:
        """Return when a commit is due between two samples; infinity if none is."""
        return min((member.due() for member in self._members), default=float('inf'))

    def is_due(self, now: float) -> bool:
        """Return whether a sample at ``now`` is to be followed by a commit."""
        return any(member.is_due(now) for member in self._members)

    def published(self, now: float, settled: Callable[[], Totals], *, last: bool) -> None:
        """Commit what was measured, if it is time.

        :param settled: Returns the totals so far.
        """
        due = [member for member in self._members if last or member.is_due(now)]
        totals = settled() if due else None
        for member in due:
            if totals is not None:
                member.published(now, totals)

    def commit(self, now: float) -> None:
        """Commit what was measured."""
        for member in self._members:
            member.commit(now)

    def take_messages(self) -> list[Message]:
        """Return the new messages for the user."""
        return [message for member in self._members for message in member.take_messages()]

    def unfinished(self) -> str | None:
        """Return why the end of the run could not be written, as a text for the user; None: it was."""
        texts = [text for level, text in self.take_messages() if level == 'warning']
        return texts[0] if texts else None

    def finish(self, ended: str, totals: Totals | None, exit_code: int | None) -> None:
        """Write the end of the run."""
        self._begin_late()
        for member in self._members:
            member.finish(ended, totals, exit_code)
        if self._late is not None:
            from gpu_tracker.recording.schema import STOPPED  # noqa: PLC0415 - the start does without

            self._late.end(is_kept=ended == STOPPED)
        self._unlock()

    def discard(self) -> None:
        """Close all files; they are not needed."""
        for member in self._members:
            member.discard()
        if self._late is not None:
            self._late.end(is_kept=False)
        self._unlock()

    def _unlock(self) -> None:
        """Release the file before the tracker is told: its next run may replace the file at once."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _begin_late(self) -> None:
        recorder = None if self._late is None else self._late.begin()
        if recorder is not None:
            self._members.insert(0, recorder)


def open_recorders(config: SamplerConfiguration, context: Context, resources: Mapping[str, Resource]) -> Recorders:
    """Return what records the run.

    :raises RefusedError: where the file of a recording cannot be written.
    """
    members: list[Records] = []
    late: LateRecording | None = None
    request, rows_file, lock = config['recording'], config['rows_file'], config['recording_handle']
    if rows_file is not None:
        lock = _locked(rows_file) if lock is None else lock
        members.append(_open_csv_file(rows_file, config, resources))
    log = None
    if request is not None and request['begins'] == 'late':
        members.append(_open_kept_recording(request, config, context, resources))
    else:
        log = _open_log(config['regions'])
    if request is not None and request['begins'] == 'now':
        lock = _locked(request['path']) if lock is None else lock
        folder = _folder_of(config['target'])
        members.append(_open_recorder(request, config, context, resources, log, folder))
    elif request is not None and request['begins'] == 'with_regions' and log is not None:
        late = LateRecording(
            request['path'], log, lambda: _open_recorder(request, config, context, resources, log, None)
        )
    if config['rank'] is not None:
        from gpu_tracker.recording.writing.live_record import LiveRecord  # noqa: PLC0415 - only in jobs

        members.append(LiveRecord(config['rank']))
    return Recorders(members, resources.values(), late, lock)


def _open_kept_recording(
    request: RecordingRequest, config: SamplerConfiguration, context: Context, resources: Mapping[str, Resource]
) -> KeptRecording:
    from gpu_tracker.sampler.kept_recording import KeptRecording  # noqa: PLC0415 - only if the run is kept

    folder = _folder_of(config['target'])  # it may have ended when the recording begins

    def open_recorder() -> Recorder:
        return _open_recorder(request, config, context, resources, _open_log(config['regions']), folder)

    return KeptRecording(request['path'], list(resources.values()), open_recorder)


def _open_log(path: str | None) -> RegionLog | None:
    if path is None:
        return None
    from gpu_tracker.recording.writing.region_log import RegionLog  # noqa: PLC0415 - only where there may be regions

    try:
        return RegionLog(path)
    except OSError:
        return None  # somebody has removed it


def _open_csv_file(path: str, config: SamplerConfiguration, resources: Mapping[str, Resource]) -> CsvFile:
    from gpu_tracker.recording.writing.csv_file import CsvFile  # noqa: PLC0415 - only where it is asked for

    try:
        return CsvFile(path, units=config['units'], resources=list(resources.values()), interval=config['interval'])
    except OSError as error:
        raise RefusedError(_REASON, f'a file that can be written ({error.strerror})') from error


def _locked(path: str) -> int | None:
    """Lock the file, if the tracker has not handed over its own lock, and return the descriptor that holds the lock."""
    if sys.platform == 'win32':
        return None
    import fcntl  # noqa: PLC0415 - not on every system

    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise RefusedError(_REASON, f'a file that no other run writes ({error.strerror})') from error
    return handle


def _open_recorder(
    request: RecordingRequest,
    config: SamplerConfiguration,
    context: Context,
    resources: Mapping[str, Resource],
    log: RegionLog | None,
    folder: str | None,
) -> Recorder:
    from gpu_tracker.recording.writing.recorder import Recorder  # noqa: PLC0415 - imports json and SQLite
    from gpu_tracker.recording.writing.recording_file import Failure  # noqa: PLC0415 - as above

    try:
        return Recorder(
            request['path'],
            meta=_meta(config, context, folder),
            units=config['units'],
            resources=list(resources.values()),
            interval=config['interval'],
            tree=context.tree if request['per_process'] else None,
            regions=log,
            commit_interval=request['commit_interval'],
        )
    except Failure as error:
        raise RefusedError(_REASON, f'a file that SQLite can write ({error})') from error


def _folder_of(pid: int) -> str | None:
    try:
        return os.readlink(f'/proc/{pid}/cwd').encode(errors='surrogateescape').decode(errors='replace')
    except OSError:
        return None  # of another user, or not Linux


def _meta(config: SamplerConfiguration, context: Context, folder: str | None) -> dict[str, str | float | None]:
    import json  # noqa: PLC0415 - only where something is recorded

    target = config['target']
    command = config['words'] or command_line(target)
    system = os.uname() if hasattr(os, 'uname') else None
    return {
        'program': f'gpu-tracker {config["version"]}',
        'command': None if command is None else json.dumps(list(command)),
        'folder': folder,
        'host': os.environ.get('COMPUTERNAME') if system is None else system.nodename,
        'system': sys.platform if system is None else f'{system.sysname} {system.release}',
        'machine': os.environ.get('PROCESSOR_ARCHITECTURE') if system is None else system.machine,
        'python': '.'.join(map(str, sys.version_info[:3])),
        'cores': context.machine.cores,
        'ram_capacity': context.machine.ram_capacity,
        'interval': config['interval'],
        'units': json.dumps(list(config['units'])),
        'sections': json.dumps(list(config['sections'])),
        'root_pid': target,
        'job': None if config['job'] is None else json.dumps(config['job']),
    }
