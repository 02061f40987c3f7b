"""What the kernel has added up, read from its maps; and the room of programs that have ended, given back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.engine import layout
from gpu_tracker.cuda_probe.readings import DeviceTotals, FailureTotals, KernelTotals, ProcessTotals, Totals

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from gpu_tracker.cuda_probe.engine.kernel_map import KernelMap


def read_totals(maps: Mapping[str, KernelMap]) -> Totals:
    """Read all maps; each of its figures is as new as this call, and none of them is of one moment with another."""
    return Totals(
        processes=tuple(_process(key, value) for key, value in maps['processes'].items()),
        devices=tuple(_device(key, value) for key, value in maps['devices'].items()),
        kernels=tuple(_kernel(key, value) for key, value in maps['kernels'].items()),
        failures=tuple(_failure(key, value) for key, value in maps['failures'].items()),
        overflows=tuple(_count(maps['overflows'], place) for place in layout.Overflow),
    )


def forget(maps: Mapping[str, KernelMap], processes: Collection[int]) -> None:
    """Remove all that is kept of program runs that have ended."""

    def drop(name: str, process_of: Callable[[bytes], int]) -> None:
        gone = [key for key, _ in maps[name].items() if process_of(key) in processes]
        for key in gone:
            maps[name].remove(key)

    for name in ('kernels', 'streams', 'contexts', 'allocations'):
        drop(name, lambda key: int(layout.HANDLE.unpack(key)[1]))
    for name in ('devices', 'failures', 'processes'):
        drop(name, lambda key: int.from_bytes(key[:4], 'little'))


def _process(key: bytes, value: bytes) -> ProcessTotals:
    (number,) = layout.PROCESS_KEY.unpack(key)
    began, ended, streams, graphs, pid, parent, name = layout.PROCESS.unpack(value)
    return ProcessTotals(
        process=number,
        pid=pid,
        parent=parent,
        name=name.partition(b'\0')[0].decode('utf-8', 'replace'),
        began=began,
        ended=ended or None,
        streams=streams,
        graph_launches=graphs,
    )


def _device(key: bytes, value: bytes) -> DeviceTotals:
    process, device = layout.DEVICE_KEY.unpack(key)
    return DeviceTotals(process, None if device == layout.ALL_DEVICES else device, *layout.DEVICE.unpack(value)[:-1])


def _kernel(key: bytes, value: bytes) -> KernelTotals:
    address, process = layout.HANDLE.unpack(key)
    return KernelTotals(process, address, *layout.KERNEL.unpack(value))


def _failure(key: bytes, value: bytes) -> FailureTotals:
    return FailureTotals(*layout.FAILURE_KEY.unpack(key), *layout.COUNT.unpack(value))


def _count(overflows: KernelMap, place: layout.Overflow) -> int:
    value = overflows.get(layout.INDEX.pack(place))
    return 0 if value is None else int(layout.COUNT.unpack(value)[0])
