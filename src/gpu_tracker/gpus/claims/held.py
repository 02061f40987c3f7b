"""A claim in the hands of the process that has made it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gpu_tracker.errors import ClaimsError
from gpu_tracker.gpus.claims import record_files, shared_folder
from gpu_tracker.gpus.claims.locks import LockDeadline, under_lock
from gpu_tracker.gpus.claims.record import encode, is_void

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_tracker.gpus.claim import Claim
    from gpu_tracker.gpus.claims.liveness import Circumstances
    from gpu_tracker.gpus.claims.locks import RecordLock
    from gpu_tracker.gpus.claims.record import Record


class Written:
    """Where a claim is written: the folder and the file, what reads the circumstances, and how long a lock is awaited.

    :ivar lock: The lock on the file, which others look at.
    :ivar lock_timeout: How many seconds to wait at most for the lock on the folder.
    """

    def __init__(
        self, path: str, name: str, lock: RecordLock, lock_timeout: float, circumstances: Callable[[], Circumstances]
    ) -> None:
        self.path = path
        self.name = name
        self.lock = lock
        self.lock_timeout = lock_timeout
        self.circumstances = circumstances

    def remove(self) -> None:
        """Remove the file, where it is there and may be removed; without the lock, as a file goes whole or not."""
        try:
            folder = shared_folder.open_folder(self.path)
        except ClaimsError:
            return  # somebody has changed the folder; the claim ends with its process or its time
        if folder is not None:
            try:
                record_files.remove(folder, self.name)
            finally:
                os.close(folder)


class HeldClaim:
    """A claim that this process has made, and can give back.

    :ivar claim: What others see of it.
    :ivar lock: What tells other PID namespaces that it is held.
    """

    def __init__(self, claim: Claim, record: Record, written: Written) -> None:
        self.claim = claim
        self.lock = written.lock
        self._record = record
        self._written = written
        self._maker = os.getpid()
        self._released = False

    def release(self) -> None:
        """Give the GPUs back.

        Does nothing the second time, nor in a forked child: the claim is its parent's. That the file cannot be removed,
        because somebody has changed the folder meanwhile, is no error either: whoever gives GPUs back can do nothing
        about it, and may be doing so because of an error that matters more. The claim then ends with its process or
        its time.
        """
        if not self._is_ours():
            return
        self._written.remove()
        self.lock.let_go()
        self._released = True  # only now: who has interrupted this may try again

    def outlive_process(self) -> None:
        """Let only its time end the claim, no longer its process.

        :raises ClaimsError: if the claim has no time, holds no more, or cannot be written, or if its folder stays
            locked; it then stands as before.
        """
        if not self._is_ours():
            raise ClaimsError('The claim is not held by this process any more, so it cannot be changed')
        if self._record.expires_at is None:
            raise ClaimsError('The claim cannot outlive its process: it has no time that would end it')
        under_lock(self._written.path, LockDeadline(self._written.lock_timeout), self._free_from_process)
        self.lock.let_go()

    def _is_ours(self) -> bool:
        return not self._released and os.getpid() == self._maker

    def _free_from_process(self, folder: int) -> None:
        """Write the claim anew; under the lock, so that nobody takes it for void meanwhile and claims the same."""
        path, name = self._written.path, self._written.name
        file = record_files.read_record(folder, name)
        if (
            file is None
            or (file.owner, file.record) != (self.claim.user_id, self._record)
            or is_void(self._record, self._written.circumstances(), is_held=file.is_held)
        ):
            raise ClaimsError(f'The claim in {path} holds no more: its time is up, or somebody has removed it')
        new = self._record._replace(pid=None, process_start=None, pid_namespace=None)
        try:
            record_files.replace_record(folder, name, encode(new))
        except OSError as error:
            raise shared_folder.unusable(path, error) from error
        self._record = new
        self.claim = self.claim._replace(
            process_id=None, process_start=None, pid_namespace=None, in_another_container=False
        )
