"""The kernel's BPF through ctypes: libbpf's functions and maps, and bpf(2) and perf_event_open(2) themselves.

See bpf/libbpf.h and bpf/bpf.h; libbpf links to many functions of a file at once from 1.3 on only.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from typing import TYPE_CHECKING

from gpu_tracker.errors import ProbeUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

_NUMBERS = {'x86_64': (321, 298), 'aarch64': (280, 241)}
"""Machine -> the numbers of bpf(2) and perf_event_open(2)."""
MACHINE = platform.machine()
_BPF_PROG_QUERY = 16
_BPF_LINK_CREATE = 28
_BPF_CGROUP_DEVICE = 6
_BPF_F_QUERY_EFFECTIVE = 1
"""Those of the groups above it too."""
BPF_PERF_EVENT = 41
BPF_TRACE_UPROBE_MULTI = 48
BPF_TRACE_UPROBE_SESSION = 57
_UPROBE_MULTI_RETURN = 1
_PERF_FLAG_FD_CLOEXEC = 8
_PERF_EVENT_IOC_ENABLE = 0x2400
_PERF_EVENT_ATTRIBUTES = 112  # bytes of struct perf_event_attr up to its version 5

_libc = ctypes.CDLL(None, use_errno=True)


def link_functions(
    program: int, path: str, offsets: list[int], cookies: list[int], *, at_return: bool = False, at_both: bool = False
) -> int:
    """Attach a program to many functions of a file at once, in every process; return the link's descriptor.

    :param at_both: To the entries, and to the returns of those calls for which it asks for that.
    :raises OSError: EINVAL and EOPNOTSUPP where the kernel is older than 6.6, at both ends than 6.13.
    """
    name = ctypes.create_string_buffer(os.fsencode(path))
    numbers = ctypes.c_uint64 * len(offsets)
    offset_array, cookie_array = numbers(*offsets), numbers(*cookies)
    attributes = struct.pack(
        '<IIIIQQQQIIII',
        program,
        0,
        BPF_TRACE_UPROBE_SESSION if at_both else BPF_TRACE_UPROBE_MULTI,
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
    return _bpf(_BPF_LINK_CREATE, _buffer(attributes))


def link_perf_event(program: int, event: int, cookie: int) -> int:
    """Attach a program to a perf event; return the link's descriptor."""
    return _bpf(_BPF_LINK_CREATE, _buffer(struct.pack('<IIIIQ', program, event, BPF_PERF_EVENT, 0, cookie)))


def count_device_filters(group: int) -> int:
    """Return how many programs limit the devices of a control group.

    :param group: The descriptor of its folder.
    :raises OSError: That is not readable, as without CAP_NET_ADMIN.
    """
    if not is_supported():
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    query = struct.Struct('<IIIIQII')  # the group, the kind, flags, flags, a list of programs, how many, padding
    buffer = _buffer(query.pack(group, _BPF_CGROUP_DEVICE, _BPF_F_QUERY_EFFECTIVE, 0, 0, 0, 0))
    _bpf(_BPF_PROG_QUERY, buffer)
    return int(query.unpack(buffer.raw)[5])


def open_uprobe(kind: int, path: str, offset: int, *, at_return: bool, return_bit: int) -> int:
    """Open the perf event of one function of a file, in every process; return its descriptor.

    :param kind: What the kernel numbers such events with, see ``/sys/bus/event_source/devices/uprobe/type``.
    """
    name = ctypes.create_string_buffer(os.fsencode(path))
    attributes = bytearray(_PERF_EVENT_ATTRIBUTES)
    struct.pack_into('<IIQ', attributes, 0, kind, _PERF_EVENT_ATTRIBUTES, int(at_return) << return_bit)
    struct.pack_into('<QQ', attributes, 56, ctypes.addressof(name), offset)  # config1 and config2
    call = _NUMBERS[MACHINE][1]
    return _checked(_libc.syscall(call, _buffer(bytes(attributes)), -1, 0, -1, ctypes.c_ulong(_PERF_FLAG_FD_CLOEXEC)))


def enable_perf_event(event: int) -> None:
    """Let a perf event happen."""
    _checked(_libc.ioctl(event, ctypes.c_ulong(_PERF_EVENT_IOC_ENABLE), 0))


def is_supported() -> bool:
    """Return whether this is one of the machines that the probe is compiled for."""
    return MACHINE in _NUMBERS


def _bpf(command: int, attributes: ctypes.Array[ctypes.c_char]) -> int:
    return _checked(_libc.syscall(_NUMBERS[MACHINE][0], command, attributes, len(attributes)))


def _buffer(attributes: bytes) -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(attributes, len(attributes))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


