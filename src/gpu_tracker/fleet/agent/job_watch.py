"""The records in the folders of jobs, which a thread reads again and again for the ranks that run on this machine.

The folders are mostly on a file system that many machines share. So it may hang, and its files are those of strangers:
no symbolic link is followed below the folder that was given, what is no regular file is never opened for long, and how
much is read in a round is limited. Records of other machines and of ranks that have ended are read once.
"""

from __future__ import annotations

import os
import stat
import time
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.background import Changes, Poll
from gpu_tracker.fleet.agent.job_ranks import GRACE, JobsSeen, distinct, rank_of
from gpu_tracker.gpus.machine import host_name
from gpu_tracker.jobs.records import read_record
from gpu_tracker.recording.writing.rank_files import REPORT, START
from gpu_tracker.system.kernel import boot_id, pid_namespace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpu_tracker.fleet.agent.job_ranks import JobRank
    from gpu_tracker.jobs.records import RankRecord

INTERVAL = 10.0
"""Seconds between two rounds: as often as ranks write."""
_OVERDUE = 30.0
"""Seconds after which a round that goes on is reported."""

MOST_BYTES = 1 << 20
"""Of a record."""


class RoundLimits(NamedTuple):
    """How much one round may find and read."""

    ranks: int = 4096
    """Of this machine."""
    names: int = 200_000
    """Of files and folders."""
    bytes: int = 256 << 20


_USUAL = RoundLimits()

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NONBLOCK
_FILE_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW


class _Known(NamedTuple):
    """What a record was when it was read."""

    signature: tuple[int, ...] | None
    """Changes with the file; None: it does not matter any more."""
    record: RankRecord | None = None
    """None: it is none of a rank that runs on this machine."""
    rank: JobRank | None = None


class _File(NamedTuple):
    """A record in a folder that is open."""

    folder: str
    """The name of the folder, '' for the one that was given."""
    stem: str
    name: str
    handle: int
    """That of the folder."""


