"""Bytes that a group has read from storage and written to it: ``io.stat``, and what version 1 has in its place.

A device that lies on others, as a volume of LVM or of a RAID does, passes on what it gets, and what lies below counts
it once more: such devices are left out. Kernel documentation, cgroup-v2 and cgroup-v1/blkio-controller.
"""

from __future__ import annotations

import os

from gpu_tracker.control_groups.places import text_in

_DEVICES = '/sys/dev/block'
_READ = 'Read'


def of_unified(folder: str, devices: str = _DEVICES) -> tuple[int, int] | None:
    """Return the bytes that a group of version 2 has read and written; None where nobody counts them."""
    text = text_in(folder, 'io.stat')
    if text is None:
        return None
    read = written = 0
    for line in text.splitlines():
        device, *pairs = line.split()
        if not _lies_on_others(device, devices):
            values = dict(pair.split('=', 1) for pair in pairs if '=' in pair)
            read += int(values.get('rbytes', 0))
            written += int(values.get('wbytes', 0))
    return read, written


def read_of_legacy(folder: str, devices: str = _DEVICES) -> int | None:
    """Return the bytes that a group of version 1 has read; None where nobody counts them.

    What goes through the page cache is written by the kernel later, and version 1 counts that for no group. Newer
    kernels count nothing at all, and name no device then, before a limit has been set for one.
    """
    text = text_in(folder, 'blkio.throttle.io_service_bytes_recursive')
    if text is None:
        return None
    words = [line.split() for line in text.splitlines()]
    if all(line[:1] == ['Total'] for line in words):
        return None
    return sum(int(line[2]) for line in words if line[1:2] == [_READ] and not _lies_on_others(line[0], devices))


def _lies_on_others(device: str, devices: str) -> bool:
    try:
        return bool(os.listdir(f'{devices}/{device}/slaves'))
    except OSError:
        return False  # a partition, a device that is gone, or no such folder here
