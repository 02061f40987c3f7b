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
    """CUDA calls of several programs together. :class:`CUDAProcess` explains the other fields.

    :ivar processes: Number of programs that called CUDA.
    :ivar memory_max: Peak of allocated GPU memory. For several programs, the peak of their sum, measured once a second.
    :ivar failed_calls: Number of calls that returned an error.
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
    """CUDA calls of one program on one GPU. :class:`CUDAProcess` explains the other fields.

    :ivar ordinal: Number of the GPU inside the program (CUDA device ordinal), or None if unknown.
    :ivar uuid: UUID of the GPU, or None if unknown.
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
    """One CUDA kernel: ``name`` in the source code, binary ``file`` and number of ``launches``.

    :ivar mean_threads: Mean number of GPU threads per launch.
    :ivar span_seconds: Estimated part of ``launch_to_sync_seconds`` that this CUDA kernel caused.
    """

    name: str
    file: str | None
    launches: int
    mean_threads: float | None
    span_seconds: float | None


@dataclass(frozen=True, slots=True)
class CUDAFailure:
    """Failed calls of one ``function`` with the same ``error`` number (``error_name``).

    ``count`` is the number of calls.
    """

    function: str
    error: int
    error_name: str
    count: int


@dataclass(frozen=True, slots=True)
class CUDAProcess:
    """CUDA calls of one program (``pid``, ``name``, ``command``, ``control_group``, ``container``).

    :ivar ended: Whether the program has ended.
    :ivar seconds: Seconds from the program's first CUDA call to the program's end.
    :ivar launches: Number of successful kernel launches, including kernels in CUDA graphs (rate:
        ``launches_per_second``).
    :ivar graph_launches: Number of launches of CUDA graphs.
    :ivar active_percent: ``launch_to_sync_seconds`` divided by ``seconds``, in percent.
    :ivar used_cores: Upper limit for the mean number of CUDA cores in use.
    :ivar mean_threads: Mean number of GPU threads per kernel launch.
    :ivar streams: Number of CUDA streams used for launches.
    :ivar synchronisations: Number of calls that waited for a CUDA stream, a device or a CUDA event.
    :ivar synchronising_seconds: Total seconds that all threads spent in synchronisation calls.
    :ivar copies: Number of successful blocking memory copies.
    :ivar launch_to_sync_seconds: Total time from each launch until a later call has waited for the launched work.
        Overlapping time counts once. The GPU may have finished the work earlier.
    :ivar allocations: Number of successful allocations of GPU memory (total size: ``allocated``).
    :ivar frees: How often GPU memory counted in ``allocations`` was freed (total size: ``freed``).
    :ivar memory_current: GPU memory that is allocated now (peak: ``memory_max``), or 0 after the program's end.
    :ivar memory_leaked: GPU memory that was not freed before the program's end, or None while the program runs.
    :ivar host_allocations: Number of allocations of page-locked RAM (size now: ``host_memory_current``, peak:
        ``host_memory_max``).
    :ivar devices: CUDA calls on each GPU (:class:`.CUDADevice`).
    :ivar kernels: CUDA kernels with the most launches or time (:class:`.CUDAKernel`). ``kernels_total`` counts all CUDA
        kernels.
    :ivar failures: Failed calls, grouped by function and error, most frequent first (:class:`.CUDAFailure`).
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
    """A GPU: ``uuid``, ``vendor``, ``model``, ``driver``, MIG profile (``mig``), number of ``cores``, ``memory``."""

    uuid: str
    vendor: str
    model: str | None
    driver: str | None
    mig: str | None
    cores: int | None
    memory: float | None


@dataclass(frozen=True, slots=True)
class CUDAUsage:
    """CUDA calls of ``main``, ``descendants`` and ``combined`` (:class:`.CUDAFigures`). Memory is in ``unit``.

    :ivar problem: Reason why figures are missing or tracing stopped early.
    :ivar engine: Linux interface that traced the calls: ``uprobe.session``, ``uprobe.multi`` or ``perf``.
    :ivar seconds: How many seconds CUDA calls were traced.
    :ivar processes: Programs that called CUDA, sorted by their first call (:class:`.CUDAProcess`).
    :ivar gpus: GPUs that CUDA programs used (:class:`.CUDAGpu`).
    :ivar notes: Sentences about missing or inexact figures.
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
