"""All claims of a machine: reading them, making one, and giving it back."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING

from gpu_tracker.errors import ClaimsError, ParameterError
from gpu_tracker.gpus.claims import liveness, record, record_files, shared_folder
from gpu_tracker.gpus.claims.locks import RecordLock, under_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpu_tracker.gpus.claim import Claim
    from gpu_tracker.gpus.claims.liveness import Circumstances
    from gpu_tracker.gpus.claims.record import Record
    from gpu_tracker.gpus.claims.record_files import RecordFile

LOCK_TIMEOUT = 10.0
"""Seconds to wait at most until others are done with the claims, unless told otherwise."""

_SUPPORTED = sys.platform == 'linux'
_MOST_LEFT = 64
"""How many files are left of claims of which only other PID namespaces know for certain that they hold no more."""

_MOST_ATTEMPTS = 10
"""To claim in a folder that is removed again and again."""


class _FolderGoneError(Exception):
    """The folder was removed after it was locked."""


class ClaimFolder:
    """The claims of all users of this machine, in a folder in which each user has files of their own.

    :param path: None: where all users of this machine look for them.
    :param lock_timeout: Seconds to wait for the lock on the folder.
    :param circumstances: Reads the clock and the machine.
    :param most_files: How many files may be named as those of claims, of all users; with more, nothing is read.
    :raises ParameterError: The path, or the environment variable ``GPU_TRACKER_CLAIMS``, is no absolute path.
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
        self.lock_timeout = lock_timeout
        self.circumstances = circumstances
        self._most_files = most_files

    def claims(self) -> list[Claim]:
        """Return the claims that hold now, in the order in which their files were written.

        This needs no lock: each claim is there whole, or not at all. A missing folder is not made.

        :raises ClaimsError: The folder cannot be read or cannot be trusted.
        """
        folder = shared_folder.open_folder(self.path) if _SUPPORTED else None
        if folder is None:
            return []
        try:
            circumstances = self.circumstances()
            holding, _, _ = self._read(folder, circumstances)
        except _FolderGoneError:
            return []
        finally:
            os.close(folder)
        return _claims_of(holding, circumstances)

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
        """Claim what ``choose`` chooses; return None if that is nothing.

        Containers that share the folder cannot look the process up. There the claim lasts as long as its locked file is
        open in this process or in a fork of it. It ends early if all of them close the file, as sudo does.

        :param choose: Gets the claims that hold and returns UUIDs. It is called under the lock, so it must not read any
            GPU, and again if the folder was removed meanwhile. If it raises, or Ctrl-C comes, nothing is claimed.
        :param process_id: The process, this one or another, with which the claim ends.
        :param seconds: How long the claim lasts at most; needed if there is no process.
        :param command: What the GPUs are for, shown to others.
        :param survives_exec: Whether programs that this process becomes or starts keep the file of the claim open.
        :param lock_timeout: Seconds to wait for the lock; 0 or less: one attempt. None: as the folder was told.
        :raises ClaimsLockedError: Others keep the folder locked.
        :raises ClaimsError: The folder cannot be used, or a restart of the machine would not be noticed.
        :raises ProcessLookupError: There is no such process.
        :raises ValueError: ``seconds`` is missing or no time, or UUIDs are chosen that are claimed or are none.
        """
        if not _SUPPORTED:
            raise ClaimsError('GPUs can be claimed on Linux only')
        if seconds is None and process_id is None:
            raise ParameterError('seconds', seconds, 'a number of seconds if no process_id is given')
        if seconds is not None and not 0 < seconds <= record.LONGEST_TIME:
            raise ParameterError('seconds', seconds, f'above 0 and at most {record.LONGEST_TIME:g}')
        draft = _draft(process_id, command, self.circumstances())
        timeout = self.lock_timeout if lock_timeout is None else lock_timeout
        lock = RecordLock(survives_exec=survives_exec)
        name = record_files.new_name()
        try:
            for _ in range(_MOST_ATTEMPTS):
                try:
                    return under_lock(self.path, timeout, partial(self._claim, choose, draft, seconds, name, lock))
                except _FolderGoneError:
                    lock.let_go()
        except BaseException:
            self.remove(name)  # Ctrl-C may come when it is there already
            lock.let_go()
            raise
        raise ClaimsError(f'No GPU can be claimed: another program keeps removing the folder {self.path}')

    def remove(self, name: str) -> None:
        """Remove a file, where it is there and may be removed; without the lock, as a file goes whole or not."""
        try:
            folder = shared_folder.open_folder(self.path)
        except ClaimsError:
            return  # somebody has changed the folder; the claim ends with its process or its time
        if folder is not None:
            try:
                record_files.remove(folder, name)
            finally:
                os.close(folder)

    def _claim(
        self,
        choose: Callable[[list[Claim]], Sequence[str]],
        draft: Record,
        seconds: float | None,
        name: str,
        lock: RecordLock,
        folder: int,
    ) -> HeldClaim | None:
        """Choose, and write what was chosen; under the lock."""
        circumstances = self.circumstances()
        holding, void, of_user = self._read(folder, circumstances)
        is_full = of_user - self._tidy_up(folder, void, circumstances) >= record_files.MOST_RECORDS
        claims = _claims_of(holding, circumstances)
        uuids = tuple(choose(claims))
        taken = {uuid for claim in claims for uuid in claim.uuids}.intersection(uuids)
        if taken:
            raise ValueError(f'claimed already: {", ".join(sorted(taken))}')
        if not uuids:
            return None
        if is_full:
            raise ClaimsError(
                f'No GPU can be claimed: {self.path} already has {record_files.MOST_RECORDS} files of this user, '
                'which is the maximum. Remove files that are not claims. '
                'gpu-tracker itself removes only expired claims.'
            )
        end = None if seconds is None else circumstances.clock + seconds
        new = draft._replace(uuids=uuids, made=circumstances.time, expires_at=end)
        try:
            record_files.write_record(folder, name, record.encode(new), None if new.pid is None else lock)
        except OSError as error:
            raise self._fault(error) from error
        return HeldClaim(self, name, lock, new, record.claim_of(new, os.geteuid(), circumstances))

    def _read(self, folder: int, circumstances: Circumstances) -> tuple[list[RecordFile], list[RecordFile], int]:
        """Return the files of valid claims, the files of void claims, and the number of files of this user."""
        try:
            records = record_files.read_records(folder, self._most_files)
        except OSError as error:
            raise self._fault(error) from error
        if records is None:
            few = f'it has more than {self._most_files} files that are named as claims; remove those that are none'
            raise shared_folder.unusable(self.path, few)
        holding: list[RecordFile] = []
        void: list[RecordFile] = []
        for file in records.files:
            is_void = record.is_void(file.record, circumstances, is_held=file.is_held)
            (void if is_void else holding).append(file)
        return holding, void, records.of_user

    def _tidy_up(self, folder: int, void: list[RecordFile], circumstances: Circumstances) -> int:
        """Remove void files of this user, or of all users for root; return how many files of this user are gone.

        A process of another PID namespace may have closed the file of its claim and still run. There the claim holds,
        so such files stay as long as they are few.
        """
        own = [
            file
            for file in void
            if record_files.is_own(file.owner) and record.is_of_this_machine(file.record, circumstances)
        ]
        useless = [
            file
            for file in own
            if not record.is_elsewhere(file.record, circumstances) or record.is_over(file.record, circumstances)
        ]
        if len(own) - len(useless) > _MOST_LEFT:
            useless = own
        for file in useless:
            record_files.remove(folder, file.name)
        try:
            record_files.remove_unfinished(folder)
        except OSError as error:
            raise self._fault(error) from error
        return sum(file.owner == os.geteuid() for file in useless)

    def _fault(self, error: OSError) -> Exception:
        """Return what to raise instead.

        While the folder is empty, a cleaner of /tmp may remove it in spite of the lock: it is made anew then.
        """
        return _FolderGoneError() if isinstance(error, FileNotFoundError) else shared_folder.unusable(self.path, error)


