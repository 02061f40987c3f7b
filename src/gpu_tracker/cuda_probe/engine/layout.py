"""How the kernel's part lays out what it keeps: the structures of ``bpf/layout.h``."""

from __future__ import annotations

import struct
from enum import IntEnum

FOLLOWED_KEY = struct.Struct('<I')
FOLLOWED = struct.Struct('<III')
PROCESS_KEY = struct.Struct('<I')
PROCESS = struct.Struct('<QQQQII16s')
DEVICE_KEY = struct.Struct('<Ii')
DEVICE = struct.Struct('<12Q')
HANDLE = struct.Struct('<QI4x')
KERNEL = struct.Struct('<QQ')
ALLOCATION = struct.Struct('<QQi4x')
CONTEXT = struct.Struct('<i')
FAILURE_KEY = struct.Struct('<IIi')
COUNT = struct.Struct('<Q')
INDEX = struct.Struct('<I')
SETTINGS = struct.Struct('<IIQQ')
EVENT = struct.Struct('<8xQQQQQIiHHI')
"""A record of the ring of events, with its header: the fields of :class:`gpu_tracker.cuda_probe.events.Event`."""
NOTICE = struct.Struct('<8xQQQIIII32s1024s')
"""A record of the ring of notices, with its header."""

EVENT_BYTES = EVENT.size - 8
NOTICE_BYTES = NOTICE.size - 8
ALL_DEVICES = -1

MAPS: dict[str, tuple[int, int]] = {
    'followed': (FOLLOWED_KEY.size, FOLLOWED.size),
    'processes': (PROCESS_KEY.size, PROCESS.size),
    'devices': (DEVICE_KEY.size, DEVICE.size),
    'allocations': (HANDLE.size, ALLOCATION.size),
    'kernels': (HANDLE.size, KERNEL.size),
    'streams': (HANDLE.size, 1),
    'contexts': (HANDLE.size, CONTEXT.size),
    'failures': (FAILURE_KEY.size, COUNT.size),
    'overflows': (INDEX.size, COUNT.size),
    'settings': (INDEX.size, SETTINGS.size),
}
"""Name of a map -> bytes of its keys and values; libbpf gives those of what Python looks into."""


class Overflow(IntEnum):
    """What found no room: the places in the map ``overflows``."""

    EVENT = 0
    NOTICE = 1
    FOLLOWED = 2
    PROCESS = 3
    DEVICE = 4
    ALLOCATION = 5
    KERNEL = 6
    STREAM = 7
    THREAD = 8
    FAILURE = 9
    PEAK = 10
