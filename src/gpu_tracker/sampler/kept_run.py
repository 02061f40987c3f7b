"""The file that outlives a killed run: what was measured of it, in a folder of its user. Linux only.

The sampler makes it and writes it; the tracker empties and removes it when it has the result. Both hold a lock on it
meanwhile, fcntl(2), which forked workers do not inherit. So the run of an unlocked file was killed.
"""

from __future__ import annotations

import stat
import sys

from gpu_tracker.control_groups.places import plain, read_text
from gpu_tracker.real import os, time
from gpu_tracker.sampler.descriptors import above_standard
from gpu_tracker.sampler.store import LARGE_PLACE, Store

if sys.platform != 'win32':
    import fcntl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from gpu_tracker.totals import Evidence, SamplerConfiguration

SUFFIX = '.run'
RECORDING = '.db'
"""The ending of a recording that is kept."""
HEADER = b'gpu-tracker run 1\n'
"""How such a file begins, with the version of what follows."""
START = 64
"""Where the two places of its :class:`Store` begin."""
MOST = 50
"""Files of killed runs that are kept, and recordings."""
LARGEST = 200_000_000
"""Bytes of all recordings that are kept, and so of one."""

_LOCAL = frozenset({
    *('bcachefs', 'btrfs', 'ext2', 'ext3', 'ext4', 'f2fs', 'jfs', 'nilfs2', 'overlay', 'ramfs', 'reiserfs', 'rootfs'),
    *('tmpfs', 'xfs', 'zfs'),
})  # fmt: skip
"""File systems that wait for no server and no other program."""
_MOST_WORDS = 50
_LONGEST_WORD = 500
"""Of a command; it is written again and again."""
_LONGEST_NAME = 60
_MOST_PARTS = 1000
"""Of a path whose symbolic links are followed: it may lead in a circle."""


class KeptRun:
    """One such file, in the sampler.

    :param folder: An existing one.
    :param about: What is known of the run beside its evidence.
    :ivar recording: The path of its recording, if it is recorded without a file that the user has named.
    :raises OSError: It cannot be made there.
    """

    def __init__(self, folder: str, about: Mapping[str, Any]) -> None:
        self.id = f'{time.strftime("%Y%m%d-%H%M%S", time.gmtime())}-{os.urandom(3).hex()}'
        self.path = f'{folder}/{self.id}{SUFFIX}'
        self.recording = recording_of(self.path)
        if about['recording'] == '':
            about = {**about, 'recording': self.recording}
        name = ' '.join(about['command'])
        self.name = name if len(name) <= _LONGEST_NAME else f'{name[:_LONGEST_NAME]}…'
        self._beginning = f"{ascii(about)[:-1]}, 'evidence': "
        hidden = f'{folder}/.{self.id}'
        handle = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            os.write(handle, HEADER)
            os.rename(hidden, self.path)  # only now: nobody finds it without its lock
        except BaseException:
            os.close(handle)
            _unlink(hidden)
            raise
        self._store = Store(handle, LARGE_PLACE, START)

    @property
    def is_wanted(self) -> bool:
        """Whether the tracker has not taken the result so far."""
        found = os.fstat(self._store.handle)
        return bool(found.st_nlink and found.st_size)

    def discard(self) -> None:
        """Remove the file and the recording: there was no run."""
        remove(self.path)

    def write(self, evidence: Evidence) -> None:
        """Put the evidence in place of the one before the last.

        As a Python literal: to import json costs 11 ms, and what marshal reads from a stranger may crash it.
        """
        try:
            if self.is_wanted:
                self._store.put(f'{self._beginning}{evidence!a}}}'.encode())
        except OSError:
            pass  # a full disk, or a limit on the size of files: what is there stays


