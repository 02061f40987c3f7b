"""Writes a file whole: who reads it sees the old text or the new one, never a part.

The sampling subprocess uses this as well, so it imports nothing but ``os`` and its kin.
"""

from __future__ import annotations

import errno
import stat
import sys

from gpu_tracker.real import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_PIECE = 1 << 20
_UNCHANGED = getattr(os, 'O_BINARY', 0)
"""Without it Windows changes the ends of lines."""
_WITHOUT_WAITING = getattr(os, 'O_NONBLOCK', 0)
_NOT_AS_OWN_TERMINAL = getattr(os, 'O_NOCTTY', 0)
_FOR_ALL = stat.S_ISVTX | stat.S_IWOTH
_MOST_LINKS = 40  # as many symbolic links in one path as Linux follows, path_resolution(7)


def write_whole(path: str, text: str) -> None:
    """Write ``text`` to ``path``.

    A missing or a regular file is replaced by a rename in its own folder: symbolic links are followed, and an existing
    file keeps its mode. Anything else (a FIFO, ``/dev/null``, ``/dev/stderr`` wherever it leads) is written in place.

    Raises OSError where that fails; the file then is as it was, unless it was written in place.
    """
    write_pieces(path, [text.encode(errors='surrogateescape')])


def write_pieces(path: str, pieces: Iterable[bytes]) -> None:
    """Write the same of bytes that come some at a time; where ``pieces`` fails, the file is as it was as well."""
    target = replaceable_file(path)
    if target is None:
        _write_in_place(path, pieces)
    else:
        _replace(target, pieces)


def check_writable(path: str) -> None:
    """Raise OSError where ``write_whole`` would fail on ``path``, and leave everything as it was.

    A FIFO is not opened: that would wait for a reader, or show one an end of file.
    """
    target = replaceable_file(path)
    if target is not None:
        if os.path.exists(target):
            if not os.access(target, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
            if not _may_replace(target):
                raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), path)
        # Only making a file tells: a full quota and an immutable folder pass every look at permissions.
        descriptor, temporary = _create_beside(target)
        os.close(descriptor)
        os.unlink(temporary)
        return
    own = own_descriptor(path)
    if own is not None:
        os.write(own, b'')
        return
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    if not stat.S_ISFIFO(mode):
        os.close(os.open(path, os.O_WRONLY | _WITHOUT_WAITING | _NOT_AS_OWN_TERMINAL))


def replaceable_file(path: str) -> str | None:
    """Return the missing or regular file that ``path`` leads to through its symbolic links, None for anything else.

    A descriptor's own name, such as ``/dev/stderr``, is none even where it leads to a regular file: whoever opened
    that file would go on writing into the one that the rename has removed.
    """
    if _descriptor_name(path) is not None:
        return None
    try:
        regular = stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        if not os.path.basename(path):
            raise  # 'folder/' can only be a folder
        regular = True
    if not regular:
        return None
    check_links(path)
    return os.path.realpath(path)


def check_links(path: str) -> None:
    """Raise PermissionError if ``path`` leads through another user's link in a sticky folder for all, such as /tmp.

    The kernel does so with fs.protected_symlinks=1, but not for ``os.path.realpath``.
    """
    if sys.platform == 'win32':
        return
    folder, left, links = '/' if os.path.isabs(path) else os.getcwd(), _names(path), 0
    while left and links < _MOST_LINKS:
        name = left.pop()
        there = os.path.dirname(folder) if name == '..' else os.path.join(folder, name)
        try:
            target, owner = os.readlink(there), os.lstat(there).st_uid
        except OSError:  # no link, or nothing
            folder = there
            continue
        parent = os.stat(folder)
        if parent.st_mode & _FOR_ALL == _FOR_ALL and owner not in {os.geteuid(), parent.st_uid}:
            raise PermissionError(errno.EACCES, f'{there} is a symbolic link of another user', path)
        folder = '/' if target.startswith('/') else folder
        left += _names(target)
        links += 1


def _names(path: str) -> list[str]:
    return [name for name in reversed(path.split('/')) if name not in {'', '.'}]


def replaceable_file_or_none(path: str) -> str | None:
    """Return the same, and None also where it cannot be found out."""
    try:
        return replaceable_file(path)
    except OSError:
        return None


