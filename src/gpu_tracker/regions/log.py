"""The logs of regions: text files of lines that this process appends to and a sampler reads.

Which they are says an environment variable, so that everything a tracked process starts finds them as well.
"""

from __future__ import annotations

import stat
import sys

from gpu_tracker.real import os

if sys.platform != 'win32':
    from gpu_tracker.real import fcntl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LOGS_VARIABLE = 'GPU_TRACKER_REGIONS'
"""The environment variable with the paths of the logs, that of the innermost tracker last."""
REGION_VARIABLE = 'GPU_TRACKER_REGION'
"""The environment variable with the ID of the region in which a program was started."""

_FOLDER_VARIABLES = ('TMPDIR', 'TEMP', 'TMP')
_FOLDERS = ('/tmp', '/var/tmp', '/dev/shm')  # noqa: S108 - the file gets a random name, and is made only if new
_OPENING = os.O_WRONLY | os.O_APPEND
for _name in ('O_CLOEXEC', 'O_NOFOLLOW', 'O_BINARY', 'O_NOINHERIT'):
    _OPENING |= getattr(os, _name, 0)  # the last two on Windows, which else changes the ends of lines
_F_SETSIG, _F_GETSIG = 10, 11  # asm-generic/fcntl.h; Python has no names for them
_FIRST_MARK, _MARKS = 36, 28  # real-time signals
_CLOSED = (-1, 0)
_STANDARD_ERROR = 2
_UNCHECKED = 50
"""Lines after which is looked whether the file is still there."""


class LogFile:
    """One log, opened when the first line is written."""

    __slots__ = ('_device', '_inode', '_may_be_torn', '_opened', '_unchecked', 'is_gone', 'path')

    def __init__(self, path: str) -> None:
        self.path = path
        self.is_gone = False
        self._opened = _CLOSED
        """The descriptor and its mark, as one, because another thread may open the file at the same time."""
        self._inode = self._device = 0
        self._may_be_torn = False
        self._unchecked = 0

    def write(self, line: bytes) -> None:
        """Append ``line`` where that is possible; raise nothing of its own, and never write into another file.

        The program may have closed the descriptor, and have got the same number for a file of its own. So each file has
        a mark that costs 0.3 µs to read: the number of a signal that is never sent, fcntl(2). A look at the file itself
        costs 2 µs, because Linux 6.13 and later then write a finer time of change with the next line.
        """
        descriptor, mark = self._opened
        try:
            if sys.platform == 'linux' and self._unchecked > 0 and fcntl.fcntl(descriptor, _F_GETSIG) == mark:
                self._unchecked -= 1
            else:
                found = os.fstat(descriptor)
                if not found.st_nlink or not self._is(found):
                    self._write_anew(line)
                    return
                self._unchecked = _UNCHECKED if mark else 0
        except OSError as failure:  # not opened so far, or closed by the program
            if is_from_outside(failure):
                raise
            self._write_anew(line)
            return
        self._append(descriptor, line)

    def close(self) -> None:
        """Write no more lines."""
        self.is_gone = True
        _forget(self)
        (descriptor, _), self._opened = self._opened, _CLOSED
        try:
            if self._is(os.fstat(descriptor)):
                os.close(descriptor)
        except OSError as failure:  # the program has closed it
            if is_from_outside(failure):
                raise

    def _append(self, descriptor: int, line: bytes) -> None:
        try:
            if self._may_be_torn:
                line = b'\n' + line  # the disk was full: the start of a line may stand there
            if os.write(descriptor, line) != len(line):
                self._may_be_torn = True
            elif self._may_be_torn:
                self._may_be_torn = False
        except OSError as failure:  # a full disk: the line is lost, the program goes on
            if is_from_outside(failure):
                raise
            self._may_be_torn = True

    def _write_anew(self, line: bytes) -> None:
        """Open the file and write ``line``, where it is there; raise nothing of its own."""
        before = self._opened
        if self.is_gone or self._write_to(before[0], line):
            return
        try:
            descriptor = _opened(self.path)
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or not (self._is(found) or not self._inode):
                os.close(descriptor)  # another file has its name by now
                self.close()
                return
            self._append(descriptor, line)
            if self._opened is before:
                self._inode, self._device = found.st_ino, found.st_dev
                self._opened = (descriptor, _marked(descriptor))
            else:
                os.close(descriptor)  # another thread has opened it meanwhile
        except (FileNotFoundError, NotADirectoryError) as failure:
            if is_from_outside(failure):
                raise
            self.close()
        except OSError as failure:  # no descriptor left, no right any more: that may be different next time
            if is_from_outside(failure):
                raise

    def _write_to(self, descriptor: int, line: bytes) -> bool:
        """Write ``line`` where ``descriptor`` is of this log, and end with a removed one; return whether it is."""
        try:
            found = os.fstat(descriptor)
        except OSError as failure:  # not opened so far, or closed by the program
            if is_from_outside(failure):
                raise
            return False
        if not self._is(found):
            return False
        if found.st_nlink:
            self._append(descriptor, line)  # another thread has opened it meanwhile
        else:
            self.close()  # removed: nobody reads it any more
        return True

    def _is(self, found: os.stat_result) -> bool:
        """Return whether ``found`` is of this log."""
        return found.st_ino == self._inode and found.st_dev == self._device


