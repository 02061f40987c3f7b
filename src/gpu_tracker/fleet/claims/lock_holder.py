"""Who holds a lock, as far as /proc tells."""

from __future__ import annotations

import os

from gpu_tracker.fleet.claims.record import bounded
from gpu_tracker.users import user_name


def holder_of(path: str, proc: str = '/proc') -> str | None:
    """Describe a process that holds a flock(2) on the file or folder, None where none can be told.

    Not to be told are processes of other PID namespaces, and locks on file systems that number their files in another
    way than the kernel's table does (Btrfs).
    """
    try:
        info = os.stat(path, follow_symlinks=False)
        with open(f'{proc}/locks', encoding='utf-8', errors='replace') as locks:
            lines = [line.split() for line in locks]
    except OSError:
        return None
    file = f'{os.major(info.st_dev):02x}:{os.minor(info.st_dev):02x}:{info.st_ino}'
    for words in lines:
        # '1: FLOCK  ADVISORY  WRITE 1234 00:19:567 0 EOF', see proc_locks(5); those that wait have '->' before FLOCK.
        match words:
            case [_, 'FLOCK', _, _, pid, at, *_] if at == file and pid.isdecimal() and pid != '0':
                return _describe(pid, proc)
    return None


def _describe(pid: str, proc: str) -> str:
    try:
        with open(f'{proc}/{pid}/status', encoding='utf-8', errors='replace') as status:
            # Not the owner of its folder in /proc, who is root for a process that has changed its user.
            user = next(int(line.split()[2]) for line in status if line.startswith('Uid:'))
        with open(f'{proc}/{pid}/cmdline', 'rb') as cmdline:
            words = cmdline.read().rstrip(b'\0').replace(b'\0', b' ').decode(errors='replace')
    except (OSError, StopIteration):
        return f'process {pid}'
    command = bounded(words)
    return f'process {pid} of {user_name(user)}' + (f' ({command})' if command else '')