def _may_replace(target: str) -> bool:
    """Return whether a rename onto ``target`` is permitted: in a sticky folder as /tmp only to owners, see inode(7)."""
    folder = os.stat(os.path.dirname(target))
    if sys.platform == 'win32' or not folder.st_mode & stat.S_ISVTX:
        return True
    return os.geteuid() in {0, folder.st_uid, os.stat(target).st_uid}


def own_descriptor(path: str) -> int | None:
    """Return the number of the open descriptor of this very process that ``path`` names, if it names one."""
    name = _descriptor_name(path)
    if name is None or os.path.dirname(name) not in {'/dev/fd', f'/proc/{os.getpid()}/fd'}:
        return None
    return int(os.path.basename(name))


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of ``data`` to ``descriptor``, waiting where the other end has made it non-blocking."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            import select  # noqa: PLC0415 (rarely needed, and the sampler does without)

            select.select([], [descriptor], [])


def _descriptor_name(path: str) -> str | None:
    """Return ``/proc/PID/fd/N`` or ``/dev/fd/N`` where that is what the symbolic links of ``path`` lead to."""
    for _ in range(_MOST_LINKS):
        folder, name = os.path.split(path)
        folder = os.path.realpath(folder)
        path = os.path.join(folder, name)
        if name.isdigit() and (folder == '/dev/fd' or (folder.startswith('/proc/') and folder.endswith('/fd'))):
            return path
        try:
            path = os.path.join(folder, os.readlink(path))
        except OSError:
            return None  # no symbolic link, or nothing at all: the path ends here
    return None


def _write_in_place(path: str, pieces: Iterable[bytes]) -> None:
    """Write into what ``path`` is already, at its end where it has one."""
    own = own_descriptor(path)
    if own is not None:
        # Opening it anew would start at offset 0 of a redirected file, over what the command has written there.
        _write_pieces(own, pieces)
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | _NOT_AS_OWN_TERMINAL | _UNCHANGED)
    try:
        _write_pieces(descriptor, pieces)
    finally:
        os.close(descriptor)


def _write_pieces(descriptor: int, pieces: Iterable[bytes]) -> None:
    for piece in pieces:
        write_all(descriptor, piece)


def _replace(target: str, pieces: Iterable[bytes]) -> None:
    """Put a new file with ``pieces`` in the place of ``target``."""
    descriptor, temporary = _create_beside(target)
    try:
        try:
            _write_pieces(descriptor, pieces)
            _take_over_mode(descriptor, target)
        finally:
            os.close(descriptor)
        try:
            os.replace(temporary, target)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            # A single file mounted into a container: it can be written, but nothing can be renamed onto it.
            _copy_into(temporary, target)
            os.unlink(temporary)
    except BaseException:
        os.unlink(temporary)
        raise


def _copy_into(source: str, target: str) -> None:
    with open(source, 'rb') as file:
        descriptor = os.open(target, os.O_WRONLY | os.O_TRUNC | _UNCHANGED)
        try:
            _write_pieces(descriptor, iter(lambda: file.read(_PIECE), b''))
        finally:
            os.close(descriptor)


def _create_beside(target: str) -> tuple[int, str]:
    """Create a temporary file in the folder of ``target``; return its descriptor and its path."""
    folder = os.path.dirname(target)
    attempt = 0
    while True:
        # A name of its own length: one made from the target's could be longer than the file system allows.
        path = os.path.join(folder, f'.gpu-tracker-{os.getpid()}-{attempt}.tmp')
        try:
            # O_EXCL: never follow or fill what somebody else has put there, as anybody can in /tmp.
            return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _UNCHANGED, 0o666), path
        except FileExistsError:
            attempt += 1


def _take_over_mode(descriptor: int, target: str) -> None:
    """Give the open file the mode of ``target``, and its owner where this user may."""
    if sys.platform == 'win32':
        return
    try:
        old = os.stat(target)
    except FileNotFoundError:
        return
    new = os.fstat(descriptor)
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        try:
            os.fchown(descriptor, old.st_uid, old.st_gid)
        except PermissionError:
            pass  # only root may give files away; the text is what was asked for
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