def is_from_outside(error: BaseException) -> bool:
    """Return whether a handler of a signal has raised ``error``, as for a time limit: the program waits for it."""
    found = error.__traceback__
    if found is None or (isinstance(error, OSError) and error.errno is not None):
        return False  # a TimeoutError of a handler has no number, what the system raises has one
    while found.tb_next is not None:
        found = found.tb_next
    return not str(found.tb_frame.f_globals.get('__name__', '')).startswith(__package__)


def _opened(path: str) -> int:
    """Open a log for appending; never as a standard stream that the program has closed."""
    descriptor = os.open(path, _OPENING)
    if sys.platform != 'win32' and descriptor <= _STANDARD_ERROR:
        try:
            return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _STANDARD_ERROR + 1)
        finally:
            os.close(descriptor)
    return descriptor


def _marked(descriptor: int) -> int:
    """Give an open file a mark that no other log of this process has, and return it; 0 where that is not possible."""
    global _last_mark  # noqa: PLW0603 - a counter
    if sys.platform == 'linux':
        mark = _FIRST_MARK + (_last_mark + 1 - _FIRST_MARK) % _MARKS
        try:
            fcntl.fcntl(descriptor, _F_SETSIG, mark)
        except OSError:
            return 0  # a kernel that only looks like Linux: the file itself is looked at for each line
        _last_mark = mark
        return mark
    return 0


_last_mark = _FIRST_MARK

active: tuple[LogFile, ...] | None = ()
"""The logs that this process writes to: None where there are none, empty before the environment was read."""


def before_change() -> None:
    """Stand for what writes, before a log is added or left, what waits to be written."""


def create_log() -> str:
    """Make an empty log that only this user can read, and return its path.

    :raises OSError: where no folder for temporary files takes it.
    """
    failure: OSError = FileNotFoundError('there is no folder for temporary files')
    given = (os.environ.get(name) for name in _FOLDER_VARIABLES)
    for folder in (*given, *_FOLDERS):
        if not folder or os.pathsep in os.path.abspath(folder):
            continue
        path = os.path.join(os.path.abspath(folder), f'gpu-tracker-{os.urandom(8).hex()}.regions')
        try:
            os.close(os.open(path, _OPENING | os.O_CREAT | os.O_EXCL, 0o600))
        except OSError as error:
            failure = error
            continue
        return path
    raise failure


def join(path: str) -> None:
    """Have this process, and what it starts from now on, write its regions to the log ``path`` as well."""
    global active  # noqa: PLW0603 - the one state that regions look at first
    known = find() or ()
    before_change()
    active = (*known, LogFile(path))
    _change_environment(lambda paths: [*paths, path])


def leave(path: str) -> None:
    """Write what still waits to be written, and no more to the log ``path``; the file stays."""
    before_change()
    for file in active or ():
        if file.path == path:
            file.close()
    _change_environment(lambda paths: [other for other in paths if other != path])


def find() -> tuple[LogFile, ...] | None:
    """Return the logs that this process writes to, those that the environment names where none was read so far."""
    global active  # noqa: PLW0603 - as above
    if active is not None and not active:
        active = tuple(LogFile(path) for path in _paths() if os.path.isabs(path)) or None
    return active


def outer_region() -> int | None:
    """Return the ID of the region in which this program was started, as the environment says it."""
    given = os.environ.get(REGION_VARIABLE, '')
    return int(given) if given.isascii() and given.isdigit() and len(given) < 20 else None  # noqa: PLR2004 - 63 bits


def _forget(gone: LogFile) -> None:
    global active  # noqa: PLW0603 - as above
    if active:
        active = tuple(file for file in active if file is not gone) or None


def _paths() -> list[str]:
    return [path for path in os.environ.get(LOGS_VARIABLE, '').split(os.pathsep) if path]


def _change_environment(change: Callable[[list[str]], list[str]]) -> None:
    paths = change(_paths())
    if paths:
        os.environ[LOGS_VARIABLE] = os.pathsep.join(paths)
    else:
        os.environ.pop(LOGS_VARIABLE, None)
