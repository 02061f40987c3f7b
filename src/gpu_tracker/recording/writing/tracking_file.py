"""The file that a tracker is asked to record into: which one may be written, and who makes and locks it.

The tracker makes it, before the command runs, and the sampler writes it: nothing here reads or writes what is in it but
its first bytes, which show whether it may be overwritten.
"""

from __future__ import annotations

import stat
import sys

from gpu_tracker.errors import ParameterError, see
from gpu_tracker.real import os
from gpu_tracker.recording.schema import APPLICATION_ID
from gpu_tracker.system.files import check_links

if sys.platform != 'win32':
    from gpu_tracker.real import fcntl

_SQLITE = b'SQLite format 3\0'
_APPLICATION_ID = slice(68, 72)
"""Where SQLite keeps what a file is, see its description of the file format."""
_TABLE_OF_5 = b'CREATE TABLE static_data'
_COLUMN_OF_5 = b'ram_system_capacity'
_CSV_START = b'ram_unit,gpu_ram_unit,time_unit,'
_JOURNAL_STARTS = (b'', bytes(8), b'\xd9\xd5\x05\xf9\x20\xa1\x63\xd7')
"""How SQLite's journals begin: empty ones, finished ones and others."""
_READING = os.O_RDONLY
for _name in ('O_BINARY', 'O_CLOEXEC', 'O_NONBLOCK'):
    _READING |= getattr(os, _name, 0)
_BEGINNING = 1 << 16
"""Bytes in which what a file is has to show."""


class TrackingFile:
    """A new file for a recording.

    :param path: Its absolute path, without symbolic links.
    :param overwrite: Whether an older recording there is replaced; else it gets a number in its name.
    :ivar renamed: The new path of the older recording; None: it has none.
    :ivar handle: A descriptor by which it is locked; None where it was handed over.
    """

    def __init__(self, path: str, *, overwrite: bool) -> None:
        self.path = path
        self.handle: int | None = None
        self.renamed: str | None = None
        self._overwrite = overwrite
        self._replaced: str | None = None
        self._identity: os.stat_result | None = None

    def create(self) -> None:
        """Make the file and lock it; an older one is moved aside, and removed by :meth:`keep` if it is replaced.

        :raises ParameterError: where it may not be made.
        """
        check(self.path, self.path, overwrite=self._overwrite)
        try:
            if os.path.lexists(self.path):
                self._replaced = self._move_aside()
            self._create()
        except OSError as error:
            self.discard()
            accepted = f'a path that can be written ({error.strerror})'
            raise ParameterError('tracking_file', self.path, accepted, see('cannot-write')) from None

    def hand_over(self) -> None:
        """Close the descriptor: the sampler has a copy, and with it the lock."""
        if self.handle is not None:
            os.close(self.handle)
            self.handle = None

    def keep(self) -> None:
        """Remove what was replaced: the run has begun."""
        if self._replaced is not None and self._overwrite:
            _unlink(self._replaced)
        self._replaced = None

    def discard(self) -> None:
        """Remove the file and put back what was replaced: there was no run."""
        self.hand_over()
        if self._identity is not None:
            try:
                if os.path.samestat(os.stat(self.path), self._identity):
                    _unlink(self.path)
                    _unlink(f'{self.path}-journal')
            except OSError:
                pass  # the sampler has removed it
            self._identity = None
        if self._replaced is not None:
            if not os.path.lexists(self.path):
                os.rename(self._replaced, self.path)
                if not self._overwrite:
                    _move_journal(self._replaced, self.path)
            self._replaced = None

    def _move_aside(self) -> str:
        if self._overwrite:
            aside = f'{self.path}.{os.getpid()}.replaced'
            os.rename(self.path, aside)
            return aside
        self.renamed = _free_path(self.path)
        try:
            os.replace(self.path, self.renamed)
        except OSError:
            _unlink(self.renamed)
            raise
        _move_journal(self.path, self.renamed)
        return self.renamed

    def _create(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, 'O_CLOEXEC', 0)
        handle = os.open(self.path, flags, 0o666)
        self.handle = handle
        self._identity = os.fstat(handle)
        _unlink(f'{self.path}-journal')  # of a run that was killed; it has been checked
        if sys.platform != 'win32':
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                pass  # this file system has no locks


