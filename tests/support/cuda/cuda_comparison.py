"""Compares what a probe has reported with what the programs know that they have called: the truth.

    assert_told_truly(probed('alloc a 1000; launch axpy default 1 1 1 256 1 1'))

Each side becomes the same plain figures, and what differs is told figure by figure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.cuda_probe.cuda_api import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpu_tracker.cuda_probe.cuda_report import CudaReport, KernelReport, ProcessReport
    from gpu_tracker.result.cuda_usage import CUDADevice
    from support.cuda.probed_program import Probed
    from support.cuda_stand_in import DeviceTruth, Truth

_PROBED = {
    name: function.name
    for function in FUNCTIONS
    for name in (function.symbol, function.name)
    if not name.startswith('__')
}
"""Each probed function, by all its names, and what a report calls it; it leaves out what compilers call."""
_IN_CPP = {
    'axpy': 'axpy(float, float*, float*)',
    'gemm': 'gemm(float const*, float const*, float*, int)',
    'reduce': 'void reduce<float>(float*, int)',
}


class Memory(NamedTuple):
    """Allocations and bytes; leaked: None while the process runs."""

    allocations: int
    frees: int
    allocated: int
    freed: int
    current: int
    maximum: int
    leaked: int | None


class Calls(NamedTuple):
    """What a process has done on a GPU, or on all."""

    launches: int
    threads: int
    synchronisations: int
    memory: Memory


class Figures(NamedTuple):
    """What a process has done."""

    pid: int
    ended: bool
    streams: int
    together: Calls
    devices: dict[int, Calls]
    kernels: dict[int, tuple[int, int]]
    """By address: launches, and their threads."""
    failures: dict[tuple[str, int], int]
    graphs: int
    host: tuple[int, int, int]
    """Of page-locked memory: allocations, bytes in use, the most of these."""


def assert_told_truly(seen: Probed) -> None:
    """Compare all processes of a program that has ended."""
    assert_agree(seen.report, seen.ran.processes)


def assert_agree(report: CudaReport, truths: Sequence[Truth]) -> None:
    """Compare what was told of processes with what they say themselves."""
    found = differences(report, truths)
    assert not found, '\n'.join(found)


def differences(report: CudaReport, truths: Sequence[Truth]) -> list[str]:
    """Return each figure that is not what the process says itself; processes without a call need not be told."""
    told = sorted((_told(process) for process in report.processes), key=lambda figures: figures.pid)
    true = [_true(truth) for truth in truths]
    if len(told) != len(true):
        true = [figures for figures in true if _has_called(figures)]
    if [figures.pid for figures in told] != [figures.pid for figures in true]:
        return [f'processes: told {[figures.pid for figures in told]}, true {[figures.pid for figures in true]}']
    return [line for pair in zip(told, true, strict=True) for line in _unlike(str(pair[0].pid), *pair)]


def _unlike(name: str, told: object, true: object) -> Iterator[str]:
    """Yield a line for each figure that differs."""
    if isinstance(told, dict) and isinstance(true, dict):
        for key in sorted({*told, *true}, key=str):
            yield from _unlike(f'{name} {key}', told.get(key), true.get(key))
    elif isinstance(told, tuple) and isinstance(true, tuple) and hasattr(told, '_fields'):
        for field, one, other in zip(told._fields, told, true, strict=True):
            yield from _unlike(f'{name} {field}', one, other)
    elif told != true:
        yield f'{name}: told {told}, true {true}'


def names_told(process: ProcessReport) -> dict[str, int]:
    """Return how often each kernel was launched, by the name that was told."""
    return {kernel.name: kernel.launches for kernel in process.kernels}


def names_true(truth: Truth) -> dict[str, int]:
    """Return the same, by the kernels' true names."""
    return {_IN_CPP.get(name, name): kernel.launches for name, kernel in truth.kernels.items()}


def _told(process: ProcessReport) -> Figures:
    return Figures(
        pid=process.pid,
        ended=process.ended,
        streams=process.streams,
        together=_calls_told(process),
        devices=_used({device.ordinal: _calls_told(device) for device in process.devices}),
        kernels={kernel.address: (kernel.launches, _threads(kernel)) for kernel in process.kernels},
        failures={(failure.function, failure.error): failure.count for failure in process.failures},
        graphs=process.graph_launches,
        host=(process.host_allocations, process.host_memory_current, process.host_memory_max),
    )


def _true(truth: Truth) -> Figures:
    ended = truth.end != 'waiting'
    failures: dict[tuple[str, int], int] = {}
    for (function, error), count in truth.failures.items():
        if function in _PROBED:
            key = _PROBED[function], error
            failures[key] = failures.get(key, 0) + count
    together = _calls_true(truth.all_devices, ended=ended)
    return Figures(
        pid=truth.pid,
        ended=ended,
        streams=truth.streams,
        together=together._replace(memory=together.memory._replace(maximum=truth.maximum)),
        devices=_used({number: _calls_true(device, ended=ended) for number, device in truth.devices.items()}),
        kernels={kernel.address: (kernel.launches, kernel.threads) for kernel in truth.kernels.values()},
        failures=failures,
        graphs=truth.all_devices.graphs,
        host=(truth.host_allocations, 0 if ended else truth.host_current, truth.host_maximum),
    )


def _used(devices: dict[int, Calls]) -> dict[int, Calls]:
    """Leave out the devices with no call that is told."""
    return {number: calls for number, calls in devices.items() if any((*calls[:-1], *calls.memory))}


def _has_called(figures: Figures) -> bool:
    return bool(figures.devices or figures.failures)


def _calls_told(told: ProcessReport | CUDADevice) -> Calls:
    return Calls(
        told.launches,
        _threads(told),
        told.synchronisations,
        Memory(
            told.allocations,
            told.frees,
            told.allocated,
            told.freed,
            told.memory_current,
            told.memory_max,
            told.memory_leaked,
        ),
    )


def _calls_true(true: DeviceTruth, *, ended: bool) -> Calls:
    """Return the true figures; what a process leaks is what it has at its end, and after it has nothing."""
    return Calls(
        true.launches,
        true.threads,
        true.synchronisations,
        Memory(
            true.allocations,
            true.frees,
            true.allocated,
            true.freed,
            0 if ended else true.current,
            true.maximum,
            true.current if ended else None,
        ),
    )


def _threads(told: ProcessReport | CUDADevice | KernelReport) -> int:
    """Return the threads of all launches together: only their mean is told."""
    return 0 if told.mean_threads is None else round(told.mean_threads * told.launches)