class JobWatch:
    """Reads the records of running ranks in a thread of its own, and keeps the newest.

    :param folder: A job's folder, or one with such folders in it.
    :param complain: Takes lines for people.
    :param now: Seconds since 1970.
    :param clock: Monotonic seconds.
    :param interval: Seconds between two rounds.
    :param machine: What tells this machine's kernel from all others; None: unknown.
    :param host: The name of this machine.
    :param limits: Of one round.
    """

    def __init__(
        self,
        folder: str,
        complain: Callable[[str], None],
        *,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        interval: float = INTERVAL,
        machine: str | None = None,
        host: str | None = None,
        limits: RoundLimits = _USUAL,
    ) -> None:
        self._folder = folder
        self._limits = limits
        self._now = now
        self._interval = interval
        self._machine = boot_id() if machine is None else machine
        self._host = host_name() if host is None else host
        self._namespace = pid_namespace()
        self._complain = complain
        self._changes = Changes(lambda text: complain(f'agent: --jobs: {text}'), 'all jobs can be read again', clock)
        self._poll = Poll(self._read_again, 'jobs', limit=_OVERDUE, clock=clock)
        self._known: dict[str, dict[str, _Known]] = {}
        """By the name of the folder, '' for the one that was given, and what the names of a rank's files begin with."""
        self._seen = JobsSeen((), None)

    def start(self) -> None:
        """Begin to read."""
        self._poll.start()

    def stop(self) -> None:
        """Read no more; a round that has begun goes on by itself, since a file system may hang."""
        self._poll.stop()

    def seen(self) -> JobsSeen:
        """Return the running ranks as the newest round has found them, without those not heard of since."""
        now = self._now()
        ranks = tuple(rank for rank in self._seen.ranks if now <= rank.expires)
        if not self._poll.is_overdue:
            return JobsSeen(ranks, self._seen.problem)
        problem = f'the folder of the jobs has not answered for {self._poll.seconds_under_way:.0f} s'
        if self._poll.report_once():
            self._complain(f'agent: --jobs: {self._folder}: {problem}')
        return JobsSeen(ranks, problem)

    def read(self) -> None:
        """Read all records once."""
        round_ = _Round(self._limits)
        known: dict[str, dict[str, _Known]] = {}
        try:
            self._read_all(round_, known)
        except OSError as error:
            round_.problem = f'the folder of the jobs cannot be read: {error.strerror or error}'
        self._known = known
        running = (entry.rank for entries in known.values() for entry in entries.values() if self._runs(entry))
        ranks = distinct(rank for rank in running if rank is not None)
        most = self._limits.ranks
        if len(ranks) > most:
            round_.problem = f'more than {most} ranks run here: the others are left out'
        self._seen = JobsSeen(tuple(ranks[:most]), round_.problem)

    def _read_again(self) -> float:
        begun = self._now()
        try:
            self.read()
        except Exception as error:  # noqa: BLE001 - whatever a stranger has written, the next round is due
            self._seen = JobsSeen((), f'the jobs cannot be read: {type(error).__name__}: {error}')
        problem = self._seen.problem
        self._changes.note(None if problem is None else f'{self._folder}: {problem}')
        return max(self._interval - max(0.0, self._now() - begun), 1.0)

    def _read_all(self, round_: _Round, known: dict[str, dict[str, _Known]]) -> None:
        handle = os.open(self._folder, _FOLDER_FLAGS)
        try:
            folders = self._read_folder('', handle, round_, known)
            for name in folders:
                try:
                    self._read_folder_below(name, handle, round_, known)
                except OSError:
                    pass  # it was removed, or is private: its jobs are nobody else's affair
        finally:
            os.close(handle)

    def _read_folder_below(self, name: str, handle: int, round_: _Round, known: dict[str, dict[str, _Known]]) -> None:
        below = os.open(name, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=handle)
        try:
            self._read_folder(name, below, round_, known)
        finally:
            os.close(below)

    def _read_folder(
        self, name: str, handle: int, round_: _Round, known: dict[str, dict[str, _Known]]
    ) -> Sequence[str]:
        """Read the records in a folder, and return the folders in it."""
        stems: dict[str, str] = {}
        folders = []
        for file, is_folder in round_.listed(handle):
            if is_folder:
                folders.append(file)
            elif file.endswith(START):
                stems.setdefault(file[: -len(START)], file)
            elif file.endswith(REPORT):
                stems[file[: -len(REPORT)]] = file  # which has all that the start record has
        before = self._known.get(name, {})
        entries = (
            (stem, self._entry(_File(name, stem, file, handle), round_, before.get(stem)))
            for stem, file in stems.items()
        )
        known[name] = {stem: entry for stem, entry in entries if entry is not None}
        return folders

    def _entry(self, file: _File, round_: _Round, before: _Known | None) -> _Known | None:
        """Return what is known of a record now; None: it is no more, or is read in a later round."""
        if before is not None and before.signature is None:
            return before
        try:
            status = os.stat(file.name, dir_fd=file.handle, follow_symlinks=False)
        except OSError:
            return None  # it has just been removed
        signature = (status.st_ino, status.st_mtime_ns, status.st_size, status.st_mode)
        if (before is not None and before.signature == signature) or not round_.has_room_for(status.st_size):
            return before
        try:
            record = read_record(round_.text_of(file, status), file.stem)
        except (OSError, ValueError):
            return _Known(signature)  # no record, or not to be read; until there is another file
        if record.ended is not None or not self._is_of_this_machine(record):
            return _Known(None)
        return _Known(signature, record, rank_of(record, file.folder or None, None if before is None else before.rank))

    def _is_of_this_machine(self, record: RankRecord) -> bool:
        if record.machine is not None and self._machine is not None:
            return record.machine == self._machine
        return record.host == self._host

    def _runs(self, known: _Known) -> bool:
        now, rank, record = self._now(), known.rank, known.record
        if rank is None or record is None:
            return False
        return rank.updated <= now + GRACE and now <= rank.expires and not self._has_gone(record)

    def _has_gone(self, record: RankRecord) -> bool:
        """Return whether the process that writes the end is no more, as far as that can be seen from here."""
        pid = record.tracker_pid
        is_near = record.machine is not None and record.machine == self._machine
        if not is_near or self._namespace is None or record.pid_namespace != self._namespace or not pid or pid < 0:
            return False
        try:
            os.kill(pid, 0)  # not in /proc, where hidepid= hides the processes of others
        except (ProcessLookupError, OverflowError):
            return True
        except PermissionError:
            pass  # it is there
        return False


class _Round:
    """What one round may still read."""

    def __init__(self, limits: RoundLimits) -> None:
        self.problem: str | None = None
        self._limits = limits
        self._names = limits.names
        self._bytes = limits.bytes

    def listed(self, handle: int) -> Iterator[tuple[str, bool]]:
        """Yield the names in a folder that are not hidden, each with whether it is a folder itself."""
        with os.scandir(handle) as entries:
            for entry in entries:
                if self._names == 0:
                    self.problem = f'there are more than {self._limits.names} files: the others are left out'
                    return
                self._names -= 1
                if not entry.name.startswith('.'):
                    yield entry.name, entry.is_dir(follow_symlinks=False)

    def has_room_for(self, size: int) -> bool:
        """Return whether a file of this size can still be read in this round."""
        if min(size, MOST_BYTES) <= self._bytes:
            return True
        self.problem = f'there are more than {self._limits.bytes} bytes to read: the rest has to wait'
        return False

    def text_of(self, file: _File, status: os.stat_result) -> bytes:
        """Return what is in a file.

        :raises OSError: It cannot be read.
        :raises ValueError: It is no regular file, or too large.
        """
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
            raise ValueError('it is not a regular file, or it is too large')
        opened = os.open(file.name, _FILE_FLAGS, dir_fd=file.handle)
        with open(opened, 'rb') as content:
            if not stat.S_ISREG(os.fstat(opened).st_mode):  # it may be another file by now
                raise ValueError('it is not a regular file')
            text = content.read(MOST_BYTES + 1)
        self._bytes -= min(len(text), self._bytes)
        if len(text) > MOST_BYTES:
            raise ValueError('it is too large')
        return text
