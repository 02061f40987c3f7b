"""What a tracked run did with CUDA: a section of the result that is there where it was asked for.

Counts and bytes are exact from the first sample on, whatever the sampling interval. Times between launches and
synchronisations are not time on the GPU: work may have ended long before the program waited for it. A value that could
not be known is ``None``.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpu_tracker import units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Told = Mapping[str, Any]
    """What the probe tells: the same fields in base units, those of memory with ``_bytes`` at the end of the name."""

_BYTES = '_bytes'


@dataclass(frozen=True, slots=True)
class CUDAFigures:
    """What a group of processes did, in the memory unit of the :class:`CUDAUsage` around it.

    :ivar processes: Programs that called CUDA; a process that becomes another program counts again.
    :ivar launches: Kernel launches that succeeded.
    :ivar synchronisations: Calls that waited for a stream, a device or an event.
    :ivar synchronising_seconds: Time inside these calls, summed over all threads.
    :ivar launch_to_sync_seconds: Time between launches and the synchronisations that waited for them, summed over the
        processes; of one process each moment counts once.
    :ivar allocations: Allocations that succeeded.
    :ivar frees: Frees of what was seen allocated.
    :ivar allocated: All allocations together.
    :ivar freed: All frees together.
    :ivar memory_current: Allocated and not freed when it was last looked, by processes that had not ended.
    :ivar memory_max: The most that was allocated and not freed at once: exact where one process used CUDA, else the
        most of all together when it was looked, once a second, and not less than the most of any one of them.
    :ivar memory_leaked: What processes had not freed when they ended; None while one of them runs.
    :ivar failed_calls: Calls that returned an error.
    """

    processes: int | None = None
    launches: int | None = None
    synchronisations: int | None = None
    synchronising_seconds: float | None = None
    launch_to_sync_seconds: float | None = None
    allocations: int | None = None
    frees: int | None = None
    allocated: float | None = None
    freed: float | None = None
    memory_current: float | None = None
    memory_max: float | None = None
    memory_leaked: float | None = None
    failed_calls: int | None = None


@dataclass(frozen=True, slots=True)
class CUDADevice:
    """What one program did on one GPU; fields that :class:`CUDAProcess` has too mean the same.

    :ivar ordinal: The program's own number of the GPU, as cudaSetDevice counts; None: it is not known to which of its
        GPUs these calls went.
    :ivar uuid: Which GPU of the machine that was.
    """

    ordinal: int | None
    uuid: str | None
    launches: int
    launches_per_second: float | None
    active_percent: float | None
    used_cores: float | None
    mean_threads: float | None
    synchronisations: int
    synchronising_seconds: float
    copies: int
    launch_to_sync_seconds: float | None
    allocations: int
    frees: int
    allocated: float | None
    freed: float | None
    memory_current: float | None
    memory_max: float | None
    memory_leaked: float | None


@dataclass(frozen=True, slots=True)
class CUDAKernel:
    """The launches of one kernel by one program.

    :ivar name: As its source has it, or what is known of its address.
    :ivar file: The executable or library that holds it.
    :ivar launches: How often it was launched.
    :ivar mean_threads: The threads of a launch, on average.
    :ivar span_seconds: Its part of the time between launches and synchronisations.
    """

    name: str
    file: str | None
    launches: int
    mean_threads: float | None
    span_seconds: float | None


@dataclass(frozen=True, slots=True)
class CUDAFailure:
    """Failed calls of one function with one error.

    :ivar function: The function's name, such as ``cudaMalloc``.
    :ivar error: The number of the error.
    :ivar error_name: Its name in CUDA's headers.
    :ivar count: How often.
    """

    function: str
    error: int
    error_name: str
    count: int


@dataclass(frozen=True, slots=True)
class CUDAProcess:
    """What one program did, in the memory unit of the :class:`CUDAUsage` around it.

    :ivar pid: Its process ID.
    :ivar name: The kernel's name of it.
    :ivar command: Its command line.
    :ivar ended: Whether it has ended.
    :ivar seconds: How long it was seen: from its first CUDA call to its end, or that of the tracking.
    :ivar launches: Kernel launches that succeeded.
    :ivar launches_per_second: The same by these seconds; None where they are 0.
    :ivar active_percent: The part of these seconds in which launched work waited for a synchronisation.
    :ivar used_cores: CUDA cores that such work could fill at most, on average over these seconds.
    :ivar mean_threads: The threads of a launch, on average.
    :ivar streams: Streams to which it has launched.
    :ivar synchronisations: Calls that waited for a stream, a device or an event.
    :ivar synchronising_seconds: Time inside these calls, summed over all threads.
    :ivar copies: Blocking copies that succeeded.
    :ivar launch_to_sync_seconds: Time between launches and the synchronisations that waited for them, each moment once.
    :ivar allocations: Allocations that succeeded.
    :ivar frees: Frees of what was seen allocated.
    :ivar allocated: All allocations together.
    :ivar freed: All frees together.
    :ivar memory_current: Allocated and not freed; 0 once it has ended.
    :ivar memory_max: The most of it at once.
    :ivar memory_leaked: What it had not freed at its end; None while it runs.
    :ivar devices: By GPU.
    :ivar kernels_total: Different kernels that it has launched.
    :ivar kernels: Of these the ones that it launched most often, and those with the most time.
    :ivar failures: The failed calls, the most frequent first.
    """

    pid: int
    name: str
    command: str | None
    ended: bool
    seconds: float
    launches: int
    launches_per_second: float | None
    active_percent: float | None
    used_cores: float | None
    mean_threads: float | None
    streams: int
    synchronisations: int
    synchronising_seconds: float
    copies: int
    launch_to_sync_seconds: float | None
    allocations: int
    frees: int
    allocated: float | None
    freed: float | None
    memory_current: float | None
    memory_max: float | None
    memory_leaked: float | None
    kernels_total: int
    devices: tuple[CUDADevice, ...]
    kernels: tuple[CUDAKernel, ...]
    failures: tuple[CUDAFailure, ...]


@dataclass(frozen=True, slots=True)
class CUDAGpu:
    """A GPU on which the processes called CUDA.

    :ivar uuid: Its UUID.
    :ivar vendor: ``nvidia``.
    :ivar model: The product's name.
    :ivar driver: The version of the driver.
    :ivar mig: The MIG profile; None: not a MIG device.
    :ivar cores: Its CUDA cores.
    :ivar memory: Its memory.
    """

    uuid: str
    vendor: str
    model: str | None
    driver: str | None
    mig: str | None
    cores: int | None
    memory: float | None


@dataclass(frozen=True, slots=True)
class CUDAUsage:
    """What a tracked run did with CUDA.

    :ivar problem: Why there are no figures, or why they end early, in a sentence; None: nothing is wrong.
    :ivar unit: The unit of all memory here: that of the GPU RAM.
    :ivar engine: How the calls were seen: ``uprobe.multi`` or ``perf``.
    :ivar seconds: How long the calls were looked at.
    :ivar main: The tracked process itself.
    :ivar descendants: All processes that it started, directly or not.
    :ivar combined: The tracked process and its descendants together.
    :ivar processes: By program, in the order of their first CUDA calls.
    :ivar gpus: The GPUs that they used, as far as it is known which these were.
    :ivar notes: What is missing or inexact, a sentence each.
    """

    problem: str | None
    unit: str
    engine: str | None
    seconds: float | None
    main: CUDAFigures
    descendants: CUDAFigures
    combined: CUDAFigures
    processes: tuple[CUDAProcess, ...] = ()
    gpus: tuple[CUDAGpu, ...] = ()
    notes: tuple[str, ...] = ()


def cuda_usage(told: Told, unit: str) -> CUDAUsage:
    """Return what a probe tells, see :mod:`gpu_tracker.cuda_probe.section`, memory in ``unit``; {}: nothing yet."""

    def figures(group: str) -> CUDAFigures:
        return CUDAFigures(**_in_unit(told.get(group, {}), unit))

    return CUDAUsage(
        problem=told.get('problem'),
        unit=unit,
        engine=told.get('engine'),
        seconds=told.get('seconds'),
        main=figures('main'),
        descendants=figures('descendants'),
        combined=figures('combined'),
        processes=tuple(_process(process, unit) for process in told.get('processes', ())),
        gpus=tuple(CUDAGpu(**_in_unit(gpu, unit)) for gpu in told.get('gpus', ())),
        notes=tuple(told.get('notes', ())),
    )


def _process(told: Told, unit: str) -> CUDAProcess:
    return CUDAProcess(
        **_in_unit(told, unit)
        | {
            'devices': tuple(CUDADevice(**_in_unit(device, unit)) for device in told['devices']),
            'kernels': tuple(CUDAKernel(**kernel) for kernel in told['kernels']),
            'failures': tuple(CUDAFailure(**failure) for failure in told['failures']),
        }
    )


def _in_unit(told: Told, unit: str) -> dict[str, Any]:
    """Return the fields with memory converted, and without the unit in their names."""
    return {
        name.removesuffix(_BYTES): units.from_bytes(value, unit) if name.endswith(_BYTES) else value
        for name, value in told.items()
    }