class HeldClaim:
    """A claim that this process has made, and can give back.

    :ivar claim: What others see of it.
    :ivar lock: What tells other PID namespaces that it is held.
    """

    def __init__(self, folder: ClaimFolder, name: str, lock: RecordLock, written: Record, claim: Claim) -> None:
        self.claim = claim
        self.lock = lock
        self._folder = folder
        self._name = name
        self._record = written
        self._maker = os.getpid()
        self._released = False

    def release(self) -> None:
        """Give the GPUs back; do nothing the second time, and in a forked child.

        If the file cannot be removed, the claim ends with its process or its time. The caller could do nothing about
        that.
        """
        if not self._is_ours():
            return
        self._folder.remove(self._name)
        self.lock.let_go()
        self._released = True  # only now: who has interrupted this may try again

    def outlive_process(self) -> None:
        """Let only its time end the claim, no longer its process.

        :raises ClaimsError: The claim has no time, holds no more, or cannot be written; it then stays as it was.
        """
        if not self._is_ours():
            raise ClaimsError('This process no longer has the claim, so the claim cannot be changed')
        if self._record.expires_at is None:
            raise ClaimsError('A claim without a time limit cannot outlive its process')
        under_lock(self._folder.path, self._folder.lock_timeout, self._free_from_process)
        self.lock.let_go()

    def _is_ours(self) -> bool:
        return not self._released and os.getpid() == self._maker

    def _free_from_process(self, folder: int) -> None:
        """Write the claim anew; under the lock, so that nobody takes it for void meanwhile and claims the same."""
        file = record_files.read_record(folder, self._name)
        circumstances = self._folder.circumstances()
        if (
            file is None
            or (file.owner, file.record) != (self.claim.user_id, self._record)
            or record.is_void(self._record, circumstances, is_held=file.is_held)
        ):
            raise ClaimsError(
                f'The claim in {self._folder.path} is no longer valid: the claim has expired, or its file was removed'
            )
        new = self._record._replace(pid=None, process_start=None, pid_namespace=None)
        try:
            record_files.write_record(folder, self._name, record.encode(new))
        except OSError as error:
            raise shared_folder.unusable(self._folder.path, error) from error
        self._record = new
        self.claim = self.claim._replace(process_id=None, in_another_container=False)


def _claims_of(files: list[RecordFile], circumstances: Circumstances) -> list[Claim]:
    return [record.claim_of(file.record, file.owner, circumstances) for file in files]


def _draft(process_id: int | None, command: str | None, circumstances: Circumstances) -> Record:
    """Return a claim on nothing, which says what it will end with."""
    if circumstances.boot_id is None:
        raise ClaimsError('No GPU can be claimed: without /proc, claims from before a restart cannot be recognized')
    start = None
    if process_id is not None:
        start = circumstances.start_of(process_id)
        if not circumstances.lives(process_id, start):
            raise ProcessLookupError(process_id)
    return record.Record(
        uuids=(),
        uid=os.geteuid(),
        pid=process_id,
        process_start=start,
        pid_namespace=None if process_id is None else circumstances.pid_namespace,
        boot_id=circumstances.boot_id,
        host=circumstances.host,
        machine=circumstances.machine,
        made=circumstances.time,
        expires_at=None,
        command=record.bounded(command),
        started=circumstances.started,
    )