_NAME = 'libbpf.so.1'
_POINTER, _TEXT, _INT, _U32, _SIZE = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_size_t
_FUNCTIONS = {
    'libbpf_set_print': (_POINTER, [_POINTER]),
    'bpf_object__open_mem': (_POINTER, [_POINTER, _SIZE, _POINTER]),
    'bpf_object__load': (_INT, [_POINTER]),
    'bpf_object__close': (None, [_POINTER]),
    'bpf_object__find_program_by_name': (_POINTER, [_POINTER, _TEXT]),
    'bpf_object__find_map_by_name': (_POINTER, [_POINTER, _TEXT]),
    'bpf_program__set_expected_attach_type': (_INT, [_POINTER, _INT]),
    'bpf_program__set_autoload': (_INT, [_POINTER, ctypes.c_bool]),
    'bpf_program__attach': (_POINTER, [_POINTER]),
    'bpf_program__fd': (_INT, [_POINTER]),
    'bpf_link__destroy': (_INT, [_POINTER]),
    'bpf_map__set_max_entries': (_INT, [_POINTER, _U32]),
    'bpf_map__fd': (_INT, [_POINTER]),
    'bpf_map_lookup_elem': (_INT, [_INT, _POINTER, _POINTER]),
    'bpf_map_update_elem': (_INT, [_INT, _POINTER, _POINTER, ctypes.c_uint64]),
    'bpf_map_delete_elem': (_INT, [_INT, _POINTER]),
    'bpf_map_lookup_batch': (
        _INT,
        [_INT, _POINTER, _POINTER, _POINTER, _POINTER, ctypes.POINTER(_U32), _POINTER],
    ),
    'bpf_prog_test_run_opts': (_INT, [_INT, _POINTER]),
}
_BATCH = 4096
_ANY = 0
_NOEXIST = 1


def open_libbpf() -> ctypes.CDLL:
    """Load the library, its functions typed.

    :raises gpu_tracker.errors.ProbeUnavailableError: It is not there, or older than 1.0.
    """
    try:
        library = ctypes.CDLL(_NAME, use_errno=True)
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError):
        raise ProbeUnavailableError(
            f'CUDA calls cannot be probed: the library {_NAME} is missing (Debian and Ubuntu have it in libbpf1, '
            'Fedora in libbpf).'
        ) from None
    library.libbpf_set_print(None)  # errors are reported in our own words
    return library


def error_of(result: int | None) -> OSError:
    """Return the error of a call that has failed, as the C library names it."""
    number = -result if result is not None and result < 0 else ctypes.get_errno()
    return OSError(number, os.strerror(number))


class KernelMap:
    """A hash map or array of the kernel.

    :param library: libbpf.
    :param handle: The map's descriptor.
    """

    def __init__(self, library: ctypes.CDLL, handle: int, key_size: int, value_size: int) -> None:
        self._library = library
        self._handle = handle
        self._key_size = key_size
        self._value_size = value_size

    def get(self, key: bytes) -> bytes | None:
        """Return the value at ``key``, None where there is none."""
        value = ctypes.create_string_buffer(self._value_size)
        return value.raw if self._library.bpf_map_lookup_elem(self._handle, key, value) == 0 else None

    def put(self, key: bytes, value: bytes, *, only_new: bool = False) -> bool:
        """Set the value at ``key``; return False where ``only_new`` and it has one.

        :raises OSError: E2BIG where the map is full.
        """
        result = self._library.bpf_map_update_elem(self._handle, key, value, _NOEXIST if only_new else _ANY)
        if result == -errno.EEXIST:
            return False
        if result != 0:
            raise error_of(result)
        return True

    def remove(self, key: bytes) -> None:
        """Remove ``key``, where it is there."""
        self._library.bpf_map_delete_elem(self._handle, key)

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield all keys with their values: many a call, since each call costs as much as a thousand of them."""
        token = ctypes.create_string_buffer(max(self._key_size, 8))
        keys = ctypes.create_string_buffer(_BATCH * self._key_size)
        values = ctypes.create_string_buffer(_BATCH * self._value_size)
        before = None
        while True:
            count = ctypes.c_uint32(_BATCH)
            result = self._library.bpf_map_lookup_batch(
                self._handle, before, token, keys, values, ctypes.byref(count), None
            )
            if result not in {0, -errno.ENOENT}:
                raise error_of(result)
            yield from zip(
                _pieces(keys, count.value, self._key_size), _pieces(values, count.value, self._value_size), strict=True
            )
            if result != 0:
                return
            before = token


def _pieces(buffer: ctypes.Array[ctypes.c_char], count: int, size: int) -> list[bytes]:
    whole = ctypes.string_at(buffer, count * size)
    return [whole[at : at + size] for at in range(0, len(whole), size)]
