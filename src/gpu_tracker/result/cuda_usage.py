"""The CUDA calls of a tracked run: a section of the result that is there where it was asked for.

Counts and bytes are exact from the first sample on, whatever the sampling interval. Times between launches and
synchronisations are not time on the GPU: work may have ended long before the program waited for it. A value that could
not be known is ``None``.

These classes are the one schema of CUDA's figures. The probe fills them with memory in bytes, :func:`base_units` makes
plain data of them, in which the names of memory end with ``_bytes``, and :func:`cuda_usage` makes them again of that,
with memory in another unit.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields

from gpu_tracker import units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    PlainData = Mapping[str, Any]
    """A section as the sampler stores it: the same fields in base units."""

_BYTES = '_bytes'
_MEMORY = {
    'allocated',
    'freed',
    'memory',
    'memory_current',
    'memory_max',
    'memory_leaked',
    'host_memory_current',
    'host_memory_max',
}
"""The fields that are amounts of memory."""


@dataclass(frozen=True, slots=True)
class CUDAFigures:
    """What a group of processes did, in the memory unit of the :class:`CUDAUsage` around it.

    :ivar processes: Programs that called CUDA; a process that becomes another program counts again.
    :ivar launches: Kernel launches that succeeded, those by CUDA graphs included.
    :ivar graph_launches: CUDA graphs that were launched.
    :ivar synchronisations: Calls that waited for a stream, a device or an event.
    :ivar synchronising_seconds: Time inside these calls, summed over all threads.
    :ivar launch_to_sync_seconds: Time between launches and the synchronisations that waited for them, summed over the
        processes; of one process each moment counts once.
    :ivar allocations: Allocations that succeeded.
    :ivar frees: Frees of what was seen allocated.
    :ivar allocated: All allocations together.
    :ivar freed: All frees together.
    :ivar memory_current: Allocated and not freed at the last reading, by processes that had not ended.
    :ivar memory_max: The most that was allocated and not freed at once: exact where one process used CUDA, else the
        most of all together at any reading, once a second, and not less than the most of any one of them.
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
    graph_launches: int | None = None


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
    allocated: float
    freed: float
    memory_current: float
    memory_max: float
    memory_leaked: float | None


@dataclass(frozen=True, slots=True)
class CUDAKernel:
    """The launches of one kernel by one program.

    :ivar name: As its source has it, or what is known of its address.
    :ivar file: The executable or library that holds it.
    :ivar launches: How often it was launched, by a call or by a CUDA graph.
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
    :ivar control_group: The control group that it is accounted to, as the kernel names it; None: not known.
    :ivar container: The ID of its container, where that group's name has one.
    :ivar ended: Whether it has ended.
    :ivar seconds: How long it was seen: from its first CUDA call to its end, or that of the tracking.
    :ivar launches: Kernel launches that succeeded, those by CUDA graphs included.
    :ivar graph_launches: CUDA graphs that it has launched.
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
    :ivar host_allocations: Allocations of page-locked memory of the host that succeeded.
    :ivar host_memory_current: Page-locked memory of the host that is allocated and not freed; 0 once it has ended.
    :ivar host_memory_max: The most of it at once.
    :ivar devices: By GPU.
    :ivar kernels_total: Different kernels that it has launched.
    :ivar kernels: Of these the ones that it launched most often, and those with the most time.
    :ivar failures: The failed calls, the most frequent first.
    """

    pid: int
    name: str
    command: str | None
    control_group: str | None = field(default=None, kw_only=True)
    container: str | None = field(default=None, kw_only=True)
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
    allocated: float
    freed: float
    memory_current: float
    memory_max: float
    memory_leaked: float | None
    host_allocations: int | None = field(default=None, kw_only=True)
    host_memory_current: float | None = field(default=None, kw_only=True)
    host_memory_max: float | None = field(default=None, kw_only=True)
    graph_launches: int | None = field(default=None, kw_only=True)
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
    :ivar engine: How the calls were seen: ``uprobe.session``, ``uprobe.multi`` or ``perf``.
    :ivar seconds: How long the calls were observed.
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


def cuda_usage(section: PlainData, unit: str) -> CUDAUsage:
    """Return the plain data of a section as the result's part, memory in ``unit``; {}: nothing is known yet.

    :param section: See :mod:`gpu_tracker.cuda_probe.section`.
    """

    def figures(group: str) -> CUDAFigures:
        found: CUDAFigures = _record(CUDAFigures, section.get(group, {}), unit)
        return found

    return CUDAUsage(
        problem=section.get('problem'),
        unit=unit,
        engine=section.get('engine'),
        seconds=section.get('seconds'),
        main=figures('main'),
        descendants=figures('descendants'),
        combined=figures('combined'),
        processes=tuple(_process(process, unit) for process in section.get('processes', ())),
        gpus=tuple(_record(CUDAGpu, gpu, unit) for gpu in section.get('gpus', ())),
        notes=tuple(section.get('notes', ())),
    )


def base_units(record: object, schema: type | None = None) -> dict[str, object]:
    """Return the fields of a record with memory in bytes as plain data, what is inside of them as it is.

    :param record: An instance of one of the classes above, or of a class with more fields.
    :param schema: The class whose fields are returned; None: the record's own.
    """
    return {
        f'{field.name}{_BYTES}' if field.name in _MEMORY else field.name: getattr(record, field.name)
        for field in fields(schema or type(record))
    }


def _process(process: PlainData, unit: str) -> CUDAProcess:
    parts = {
        name: tuple(_record(kind, part, unit) for part in process.get(name, ()))
        for name, kind in (('devices', CUDADevice), ('kernels', CUDAKernel), ('failures', CUDAFailure))
    }
    found: CUDAProcess = _record(CUDAProcess, {**process, **parts}, unit)
    return found


def _record(kind: Any, stored: PlainData, unit: str) -> Any:  # noqa: ANN401 - a class, and an instance of it
    """Return a record with memory converted; what another version has not stored is unknown."""
    known = {
        name.removesuffix(_BYTES): units.from_bytes(value, unit) if name.endswith(_BYTES) else value
        for name, value in stored.items()
    }
    return kind(
        **{one.name: known.get(one.name) for one in fields(kind) if one.name in known or one.default is MISSING}
    )
