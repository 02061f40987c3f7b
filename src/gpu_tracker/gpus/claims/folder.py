"""All claims of a machine: reading them, and making one."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.errors import ClaimsError, ParameterError
from gpu_tracker.gpus.claims import liveness, record, record_files, shared_folder
from gpu_tracker.gpus.claims.held import HeldClaim, Written
from gpu_tracker.gpus.claims.locks import LockDeadline, RecordLock, under_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpu_tracker.gpus.claim import Claim
    from gpu_tracker.gpus.claims.liveness import Circumstances
    from gpu_tracker.gpus.claims.record_files import RecordFile

__all__ = ['ClaimFolder', 'HeldClaim']

LOCK_TIMEOUT = 10.0
"""Seconds to wait at most until others are done with the claims, unless told otherwise."""

_SUPPORTED = sys.platform != 'win32'
_MOST_LEFT = 64
"""How many files are left of claims of which only other PID namespaces know for certain that they hold no more."""


class _Terms(NamedTuple):
    """What is to be claimed, for whom and how long."""

    choose: Callable[[list[Claim]], Sequence[str]]
    process_id: int | None
    process_start: float | None
    boot_id: str
    seconds: float | None
    command: str | None


class _Found(NamedTuple):
    """The claims in the folder."""

    holding: list[RecordFile]
    void: list[RecordFile]
    of_user: int
    """See :class:`gpu_tracker.gpus.claims.record_files.Records`."""


class _FolderGoneError(Exception):
    """The folder was removed after it was locked."""


class ClaimFolder:
    """The claims of all users of this machine, in a folder in which each user has files of their own.

    :param path: Where they stand; None: where all users of this machine look for them.
    :param lock_timeout: How many seconds to wait at most until others are done with reading and writing claims.
    :param circumstances: Reads the clock and the machine.
    :param most_files: How many files may be named as those of claims, of all users; with more, nothing is read.
    :raises ParameterError: if the path, or the environment variable ``GPU_TRACKER_CLAIMS``, is no absolute path.
    """

    def __init__(
        self,
        path: str | None = None,
        *,
        lock_timeout: float = LOCK_TIMEOUT,
        circumstances: Callable[[], Circumstances] = liveness.now,
        most_files: int = record_files.MOST_FILES,
    ) -> None:
        if path is None:
            path = shared_folder.default_path()
        elif not os.path.isabs(path):
            raise ParameterError('path', path, 'an absolute path')
        self.path = path.rstrip('/') or '/'
        self._lock_timeout = lock_timeout
        self._circumstances = circumstances
        self._most_files = most_files

    def claims(self) -> list[Claim]:
        """Return the claims that hold now, in the order in which their files were written.

        There is no lock to wait for: each claim is there whole, or not at all. Where nothing was ever claimed there is
        no folder, and none is made.

        :raises ClaimsError: if the folder cannot be read or cannot be trusted.
        """
        folder = shared_folder.open_folder(self.path) if _SUPPORTED else None
        if folder is None:
            return []
        try:
            circumstances = self._circumstances()
            return _claims_of(self._read(folder, circumstances).holding, circumstances)
        except _FolderGoneError:
            return []
        finally:
            os.close(folder)

    def claim(
        self,
        choose: Callable[[list[Claim]], Sequence[str]],
        *,
        process_id: int | None,
        seconds: float | None,
        command: str | None,
        survives_exec: bool = False,
        lock_timeout: float | None = None,
    ) -> HeldClaim | None:
        """Claim what ``choose`` chooses; None where that is nothing.

        In other PID namespaces, as those of containers that share the folder, nobody can look the process up. There
        the claim lasts until nobody has its file open any more, which is locked and kept open by this process and by
        those that are forked from it. So there it may last longer, until the last of them has ended too, and it ends
        early if all of them close the file, as sudo does with all files that it has inherited.

        :param choose: Gets the claims that hold and returns UUIDs. It is called under the lock, so it has to be quick
            and must not ask any GPU; it is called again where the folder was removed meanwhile. What it raises goes
            through, and nothing is claimed. Nothing is either where Ctrl-C comes before this returns.
        :param process_id: The process that holds the claim, this one or another: the claim ends with it.
        :param seconds: How long the claim lasts at most; needed where there is no process.
        :param command: What the GPUs are for, which others are shown.
        :param survives_exec: Whether the programs that this process becomes, or starts with the files that it has open,
            keep the file of the claim open as well.
        :param lock_timeout: How many seconds to wait this time at most until others are done with reading and writing
            claims; 0 or less: there is one attempt. None: as the folder was told.
        :raises ClaimsLockedError: if the folder stays locked by others.
        :raises ClaimsError: if the folder cannot be used, or if nothing shows when the machine is started anew.
        :raises ProcessLookupError: if there is no such process.
        :raises ValueError: if ``seconds`` is missing or no time, or UUIDs are chosen that are claimed or are none.
        """
        if not _SUPPORTED:
            raise ClaimsError('GPUs can be claimed on POSIX systems only')
        if seconds is None and process_id is None:
            raise ParameterError('seconds', seconds, 'given where no process holds the claim')
        if seconds is not None and not 0 < seconds <= record.LONGEST_TIME:
            raise ParameterError('seconds', seconds, f'above 0 and at most {record.LONGEST_TIME:g}')
        circumstances = self._circumstances()
        boot_id, start = _identity(process_id, circumstances)
        terms = _Terms(choose, process_id, start, boot_id, seconds, command)
        deadline = LockDeadline(self._lock_timeout if lock_timeout is None else lock_timeout)
        lock = RecordLock(survives_exec=survives_exec)
        try:
            return self._claim_in_time(terms, lock, deadline)
        except BaseException:
            lock.let_go()
            raise

    def _claim_in_time(self, terms: _Terms, lock: RecordLock, deadline: LockDeadline) -> HeldClaim | None:
        """Lock the folder and claim, anew where it was removed meanwhile."""
        while True:
            written = Written(self.path, record_files.new_name(), lock, self._lock_timeout, self._circumstances)
            try:
                return under_lock(self.path, deadline, partial(self._claim, terms, written))
            except _FolderGoneError:
                lock.let_go()
            except BaseException:
                written.remove()  # Ctrl-C may come when it is there already
                raise
            if not deadline.wait():
                raise ClaimsError(f'No GPU can be claimed: {self.path} is removed again and again')

    def _claim(self, terms: _Terms, written: Written, folder: int) -> HeldClaim | None:
        """Choose, and write what was chosen; under the lock."""
        circumstances = self._circumstances()
        found = self._read(folder, circumstances)
        is_full = found.of_user - self._tidy_up(folder, found.void, circumstances) >= record_files.MOST_RECORDS
        claims = _claims_of(found.holding, circumstances)
        uuids = _unclaimed(tuple(terms.choose(claims)), claims)
        if not uuids:
            return None
        new = record.Record(
            uuids=uuids,
            uid=os.geteuid(),
            pid=terms.process_id,
            process_start=terms.process_start,
            pid_namespace=None if terms.process_id is None else circumstances.pid_namespace,
            boot_id=terms.boot_id,
            host=circumstances.host,
            machine=circumstances.machine,
            made=circumstances.time,
            expires_at=None if terms.seconds is None else circumstances.clock + terms.seconds,
            command=record.bounded(terms.command),
            started=circumstances.started,
        )
        if is_full:
            raise ClaimsError(
                f'No GPU can be claimed: {self.path} has {record_files.MOST_RECORDS} files of this user, and more '
                'would not be read. What holds no more is removed with each claim; files that are no claims stay.'
            )
        self._write(folder, new, written)
        return HeldClaim(record.claim_of(new, os.geteuid(), circumstances), new, written)

    def _read(self, folder: int, circumstances: Circumstances) -> _Found:
        try:
            records = record_files.read_records(folder, self._most_files)
        except (OSError, record_files.CrowdedError) as error:
            raise self._fault(error) from error
        holding: list[RecordFile] = []
        void: list[RecordFile] = []
        for file in records.files:
            is_void = record.is_void(file.record, circumstances, is_held=file.is_held)
            (void if is_void else holding).append(file)
        return _Found(holding, void, records.of_user)

    def _tidy_up(self, folder: int, void: list[RecordFile], circumstances: Circumstances) -> int:
        """Remove what is of no use any more and belongs to this user (to anybody, for root); under the lock.

        Return how many files of this user are gone.

        A process of another PID namespace may have closed the file of its claim and still run, so such files stay as
        long as they are few: there the claim holds.
        """
        own = [
            file
            for file in void
            if record_files.is_own(file.owner) and record.is_of_this_machine(file.record, circumstances)
        ]
        uncertain = {
            file.name
            for file in own
            if record.is_elsewhere(file.record, circumstances) and not record.is_over(file.record, circumstances)
        }
        if len(uncertain) > _MOST_LEFT:
            uncertain.clear()
        useless = [file for file in own if file.name not in uncertain]
        for file in useless:
            record_files.remove(folder, file.name)
        try:
            record_files.remove_unfinished(folder)
        except OSError as error:
            raise self._fault(error) from error
        return sum(file.owner == os.geteuid() for file in useless)

    def _write(self, folder: int, new: record.Record, written: Written) -> None:
        """Write a claim, where it would be read."""
        try:
            lock = None if new.pid is None else written.lock
            record_files.write_record(folder, written.name, record.encode(new), lock)
        except OSError as error:
            raise self._fault(error) from error

    def _fault(self, error: OSError | record_files.CrowdedError) -> Exception:
        """Return what to raise instead.

        While the folder is empty, a cleaner of /tmp may remove it in spite of the lock: it is made anew then.
        """
        if isinstance(error, record_files.CrowdedError):
            return shared_folder.crowded(self.path, self._most_files, error.owner)
        return _FolderGoneError() if isinstance(error, FileNotFoundError) else shared_folder.unusable(self.path, error)


def _claims_of(files: list[RecordFile], circumstances: Circumstances) -> list[Claim]:
    return [record.claim_of(file.record, file.owner, circumstances) for file in files]


def _unclaimed(uuids: tuple[str, ...], claims: list[Claim]) -> tuple[str, ...]:
    """Return the UUIDs; whatever the choice has overlooked, nothing is claimed twice."""
    taken = {uuid for claim in claims for uuid in claim.uuids}.intersection(uuids)
    if taken:
        raise ValueError(f'claimed already: {", ".join(sorted(taken))}')
    return uuids


def _identity(process_id: int | None, circumstances: Circumstances) -> tuple[str, float | None]:
    """Return what distinguishes this run of the machine from others, and the process from others of its number."""
    if circumstances.boot_id is None:
        raise ClaimsError('No GPU can be claimed: without /proc nothing tells a claim from one made before a restart')
    if process_id is None:
        return circumstances.boot_id, None
    start = circumstances.start_of(process_id)
    if not circumstances.lives(process_id, start):
        raise ProcessLookupError(process_id)
    return circumstances.boot_id, start
