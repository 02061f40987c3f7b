"""What a probe has seen, in plain data: bytes, seconds, percent; None is what is not known."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KernelVariant:
    """A kernel as it was compiled for one generation of GPUs.

    :ivar sm: The SM version: 90 is compute capability 9.0.
    :ivar feature: What follows it: ``a`` in sm_90a, ``f`` in sm_100f, mostly nothing.
    :ivar registers: Registers of a thread.
    :ivar code_size_bytes: Bytes of its machine code.
    :ivar static_shared_bytes: Bytes of shared memory of a block that are fixed when it is compiled.
    :ivar constant_bytes: Bytes of constant memory, its parameters included.
    """

    sm: int
    feature: str
    registers: int | None
    code_size_bytes: int | None
    static_shared_bytes: int | None
    constant_bytes: int | None


@dataclass(frozen=True, slots=True)
class KernelReport:
    """The launches of one kernel by one process.

    :ivar name: As its source has it, or what is known of its address.
    :ivar symbol: Its mangled name.
    :ivar file: The executable or library that holds it.
    :ivar launches: How often it was launched.
    :ivar mean_threads: The threads of a launch, on average.
    :ivar span_seconds: Its part of the time between launches and synchronisations: that of each span is shared among
        the span's kernels by their launches.
    :ivar variants: As it was compiled, by SM version; empty where its file is not readable.
    """

    name: str
    symbol: str | None
    file: str | None
    address: int
    launches: int
    mean_threads: float | None
    span_seconds: float | None
    variants: tuple[KernelVariant, ...] = ()


@dataclass(frozen=True, slots=True)
class FailureReport:
    """Failed calls of one function with one error.

    :ivar function: The function's name.
    :ivar error: The number of the CUDA error.
    :ivar error_name: Its name in CUDA's headers.
    :ivar count: How often.
    """

    function: str
    error: int
    error_name: str
    count: int


@dataclass(frozen=True, slots=True)
class DeviceTags:
    """A GPU of this machine.

    :ivar uuid: Its UUID.
    :ivar vendor: ``nvidia``.
    :ivar model: The product's name.
    :ivar driver: The version of the driver.
    :ivar mig: The MIG profile; None: not a MIG device.
    :ivar cores: Its CUDA cores.
    :ivar memory_bytes: Bytes of its memory.
    """

    uuid: str
    vendor: str
    model: str | None
    driver: str | None
    mig: str | None
    cores: int | None
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """What one process did on one GPU; the fields are those of :class:`ProcessReport`.

    :ivar ordinal: The process' own number of the GPU, as cudaSetDevice counts; None: it is not known to which of its
        GPUs these calls went, because threads have chosen theirs unseen.
    :ivar uuid: Which GPU of the machine that was; None where it cannot be told.
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
    allocated_bytes: int
    freed_bytes: int
    memory_current_bytes: int
    memory_max_bytes: int
    memory_leaked_bytes: int | None


@dataclass(frozen=True, slots=True)
class ProcessReport:
    """What one program run did with CUDA while it was probed.

    :ivar pid: Its process ID.
    :ivar run: Its own number in all reports of one probe: a process that becomes another program has another one then.
    :ivar name: The kernel's name of it.
    :ivar command: Its command line, where it could be read.
    :ivar ended: Whether it has ended.
    :ivar seconds: How long it was seen: from the first CUDA call that was, to its end, or now.
    :ivar launches: Kernel launches that succeeded.
    :ivar launches_per_second: The same by these seconds; None where they are 0.
    :ivar active_percent: The part of these seconds in which launched work waited for a synchronisation.
    :ivar used_cores: CUDA cores that such work could fill at most, on average over these seconds.
    :ivar mean_threads: The threads of a launch, on average.
    :ivar streams: Streams to which it has launched.
    :ivar synchronisations: Calls that waited for a stream, a device or an event.
    :ivar synchronising_seconds: Time inside these calls, over all threads together.
    :ivar copies: Blocking copies that succeeded.
    :ivar launch_to_sync_seconds: Time between launches and the synchronisations that waited for them, each moment once.
    :ivar allocations: Allocations that succeeded.
    :ivar frees: Frees of what was seen allocated.
    :ivar allocated_bytes: All allocations together.
    :ivar freed_bytes: All frees together.
    :ivar memory_current_bytes: Allocated and not freed; 0 once it has ended.
    :ivar memory_max_bytes: The most of it at once, on all GPUs together.
    :ivar memory_leaked_bytes: What it had not freed at its end; None while it runs.
    :ivar devices: By GPU.
    :ivar kernels_total: Different kernels that it has launched.
    :ivar kernels: By kernel, the most launched first; of many those with the most launches and those with the most
        time, see ``kernels_told`` in :class:`gpu_tracker.cuda_probe.limits.Limits`.
    :ivar failures: Failed calls, the most frequent first.
    """

    pid: int
    run: int
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
    allocated_bytes: int
    freed_bytes: int
    memory_current_bytes: int
    memory_max_bytes: int
    memory_leaked_bytes: int | None
    kernels_total: int
    devices: tuple[DeviceReport, ...] = ()
    kernels: tuple[KernelReport, ...] = ()
    failures: tuple[FailureReport, ...] = ()


@dataclass(frozen=True, slots=True)
class CudaReport:
    """All that a probe has seen.

    :ivar seconds: How long it has looked.
    :ivar engine: How it was attached: ``uprobe.multi`` or ``perf``.
    :ivar processes: By program run, in the order of their first CUDA calls.
    :ivar devices: The GPUs of this machine.
    :ivar events: Events of which times and spans were made.
    :ivar events_lost: Events that found no room: times and spans lack them. Counts and bytes do not.
    :ivar notes: What is missing or inexact, a sentence each.
    """

    seconds: float
    engine: str
    processes: tuple[ProcessReport, ...]
    devices: tuple[DeviceTags, ...]
    events: int
    events_lost: int
    notes: tuple[str, ...] = ()
