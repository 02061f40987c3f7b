"""bpf(2) and perf_event_open(2): libbpf links to many functions of a file at once from 1.3 on only."""

from __future__ import annotations

import ctypes
import os
import platform
import struct

_NUMBERS = {'x86_64': (321, 298), 'aarch64': (280, 241)}
"""Machine -> the numbers of bpf(2) and perf_event_open(2)."""
MACHINE = platform.machine()
_BPF_LINK_CREATE = 28
BPF_PERF_EVENT = 41
BPF_TRACE_UPROBE_MULTI = 48
_UPROBE_MULTI_RETURN = 1
_PERF_FLAG_FD_CLOEXEC = 8
_PERF_EVENT_IOC_ENABLE = 0x2400
_PERF_EVENT_ATTRIBUTES = 112  # bytes of struct perf_event_attr up to its version 5

_libc = ctypes.CDLL(None, use_errno=True)


def link_functions(program: int, path: str, offsets: list[int], cookies: list[int], *, at_return: bool) -> int:
    """Attach a program to many functions of a file at once, in every process; return the link's descriptor.

    :raises OSError: EINVAL and EOPNOTSUPP where the kernel is older than 6.6.
    """
    name = ctypes.create_string_buffer(os.fsencode(path))
    numbers = ctypes.c_uint64 * len(offsets)
    offset_array, cookie_array = numbers(*offsets), numbers(*cookies)
    attributes = struct.pack(
        '<IIIIQQQQIIII',
        program,
        0,
        BPF_TRACE_UPROBE_MULTI,
        0,
        ctypes.addressof(name),
        ctypes.addressof(offset_array),
        0,
        ctypes.addressof(cookie_array),
        len(offsets),
        _UPROBE_MULTI_RETURN if at_return else 0,
        0,
        0,
    )
    return _bpf(_BPF_LINK_CREATE, attributes)


def link_perf_event(program: int, event: int, cookie: int) -> int:
    """Attach a program to a perf event; return the link's descriptor."""
    return _bpf(_BPF_LINK_CREATE, struct.pack('<IIIIQ', program, event, BPF_PERF_EVENT, 0, cookie))


def open_uprobe(kind: int, path: str, offset: int, *, at_return: bool, return_bit: int) -> int:
    """Open the perf event of one function of a file, in every process; return its descriptor.

    :param kind: What the kernel numbers such events with, see ``/sys/bus/event_source/devices/uprobe/type``.
    """
    name = ctypes.create_string_buffer(os.fsencode(path))
    attributes = bytearray(_PERF_EVENT_ATTRIBUTES)
    struct.pack_into('<IIQ', attributes, 0, kind, _PERF_EVENT_ATTRIBUTES, int(at_return) << return_bit)
    struct.pack_into('<QQ', attributes, 56, ctypes.addressof(name), offset)  # config1 and config2
    buffer = ctypes.create_string_buffer(bytes(attributes), len(attributes))
    call = _NUMBERS[MACHINE][1]
    return _checked(_libc.syscall(call, buffer, -1, 0, -1, ctypes.c_ulong(_PERF_FLAG_FD_CLOEXEC)))


def enable_perf_event(event: int) -> None:
    """Let a perf event happen."""
    _checked(_libc.ioctl(event, ctypes.c_ulong(_PERF_EVENT_IOC_ENABLE), 0))


def is_supported() -> bool:
    """Return whether this is one of the machines that the probe is compiled for."""
    return MACHINE in _NUMBERS


def _bpf(command: int, attributes: bytes) -> int:
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    return _checked(_libc.syscall(_NUMBERS[MACHINE][0], command, buffer, len(attributes)))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
