"""Waits until somebody opens one of the devices, in one of several ways, and prints when it was told.

    device_watcher.py WAY DROP INTERVAL DEVICE...

WAY is ``inotify``, ``fanotify``, ``fanotify-fid`` (which names files instead of opening them, and needs no root since
Linux 5.13) or ``scan``: a look at all descriptors of all processes each INTERVAL seconds. With DROP 1 it becomes the
user nobody first. It prints ``ready``, or ``failed`` and the number of the error; then the nanoseconds of the monotonic
clock each time.
"""

import ctypes
import itertools
import os
import struct
import sys
import time
from collections.abc import Callable

_IN_OPEN = 0x20
_FAN_OPEN = ctypes.c_uint64(0x20)
_FAN_MARK_ADD = 1
_FAN_CLOEXEC = 1
_FAN_REPORT_FID = 0x200
_FAN_EVENT = struct.Struct('=IBBHQii')
_AT_FDCWD = -100
_NOBODY = 65534

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _inotify(devices: list[str]) -> Callable[[], None]:
    handle = _checked(_libc.inotify_init1(os.O_CLOEXEC))
    for device in devices:
        _checked(_libc.inotify_add_watch(handle, os.fsencode(device), _IN_OPEN))
    return lambda: _read(handle)


def _read(handle: int) -> None:
    os.read(handle, 4096)


def _fanotify(devices: list[str], more: int) -> Callable[[], None]:
    handle = _checked(_libc.fanotify_init(_FAN_CLOEXEC | more, os.O_RDONLY | os.O_CLOEXEC))
    for device in devices:
        _checked(_libc.fanotify_mark(handle, _FAN_MARK_ADD, _FAN_OPEN, _AT_FDCWD, os.fsencode(device)))
    return lambda: _read_and_close(handle)


def _read_and_close(handle: int) -> None:
    """Read events; without FAN_REPORT_FID the kernel opens the device once more for each, in this process."""
    events = os.read(handle, 4096)
    position = 0
    while position < len(events):
        length, _, _, _, _, opened, _ = _FAN_EVENT.unpack_from(events, position)
        position += length
        if opened >= 0:
            os.close(opened)


def _scan(devices: list[str], interval: float) -> Callable[[], None]:
    wanted = {_identity(os.stat(device)) for device in devices}
    looks = itertools.count(1)
    begun = time.monotonic()
    were_there = False

    def wait() -> None:
        nonlocal were_there
        while True:
            time.sleep(max(0.0, begun + next(looks) * interval - time.monotonic()))
            before, were_there = were_there, _is_open(wanted)
            if were_there and not before:
                return

    return wait


def _identity(file: os.stat_result) -> tuple[int, ...]:
    return (0, file.st_rdev) if file.st_rdev else (1, file.st_dev, file.st_ino)


def _is_open(wanted: set[tuple[int, ...]]) -> bool:
    """Look at all descriptors of all processes: none is left out, as the last may be the one."""
    found = False
    for name in os.listdir('/proc'):
        if name.isdecimal():
            try:
                handles = os.listdir(f'/proc/{name}/fd')
            except OSError:
                continue  # it has ended, or is another user's
            for handle in handles:
                try:
                    found |= _identity(os.stat(f'/proc/{name}/fd/{handle}')) in wanted
                except OSError:
                    continue  # closed meanwhile
    return found


def _drop() -> None:
    os.setgroups([])
    os.setgid(_NOBODY)
    os.setuid(_NOBODY)


if __name__ == '__main__':
    way, drop, pause, *paths = sys.argv[1:]
    if drop == '1':
        _drop()
    try:
        wait = {
            'inotify': lambda: _inotify(paths),
            'fanotify': lambda: _fanotify(paths, 0),
            'fanotify-fid': lambda: _fanotify(paths, _FAN_REPORT_FID),
            'scan': lambda: _scan(paths, float(pause)),
        }[way]()
    except OSError as error:
        print('failed', error.errno, flush=True)
        sys.exit(1)
    print('ready', flush=True)
    while True:
        wait()
        print(time.monotonic_ns(), flush=True)
