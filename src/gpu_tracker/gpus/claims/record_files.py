"""The files of claims in their folder: each is written whole, and read with distrust.

Everything goes through the folder's descriptor, so nobody can put another folder in its place meanwhile.
"""

from __future__ import annotations

import os
import re
import stat
import time
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.gpus.claims.locks import is_held
from gpu_tracker.gpus.claims.record import MOST_BYTES, decode
from gpu_tracker.system.files import write_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_tracker.gpus.claims.locks import RecordLock
    from gpu_tracker.gpus.claims.record import Record

# Their own names only: a user may have chosen a folder in which other things stand as well.
_RECORD = re.compile(r'\d+-\d+-[0-9a-f]{16}\.json')
_UNFINISHED = re.compile(r'\.\d+-\d+-[0-9a-f]{16}\.tmp')
_MODE = 0o644
MOST_RECORDS = 256
"""How many of one user are read: a stranger with thousands must not make everybody wait."""
MOST_FILES = 20_000
"""How many files named as those of claims there may be of all users: whose they are has to be asked for each, whatever
name it has, so that nobody can hide the claims of others among their own."""
_MOST_UNFINISHED = 5000
_TEN_YEARS = 10 * 365 * 86400


class RecordFile(NamedTuple):
    """A file with a claim in it."""

    name: str
    owner: int
    changed: int
    """When it was last changed, in nanoseconds since 1970, by a clock that its owner cannot turn back."""
    record: Record
    is_held: bool
    """Somebody held the lock on it."""


class Records(NamedTuple):
    """What was read of all users."""

    files: list[RecordFile]
    """Those with a claim in them, those first that were written first."""
    of_user: int
    """How many there are of this user that may have claims in them, whether they were read or not."""


def read_records(folder: int, most_files: int = MOST_FILES) -> Records | None:
    """Return the files that claims stand in; None if there are too many files that are named so.

    Of each user only the first :data:`MOST_RECORDS` files are opened. Files with other names cost next to nothing.

    :param most_files: How many may be named as those of claims.
    :raises OSError: if the folder cannot be listed.
    """
    names = list(islice(_names(folder, _RECORD), most_files + 1))
    if len(names) > most_files:
        return None
    listed: dict[int, list[tuple[int, str]]] = {}
    for name in names:
        try:
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            continue  # removed since it was listed
        if stat.S_ISREG(info.st_mode) and info.st_size <= MOST_BYTES:
            listed.setdefault(info.st_uid, []).append((info.st_ctime_ns, name))
    read = (read_record(folder, name) for files in listed.values() for _, name in sorted(files)[:MOST_RECORDS])
    found = sorted((file for file in read if file is not None), key=lambda file: (file.changed, file.name))
    return Records(found, len(listed.get(os.geteuid(), ())))


def new_name() -> str:
    """Return a name for the file of a claim that no other has."""
    return f'{os.geteuid()}-{os.getpid()}-{os.urandom(8).hex()}.json'


def write_record(folder: int, name: str, data: bytes, lock: RecordLock | None = None) -> None:
    """Write a claim into a file, in the place of the one that stands there, if any.

    :param lock: What locks the file before others can see it; None: nothing does.
    :raises OSError: if that fails; what stood there still does.
    """
    unfinished = f'.{name.removesuffix(".json")}.tmp'
    try:
        _write(folder, unfinished, data, lock)
        os.rename(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        remove(folder, unfinished)
        raise


def remove(folder: int, name: str) -> None:
    """Remove a file, where it is there and may be removed."""
    try:
        os.unlink(name, dir_fd=folder)
    except OSError:
        pass  # a claim that holds no more is passed over wherever claims are read


def remove_unfinished(folder: int) -> None:
    """Remove what writers have left that were killed; under the lock, where no other writer can be at work.

    Those of this user only, or all of them for root. Where others have left thousands, some may stay for the next time.

    :raises OSError: if the folder cannot be listed.
    """
    user = os.geteuid()
    of_user = f'.{user}-' if user else '.'
    for name in islice(_names(folder, _UNFINISHED), _MOST_UNFINISHED):
        if name.startswith(of_user):
            try:
                owner = os.stat(name, dir_fd=folder, follow_symlinks=False).st_uid
            except FileNotFoundError:
                continue
            if is_own(owner):
                remove(folder, name)


def is_own(owner: int) -> bool:
    """Return whether this process tidies up the files of that user."""
    return os.geteuid() in {0, owner}


def read_record(folder: int, name: str) -> RecordFile | None:
    """Return the file with this name, None where no claim stands in it or it cannot be read."""
    try:
        # O_NONBLOCK: opening a FIFO would wait for somebody to write into it.
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY, dir_fd=folder)
    except OSError:
        return None  # removed since it was listed, a link, a socket, or closed to this user
    try:
        info = os.fstat(file)
        if not stat.S_ISREG(info.st_mode):
            return None
        data = os.read(file, MOST_BYTES + 1)
        held = is_held(file)
    except OSError:
        return None
    finally:
        os.close(file)
    record = decode(data)
    return None if record is None else RecordFile(name, info.st_uid, info.st_ctime_ns, record, held)


def _names(folder: int, pattern: re.Pattern[str]) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if pattern.fullmatch(entry.name):
                yield entry.name


def _write(folder: int, name: str, data: bytes, lock: RecordLock | None) -> None:
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
    try:
        if lock is not None:
            lock.take(file)
        write_all(file, data)
        os.fchmod(file, _MODE)  # whatever the umask
        # systemd-tmpfiles and its like remove what has not been touched for some days, and with it the claim of a
        # training of three weeks. The later time of access keeps the kernel from renewing that one when somebody reads
        # the file (relatime, mount(8)).
        future = time.time() + _TEN_YEARS
        os.utime(file, (future + 1, future))
    finally:
        os.close(file)
