"""The structures of ``bpf/layout.h``, and the totals and notices that are read from them."""

from __future__ import annotations

import mmap
import struct
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.cuda_probe.kernel_data import DeviceTotals, FailureTotals, KernelTotals, ProcessTotals, Totals

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from gpu_tracker.cuda_probe.engine.libbpf import KernelMap

FOLLOWED_KEY = struct.Struct('<I')
FOLLOWED = struct.Struct('<IIIi')
PROCESS_KEY = struct.Struct('<I')
PROCESS = struct.Struct('<5QII16s')
DEVICE_KEY = struct.Struct('<Ii')
DEVICE = struct.Struct('<12Q')
HANDLE = struct.Struct('<QI4x')
KERNEL_KEY = struct.Struct('<QIi')
KERNEL = struct.Struct('<QQQI4x')
ALLOCATION = struct.Struct('<QQi4x')
CONTEXT = struct.Struct('<i')
FAILURE_KEY = struct.Struct('<IIi')
GRAPH_KEY = struct.Struct('<I')
GRAPH = struct.Struct('<QQQIIIBB2x')
GRAPH_NODE = struct.Struct('<QII')
NODES = struct.Struct('<QQ')
COUNT = struct.Struct('<Q')
INDEX = struct.Struct('<I')
SETTINGS = struct.Struct('<IIQQIiQ')
EVENT = struct.Struct('<8xQQQQQIiHHI')
"""A record of the ring of events, with its header: the fields of :class:`gpu_tracker.cuda_probe.kernel_data.Event`."""
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
    'kernels': (KERNEL_KEY.size, KERNEL.size),
    'streams': (HANDLE.size, 1),
    'contexts': (HANDLE.size, CONTEXT.size),
    'failures': (FAILURE_KEY.size, COUNT.size),
    'graphs': (GRAPH_KEY.size, GRAPH.size),
    'graph_handles': (HANDLE.size, GRAPH_KEY.size),
    'graph_nodes': (GRAPH_NODE.size, NODES.size),
    'capturing': (HANDLE.size, GRAPH_KEY.size),
    'overflows': (INDEX.size, COUNT.size),
    'settings': (INDEX.size, SETTINGS.size),
}
"""Name of a map -> bytes of its keys and values; of those maps that Python reads or writes."""


class Overflow(IntEnum):
    """What found no room: the indices in the map ``overflows``."""

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
    GRAPH = 11
    GRAPH_NODE = 12


class NoticeKind(IntEnum):
    """What a notice reports."""

    FIRST_CALL = 1
    """A program run has called CUDA for the first time."""
    EXEC = 2
    """A followed process has become another program, with a new number; the address is its number before."""
    LIBRARIES = 3
    """A followed process loads or unloads libraries."""
    KERNEL_NAME = 4
    """A kernel's handle was asked for, the address: by its name, the text, or by its host function, the value."""
    VARIABLE = 5
    """An environment variable of CUDA's was set or removed; the address is 1 where it was to stay if it was set."""
    END = 6
    """A program run that has called CUDA has ended."""
    FORK = 7
    """A followed process has forked: its number and pid are the child's, the address is the parent's number."""


class Notice(NamedTuple):
    """One notice."""

    time: int
    """Nanoseconds of the monotonic clock."""
    address: int
    value: int
    process: int
    pid: int
    kind: int
    name: str
    """Of a variable, or in all other cases the kernel's of the thread."""
    text: str | None
    """None: the variable was removed."""


def read_notices(records: bytes) -> Iterator[Notice]:
    """Yield the notices in ``records``, as a ring gives them."""
    for time, address, value, process, pid, kind, has_text, name, text in NOTICE.iter_unpack(records):
        yield Notice(time, address, value, process, pid, kind, _text(name), _text(text) if has_text else None)


def _text(raw: bytes) -> str:
    return raw.partition(b'\0')[0].decode('utf-8', 'surrogateescape')


_NO_CALLS = (0,) * (len(DeviceTotals._fields) - 2)


def read_totals(maps: Mapping[str, KernelMap]) -> Totals:
    """Read all maps; each of its figures is as new as this call, and none of them is of one moment with another.

    Kernels have the launches that were calls; :mod:`.graph_launches` has those by graphs.
    """
    # Processes first: if a process has ended by then, its figures in the other maps are complete.
    processes = tuple(_process(key, value) for key, value in maps['processes'].items())
    devices, kernels = _launches(maps['devices'], maps['kernels'])
    return Totals(
        processes=processes,
        devices=devices,
        kernels=kernels,
        failures=tuple(_failure(key, value) for key, value in maps['failures'].items()),
        overflows=tuple(_count(maps['overflows'], index) for index in Overflow),
    )