def whole_path(path: str | os.PathLike[str], option: str = 'tracking_file') -> str:
    """Return the absolute path of the file that ``path`` leads to through its symbolic links.

    :param option: What the path was given as.
    :raises ParameterError: if one of them is another user's, see :func:`gpu_tracker.system.files.check_links`.
    """
    absolute = os.path.abspath(os.fsdecode(path))
    try:
        check_links(absolute)
    except PermissionError as error:
        raise ParameterError(option, path, f'a path that can be written ({error.strerror})') from None
    return os.path.realpath(absolute)


def check(path: str, given: object, *, overwrite: bool) -> None:
    """Raise ParameterError where no recording may be written to ``path``; whatever is there stays as it was.

    :param path: As :func:`whole_path` returns it.
    :param given: What the user has given.
    """
    folder_fault = _fault_of_folder(os.path.dirname(path))
    if folder_fault is not None:
        raise ParameterError('tracking_file', given, folder_fault, see('cannot-write'))
    fault = _fault(path, overwrite=overwrite)
    if fault is not None:
        raise ParameterError('tracking_file', given, fault)


def _fault_of_folder(folder: str) -> str | None:
    """Return what would be accepted in place of a path in ``folder``; None where files can be made there."""
    if os.access(folder, os.W_OK | os.X_OK):
        return None
    if not os.path.isdir(folder):
        return 'a path in a folder that exists'
    read_only = sys.platform != 'win32' and os.statvfs(folder).f_flag & os.ST_RDONLY
    reason = 'its file system is read-only' if read_only else 'not permitted'
    return f'a path in a folder that can be written ({reason})'


def _fault(path: str, *, overwrite: bool) -> str | None:
    """Return what would be accepted in place of ``path``; None where nothing is wrong with it."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return _fault_of_journal(path)
    except OSError as error:
        return f'a path that can be written ({error.strerror})'
    if not stat.S_ISREG(mode):
        return 'the path of a file, not of a folder' if stat.S_ISDIR(mode) else 'the path of a regular file'
    return _fault_of_older_file(path, overwrite=overwrite) or _fault_of_journal(path)


def _fault_of_older_file(path: str, *, overwrite: bool) -> str | None:
    """Return what would be accepted in place of a file that is to be renamed or overwritten."""
    try:
        handle = os.open(path, _READING)
    except OSError as error:
        return f'a new file, or an older recording that can be read ({error.strerror})'
    try:
        if _is_locked(handle):
            return 'a file that no other run is writing'
        beginning = os.read(handle, _BEGINNING)
        if not (_is_recording(beginning) or (overwrite and not beginning)):
            return 'a new file, or an older recording, also of gpu-tracker 5'
    finally:
        os.close(handle)
    return None


def _fault_of_journal(path: str) -> str | None:
    """Return what would be accepted where a file stands in the place of SQLite's journal."""
    try:
        handle = os.open(f'{path}-journal', _READING)
    except OSError:
        return None  # it is not there, as usual
    try:
        beginning = os.read(handle, 8)
    except OSError:
        beginning = b'?'  # a folder
    finally:
        os.close(handle)
    if beginning in _JOURNAL_STARTS:
        return None
    return f'a path beside which there is no {os.path.basename(path)}-journal of something else'


def _is_recording(beginning: bytes) -> bool:
    """Return whether a file with that beginning is a recording of ours or of gpu-tracker 5."""
    if beginning.startswith(_CSV_START):
        return True
    if not beginning.startswith(_SQLITE):
        return False
    if beginning[_APPLICATION_ID] == APPLICATION_ID.to_bytes(4, 'big'):
        return True
    return _TABLE_OF_5 in beginning and _COLUMN_OF_5 in beginning


def _is_locked(handle: int) -> bool:
    if sys.platform != 'win32':  # there a file that is open cannot be removed
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False  # this file system has no locks
    return False


def _free_path(path: str) -> str:
    """Make an empty file beside ``path``, with the first free number in its name, and return its path."""
    stem, ending = os.path.splitext(path)
    number = 1
    while True:
        found = f'{stem}-{number}{ending}'
        try:
            os.close(os.open(found, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            number += 1
        else:
            return found


def _move_journal(old: str, new: str) -> None:
    """Move the journal that a killed run has left: without it the recording may be damaged."""
    try:
        os.replace(f'{old}-journal', f'{new}-journal')
    except OSError:
        pass  # it is not there, as usual


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass  # it is not there
