"""Whether BPF programs limit the devices of a control group of version 2: bpf(2), linux/bpf.h.

What such a program allows is not to be seen from outside, only that there is one.
"""

from __future__ import annotations

import ctypes
import os
import platform

_SYSCALLS = {'x86_64': 321, 'aarch64': 280}
_PROG_QUERY = 16
_CGROUP_DEVICE = 6
_EFFECTIVE = 1
"""Those of the groups above it too."""


class _Query(ctypes.Structure):
    _fields_ = (
        ('target', ctypes.c_uint32),
        ('attach_type', ctypes.c_uint32),
        ('query_flags', ctypes.c_uint32),
        ('attach_flags', ctypes.c_uint32),
        ('programs', ctypes.c_uint64),
        ('count', ctypes.c_uint32),
        ('_padding', ctypes.c_uint32),
    )


def count(folder: str) -> int | None:
    """Return how many programs limit the devices of a group; None where it is not told, as to who lacks CAP_NET_ADMIN.

    :param folder: The group's folder.
    """
    number = _SYSCALLS.get(platform.machine())
    if number is None:
        return None
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:  # it has been removed
        return None
    try:
        query = _Query(target=descriptor, attach_type=_CGROUP_DEVICE, query_flags=_EFFECTIVE)
        libc = ctypes.CDLL(None, use_errno=True)
        failed = libc.syscall(number, _PROG_QUERY, ctypes.byref(query), ctypes.sizeof(query))
    finally:
        os.close(descriptor)
    return None if failed else int(query.count)
