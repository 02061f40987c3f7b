"""The logs of regions: text files of lines that this process appends to and a sampler reads.

Which they are says an environment variable, so that everything a tracked process starts finds them as well.
"""

from __future__ import annotations

import errno
import itertools
import stat
import sys

from gpu_tracker.real import os

if sys.platform != 'win32':
    from gpu_tracker.real import fcntl

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
_marks = itertools.cycle(range(36, 64))  # real-time signals
_CLOSED = (-1, 0)
_STANDARD_ERROR = 2
_UNCHECKED = 50
"""Lines after which the file itself is checked."""


class LogFile:
    """One log, opened when the first line is written."""

    __slots__ = ('_file', '_is_torn', '_opened', '_unchecked', 'is_gone', 'path')

    def __init__(self, path: str) -> None:
        self.path = path
        self.is_gone = False
        self._opened = _CLOSED
        """The descriptor and its mark, as one, because another thread may open the file at the same time."""
        self._file: tuple[int, int] | None = None
        """Device and inode."""
        self._is_torn = False
        self._unchecked = 0

    def write(self, line: bytes) -> None:
        """Append ``line`` if that is possible; raise nothing of its own, and never write into another file.

        The program may have closed the descriptor, and have got the same number for a file of its own. So each file has
        a mark that costs 0.3 µs to read: the number of a signal that is never sent, fcntl(2). fstat(2) costs 2 µs,
        because Linux 6.13 and later then write a finer time of change with the next line.
        """
        try:
            descriptor, mark = self._opened
            if sys.platform == 'linux' and self._unchecked > 0 and fcntl.fcntl(descriptor, _F_GETSIG) == mark:
                self._unchecked -= 1
            elif self.is_gone:
                return
            else:
                descriptor = self._checked()
            if self._is_torn:
                line = b'\n' + line  # the disk was full: the start of a line may be there
            self._is_torn = os.write(descriptor, line) != len(line)
        except OSError as failure:
            if is_from_outside(failure):
                raise
            if failure.errno == errno.EBADF:  # closed by the program
                self._opened, self._unchecked = _CLOSED, 0
                self.write(line)
            elif isinstance(failure, FileNotFoundError | NotADirectoryError):
                self.close()
            # Else the line is lost: a full disk, no descriptor left or no permission may be different next time.

    def close(self) -> None:
        """Write no more lines."""
        self.is_gone = True
        self._unchecked = 0
        _forget(self)
        (descriptor, _), self._opened = self._opened, _CLOSED
        try:
            if self._is(os.fstat(descriptor)):
                os.close(descriptor)
        except OSError as failure:  # the program has closed it
            if is_from_outside(failure):
                raise

    def _checked(self) -> int:
        """Return the descriptor of the file, which is opened if necessary.

        :raises OSError: if it cannot be opened, FileNotFoundError if it was removed or replaced.
        """
        before = descriptor, mark = self._opened
        if descriptor >= 0:
            found = os.fstat(descriptor)
            if self._is(found):
                if not found.st_nlink:
                    raise FileNotFoundError
                self._unchecked = _UNCHECKED if mark else 0
                return descriptor
        descriptor = _opened(self.path)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or not (self._file is None or self._is(found)):
            os.close(descriptor)
            raise FileNotFoundError
        self._file = found.st_dev, found.st_ino
        if self._opened is not before:  # another thread has opened it meanwhile
            os.close(descriptor)
            return self._opened[0]
        self._opened = descriptor, _marked(descriptor)
        return descriptor

    def _is(self, found: os.stat_result) -> bool:
        """Return whether ``found`` is of this log."""
        return (found.st_dev, found.st_ino) == self._file


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
    """Give an open file a mark that no other log of this process has, and return it; 0 if that is not possible."""
    if sys.platform == 'linux':
        mark = next(_marks)
        try:
            fcntl.fcntl(descriptor, _F_SETSIG, mark)
        except OSError:
            return 0  # a kernel that only looks like Linux: each line checks the file itself
        return mark
    return 0


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
    os.environ[LOGS_VARIABLE] = os.pathsep.join([*_paths(), path])


def leave(path: str) -> None:
    """Write what still waits to be written, and no more to the log ``path``; the file stays."""
    before_change()
    for file in active or ():
        if file.path == path:
            file.close()
    others = [other for other in _paths() if other != path]
    os.environ[LOGS_VARIABLE] = os.pathsep.join(others)
    if not others:
        del os.environ[LOGS_VARIABLE]


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