def forget(maps: Mapping[str, KernelMap], processes: Collection[int]) -> None:
    """Remove all that is kept of program runs that have ended."""

    def drop(name: str, process_of: Callable[[bytes], int]) -> None:
        gone = [key for key, _ in maps[name].items() if process_of(key) in processes]
        for key in gone:
            maps[name].remove(key)

    for name in ('kernels', 'streams', 'contexts', 'allocations', 'graph_handles', 'capturing'):
        drop(name, lambda key: int.from_bytes(key[8:12], 'little'))
    for name in ('devices', 'failures', 'processes'):
        drop(name, lambda key: int.from_bytes(key[:4], 'little'))


def _process(key: bytes, value: bytes) -> ProcessTotals:
    (number,) = PROCESS_KEY.unpack(key)
    began, ended, streams, graphs, unknown_graphs, pid, parent, name = PROCESS.unpack(value)
    return ProcessTotals(
        process=number,
        pid=pid,
        parent=parent,
        name=name.partition(b'\0')[0].decode('utf-8', 'replace'),
        began=began,
        ended=ended or None,
        streams=streams,
        graph_launches=graphs,
        unknown_graph_launches=unknown_graphs,
    )


def _launches(devices: KernelMap, kernels: KernelMap) -> tuple[tuple[DeviceTotals, ...], tuple[KernelTotals, ...]]:
    """Return the totals of GPUs, and those of kernels, whose launches a call adds to the kernel alone."""
    by_device = {DEVICE_KEY.unpack(key): DEVICE.unpack(value)[:-1] for key, value in devices.items()}
    by_kernel: dict[tuple[int, int], tuple[int, int]] = {}
    for key, value in kernels.items():
        address, process, device = KERNEL_KEY.unpack(key)
        launches, threads, *_ = KERNEL.unpack(value)
        before = by_kernel.get((process, address), (0, 0))
        by_kernel[process, address] = before[0] + launches, before[1] + threads
        counted = by_device.get((process, device), _NO_CALLS)
        by_device[process, device] = counted[0] + launches, counted[1] + threads, *counted[2:]
    return (
        tuple(DeviceTotals(process, _ordinal(device), *calls) for (process, device), calls in by_device.items()),
        tuple(KernelTotals(*key, *launches) for key, launches in by_kernel.items()),
    )


def _ordinal(device: int) -> int | None:
    return None if device == ALL_DEVICES else device


def _failure(key: bytes, value: bytes) -> FailureTotals:
    return FailureTotals(*FAILURE_KEY.unpack(key), *COUNT.unpack(value))


def _count(overflows: KernelMap, index: Overflow) -> int:
    value = overflows.get(INDEX.pack(index))
    return 0 if value is None else int(COUNT.unpack(value)[0])


_HEADER = 8
_BUSY = 1 << 31
_DISCARDED = 1 << 30


class Ring:
    """A ring all records of which have the same size.

    :param reader: The page with the reader's position, which is written.
    :param rest: The page with the writer's position, and the data, whose size is a power of two. The kernel offers them
        a second time behind that, which would count twice in the memory of this process.
    :param record_size: Bytes of each record without its header.
    """

    def __init__(self, reader: memoryview, rest: memoryview, record_size: int) -> None:
        self._taken = reader[:8].cast('Q')
        self._written = rest[:8].cast('Q')
        self._data = rest[mmap.PAGESIZE :]
        self._mask = len(self._data) - 1
        self._length = record_size
        self._step = _HEADER + (record_size + 7) // 8 * 8

    @classmethod
    def mapped(cls, handle: int, size: int, record_size: int) -> Ring:
        """Return the ring of a map.

        :param handle: The map's descriptor.
        :param size: Bytes of its data.
        :raises OSError: It cannot be mapped.
        """
        page = mmap.PAGESIZE
        reader = mmap.mmap(handle, page, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE, offset=0)
        rest = mmap.mmap(handle, page + size, mmap.MAP_SHARED, mmap.PROT_READ, offset=page)
        return cls(memoryview(reader), memoryview(rest), record_size)

    def take(self) -> bytes:
        """Return all records that are complete, each with its header, and give their room back.

        The kernel completes a record after it has moved the writer's position. No processor reads ahead as far as the
        interpreter's way from the one to the other, so their order here is that of the code, without a barrier.
        """
        begin, end = self._taken[0], self._written[0]
        if begin == end:
            return b''
        start = begin & self._mask
        before = self._data[start : start + (end - begin)]
        behind = self._data[: end - begin - len(before)]  # what goes on at the begin of the memory
        # Headers first: what they say is complete may be copied. None lies across the end of the memory.
        headers = before.cast('I')[:: self._step // 4].tolist()
        if behind:
            headers += behind[-len(before) % self._step :].cast('I')[:: self._step // 4].tolist()
        records = b''.join((before, behind))
        if max(headers) <= self._length:
            taken = records
        else:
            complete = next((number for number, header in enumerate(headers) if header & _BUSY), len(headers))
            taken = b''.join(
                records[number * self._step : (number + 1) * self._step]
                for number, header in enumerate(headers[:complete])
                if not header & _DISCARDED
            )
            end = begin + complete * self._step
        self._taken[0] = end
        return taken

    def close(self) -> None:
        """Let go of the memory."""
        for view in (self._data, self._written, self._taken):
            view.release()