class RunFile:
    """The tracker's hold on the file, so that it is no killed run's also if the sampler is killed.

    :param path: What the sampler has made.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._handle: int | None = None
        try:
            self._handle = above_standard(os.open(path, os.O_RDWR | os.O_CLOEXEC))
            self._identity = os.fstat(self._handle)
            fcntl.lockf(self._handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            pass  # no descriptor is left: the sampler has a lock as well

    def remove(self) -> None:
        """Remove the file. It is empty first: a program that has changed its root or its user may not find it."""
        _unlink(self._path)
        handle, self._handle = self._handle, None
        if handle is not None:
            try:
                if os.path.samestat(os.fstat(handle), self._identity):  # the program may have closed it
                    os.ftruncate(handle, 0)
                    os.close(handle)
            except OSError:
                pass  # closed by the program


def create(about: Mapping[str, Any]) -> KeptRun | None:
    """Return a new file in the first folder that will do; None if there is none."""
    for folder in local_folders():
        try:
            _make(folder)
            remove_oldest(folder, MOST - 1)
            return KeptRun(folder, about)
        except OSError:
            continue
    return None


def about(config: SamplerConfiguration) -> dict[str, Any]:
    """Return what is known of a run beside its evidence."""
    recording = config['recording']
    words = config['words'] or command_line(config['target']) or ()
    return {
        'program': f'gpu-tracker {config["version"]}',
        'command': [word[:_LONGEST_WORD] for word in words[:_MOST_WORDS]],
        'host': os.uname().nodename,
        'pid': config['target'],
        'started_unix': time.time(),
        'interval': config['interval'],
        'units': list(config['units']),
        'recording': None if recording is None or recording['begins'] == 'with_regions' else recording['path'],
    }


def recording_of(path: str) -> str:
    """Return the path of the recording beside the file of a run; of a recording, its own."""
    return path.removesuffix(SUFFIX).removesuffix(RECORDING) + RECORDING


def command_line(pid: int) -> list[str] | None:
    """Return the words of a process; None if they are not known."""
    try:
        with open(f'/proc/{pid}/cmdline', 'rb') as file:
            words = file.read().rstrip(b'\0').split(b'\0')
    except OSError:
        return None
    return [word.decode(errors='replace') for word in words] if any(words) else None


def local_folders(environment: Mapping[str, str] = os.environ, proc: str = '/proc') -> list[str]:
    """Return the folders of this user for such files, without symbolic links; they need not be there.

    They are in ``$XDG_STATE_HOME`` or ``~/.local/state``, and in ``$TMPDIR`` or ``/tmp``. Folders on file systems that
    may block are left out and not touched. A home folder that does not exist is not made.
    """
    state, home = environment.get('XDG_STATE_HOME', ''), environment.get('HOME', '')
    is_below_home = not os.path.isabs(state)
    if is_below_home:
        state = os.path.join(home, '.local', 'state')
    temporary = environment.get('TMPDIR', '')
    if not os.path.isabs(temporary):
        temporary = '/tmp'  # noqa: S108 - the owner of the folder in it is checked
    try:
        kinds = {plain(point): kind for point, kind in _mounts(proc)}
    except OSError:
        return []
    found = []
    if os.path.isabs(state):
        folder = _local_folder(state, 'gpu-tracker/runs', kinds)
        if folder and _is_below_own_folder(folder) and not (is_below_home and not os.path.isdir(home)):
            found.append(folder)
    own = _local_folder(temporary, f'gpu-tracker-{os.geteuid()}/runs', kinds)
    return [*found, own] if own else found


def _local_folder(parent: str, name: str, kinds: Mapping[str, str]) -> str | None:
    """Return the folder ``name`` in ``parent``; None if it leads through a file system that may block.

    Links are followed to ``parent`` alone: another user may have made the folders in it.
    """
    parent = _local_path(parent, kinds) or ''
    folder = f'{parent}/{name}'
    return folder if parent and _local_path(folder, kinds) == folder else None


def remove_oldest(folder: str, most: int) -> None:
    """Remove the oldest files of killed runs in ``folder``, down to ``most`` files.

    :raises OSError: It cannot be read.
    """
    names = [name for name in os.listdir(folder) if _is_name(name)]
    if len(names) <= most:
        return
    names.sort(key=lambda name: name.removeprefix('.'))
    killed = [path for name in names if not goes_on(path := f'{folder}/{name}')]
    for path in killed[: max(0, len(killed) - most)]:
        remove(path)


def _is_name(name: str) -> bool:
    """Return whether a file has the name of a finished or an unfinished run file."""
    day, _, rest = name.removeprefix('.').removesuffix(SUFFIX).partition('-')
    clock, _, random = rest.partition('-')
    return (len(day), len(clock), len(random)) == (8, 6, 6) and (day + clock).isdecimal()


def goes_on(path: str) -> bool:
    """Return whether the run of a file goes on, or that cannot be seen."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        return is_locked(handle)
    finally:
        os.close(handle)


