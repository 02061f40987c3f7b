"""All claims of a machine: reading them, and making one."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from gpu_tracker.errors import ClaimsError, ParameterError
from gpu_tracker.fleet.claims import moment as present
from gpu_tracker.fleet.claims import place, record, record_files
from gpu_tracker.fleet.claims.lock import Patience, lock, unlock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpu_tracker.fleet.claims.claim import Claim
    from gpu_tracker.fleet.claims.moment import Moment
    from gpu_tracker.fleet.claims.record_files import RecordFile

_SUPPORTED = sys.platform != 'win32'


class HeldClaim:
    """A claim that this process has made, and can give back."""

    def __init__(self, claim: Claim, path: str, name: str) -> None:
        self.claim = claim
        self._path = path
        self._name = name
        self._maker = os.getpid()
        self._released = False

    def release(self) -> None:
        """Give the GPUs back; without the lock, as a file goes at once or not at all.

        Does nothing the second time, nor in a forked child: the claim is its parent's. That the file cannot be removed,
        because somebody has changed the folder meanwhile, is no error either: whoever gives GPUs back can do nothing
        about it, and may be doing so because of an error that matters more. The claim then ends with its process or
        its time.
        """
        if self._released or os.getpid() != self._maker:
            return
        self._released = True
        try:
            folder = place.open_folder(self._path)
        except ClaimsError:
            return  # see above
        if folder is not None:
            record_files.remove(folder, self._name)
            os.close(folder)


class ClaimFolder:
    """The claims of all users of this machine, in a folder in which each user has files of their own.

    :param path: Where they stand; None: where all users of this machine look for them.
    :param lock_timeout: How many seconds to wait at most until others are done with reading and writing claims.
    :param moment: Looks at the clock and the machine.
    :raises ParameterError: if the path, or the environment variable ``GPU_TRACKER_CLAIMS``, is no absolute path.
    """

    def __init__(
        self, path: str | None = None, *, lock_timeout: float = 10.0, moment: Callable[[], Moment] = present.now
    ) -> None:
        if path is None:
            path = place.default_path()
        elif not os.path.isabs(path):
            raise ParameterError('path', path, 'an absolute path')
        self.path = path.rstrip('/') or '/'
        self._lock_timeout = lock_timeout
        self._moment = moment

    def claims(self) -> list[Claim]:
        """Return the claims that hold now, in the order in which their files were written.

        There is no lock to wait for: each claim is there whole, or not at all. Where nothing was ever claimed there is
        no folder, and none is made.

        :raises ClaimsError: if the folder cannot be read or cannot be trusted.
        """
        folder = place.open_folder(self.path) if _SUPPORTED else None
        if folder is None:
            return []
        try:
            moment = self._moment()
            holding, _ = self._read(folder, moment)
            return _claims_of(holding, moment)
        finally:
            os.close(folder)

    def claim(
        self,
        choose: Callable[[list[Claim]], Sequence[str]],
        *,
        process_id: int | None,
        seconds: float | None,
        command: str | None,
    ) -> HeldClaim | None:
        """Claim what ``choose`` chooses; None where that is nothing.

        :param choose: Gets the claims that hold and returns UUIDs. It is called under the lock, so it has to be quick
            and must not ask any GPU; it is called again where the folder was removed meanwhile. What it raises goes
            through, and nothing is claimed.
        :param process_id: The process that holds the claim, this one or another: the claim ends with it.
        :param seconds: How long the claim lasts at most; needed where there is no process.
        :param command: What the GPUs are for, which others are shown.
        :raises ClaimsError: if the folder cannot be used, or stays locked by others.
        :raises ProcessLookupError: if there is no such process.
        :raises ValueError: if ``seconds`` is missing or no time, or UUIDs are chosen that are claimed or are none.
        """
        if not _SUPPORTED:
            raise ClaimsError('GPUs can be claimed on POSIX systems only')
        if seconds is None and process_id is None:
            raise ParameterError('seconds', seconds, 'given where no process holds the claim')
        if seconds is not None and not 0 < seconds <= record.LONGEST_TIME:
            raise ParameterError('seconds', seconds, f'above 0 and at most {record.LONGEST_TIME:g}')
        boot_id, start = _identity(process_id, self._moment())
        patience = Patience(self._lock_timeout)
        while True:
            folder = lock(self.path, patience)
            try:
                moment = self._moment()
                holding, void = self._read(folder, moment)
                self._tidy_up(folder, void, moment)
                claims = _claims_of(holding, moment)
                uuids = _unclaimed(tuple(choose(claims)), claims)
                if not uuids:
                    return None
                new = record.Record(
                    uuids=uuids,
                    uid=os.geteuid(),
                    pid=process_id,
                    process_start=start,
                    pid_namespace=None if process_id is None else moment.pid_namespace,
                    boot_id=boot_id,
                    host=moment.host,
                    made=moment.time,
                    expires_at=None if seconds is None else moment.clock + seconds,
                    command=record.bounded(command),
                )
                name = self._write(folder, new)
            finally:
                unlock(folder)
            if name is not None:
                return HeldClaim(record.claim_of(new, os.geteuid(), moment), self.path, name)
            if not patience.wait():
                raise ClaimsError(f'No GPU can be claimed: {self.path} is removed again and again')

    def _read(self, folder: int, moment: Moment) -> tuple[list[RecordFile], list[RecordFile]]:
        """Return the claims that hold and those that are void."""
        try:
            files = record_files.read_records(folder)
        except OSError as error:
            raise place.unusable(self.path, error) from error
        holding: list[RecordFile] = []
        void: list[RecordFile] = []
        for file in files:
            (void if record.is_void(file.record, moment) else holding).append(file)
        return holding, void

    def _tidy_up(self, folder: int, void: list[RecordFile], moment: Moment) -> None:
        """Remove what is of no use any more and belongs to this user (to anybody, for root); under the lock."""
        for file in void:
            if record_files.is_own(file.owner) and record.is_of_this_machine(file.record, moment):
                record_files.remove(folder, file.name)
        record_files.remove_unfinished(folder)

    def _write(self, folder: int, new: record.Record) -> str | None:
        """Write a claim and return the name of its file; None where the folder is gone and has to be made anew.

        While it is empty, a cleaner of /tmp may remove it in spite of the lock.
        """
        try:
            return record_files.write_record(folder, record.encode(new))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise place.unusable(self.path, error) from error


def _claims_of(files: list[RecordFile], moment: Moment) -> list[Claim]:
    return [record.claim_of(file.record, file.owner, moment) for file in files]


def _unclaimed(uuids: tuple[str, ...], claims: list[Claim]) -> tuple[str, ...]:
    """Return the UUIDs; whatever the choice has overlooked, nothing is claimed twice."""
    taken = {uuid for claim in claims for uuid in claim.uuids}.intersection(uuids)
    if taken:
        raise ValueError(f'claimed already: {", ".join(sorted(taken))}')
    return uuids


def _identity(process_id: int | None, moment: Moment) -> tuple[str, float | None]:
    """Return what tells this run of the machine from others, and the process from others of its number."""
    if moment.boot_id is None:
        raise ClaimsError('No GPU can be claimed: without /proc nothing tells a claim from one made before a restart')
    if process_id is None:
        return moment.boot_id, None
    start = moment.start_of(process_id)
    if not moment.lives(process_id, start):
        raise ProcessLookupError(process_id)
    return moment.boot_id, start