def is_locked(handle: int) -> bool:
    """Return whether the run of the file goes on. The lock is not taken: other processes may read it too."""
    if sys.platform == 'win32':
        return False
    from struct import pack  # noqa: PLC0415 - hardly ever needed

    try:
        found = fcntl.fcntl(handle, fcntl.F_GETLK, pack('hhqqi', fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    except OSError:
        return False  # this file system has no locks
    return found[:2] != pack('h', fcntl.F_UNLCK)


def is_own(folder: str) -> bool:
    """Return whether a folder and the one above it are this user's alone, and no symbolic links."""
    try:
        return all(_is_private(os.lstat(path)) for path in (os.path.dirname(folder), folder))
    except OSError:
        return False


def _is_private(found: os.stat_result) -> bool:
    is_own_folder = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    return is_own_folder and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _mounts(proc: str) -> list[tuple[str, str]]:
    """Return the mount points with their file systems. Of several at one point, the last is visible."""
    found = []
    for line in read_text(f'{proc}/self/mountinfo').split('\n'):
        before, _, after = line.partition(' - ')
        fields = before.split(' ')
        if after:
            found.append((fields[4], after.partition(' ')[0]))
    return found


def _local_path(path: str, kinds: Mapping[str, str]) -> str | None:
    """Return ``path`` without symbolic links; None if it leads through a file system that may block.

    :param kinds: The file systems by their mount points.
    """
    found, rest = '', path.split('/')[::-1]
    if kinds.get('/') not in _LOCAL:
        return None
    for _ in range(_MOST_PARTS):
        if not rest:
            return found
        part = rest.pop()
        if part == '..':
            found = os.path.dirname(found).rstrip('/')
        elif part not in {'', '.'}:
            inner = f'{found}/{part}'
            if inner in kinds and kinds[inner] not in _LOCAL:
                return None
            try:
                target = os.readlink(inner)
            except OSError:
                found = inner  # no link, or not there
                continue
            found = '' if target.startswith('/') else found
            rest += target.split('/')[::-1]
    return None


def _is_below_own_folder(path: str) -> bool:
    """Return whether the last folder on ``path`` that exists is this user's: after sudo, HOME may be another's."""
    while path:
        try:
            return os.stat(path).st_uid == os.geteuid()
        except FileNotFoundError:
            path = os.path.dirname(path)
        except OSError:
            return False
    return False


def _make(folder: str) -> None:
    """Make the folder and those above it.

    :raises OSError: That is not possible, or others can write to it.
    """
    for path in (os.path.dirname(folder), folder):
        os.makedirs(path, 0o700, exist_ok=True)
        if not _is_private(os.lstat(path)):
            raise PermissionError(path)


def remove(path: str) -> None:
    """Remove the file of a run with the recording beside it, or the recording alone."""
    for file in (path, recording_of(path), f'{recording_of(path)}-journal'):
        _unlink(file)


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass  # it is gone
