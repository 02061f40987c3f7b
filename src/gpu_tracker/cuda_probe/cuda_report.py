"""A probe's report, made of totals, times and what is known of programs; and its JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.cuda_probe.cuda_api import FUNCTIONS, error_name
from gpu_tracker.cuda_probe.devices.control_groups import container_of
from gpu_tracker.cuda_probe.kernel_data import UNKNOWN_DEVICE
from gpu_tracker.result.cuda_usage import CUDADevice, CUDAFailure, CUDAGpu, CUDAKernel, CUDAProcess, base_units

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from gpu_tracker.cuda_probe.collecting import RunTotals
    from gpu_tracker.cuda_probe.devices.host_gpus import HostGpus
    from gpu_tracker.cuda_probe.kernel_data import DeviceTotals, KernelTotals
    from gpu_tracker.cuda_probe.model.window import DeviceRun, ProcessRun
    from gpu_tracker.cuda_probe.program_runs import ProgramRun

_IDENTITY = ('pid', 'run', 'name', 'symbol', 'file', 'address')
"""What comes first in the JSON of a process, and of a kernel."""


@dataclass(frozen=True, slots=True)
class KernelVariant:
    """A kernel as compiled for one generation of GPUs.

    :ivar sm: SM version as a number: 90 means compute capability 9.0.
    :ivar feature: Suffix of the SM version, such as ``a`` in sm_90a. Usually empty.
    :ivar registers: Number of registers per thread.
    :ivar code_size_bytes: Size of the machine code.
    :ivar static_shared_bytes: Static shared memory per block.
    :ivar constant_bytes: Constant memory of the kernel, including kernel parameters.
    """

    sm: int
    feature: str
    registers: int | None
    code_size_bytes: int | None
    static_shared_bytes: int | None
    constant_bytes: int | None


@dataclass(frozen=True, slots=True)
class KernelReport(CUDAKernel):
    """The launches of one kernel by one process, and the compiled variants of the kernel.

    :ivar symbol: Mangled name of the kernel.
    :ivar address: Address of the kernel's host function, or CUDA's handle of the kernel.
    :ivar variants: The kernel as compiled for each SM version. The list is empty if the program
        file is unreadable or has only PTX.
    """

    symbol: str | None
    address: int
    variants: tuple[KernelVariant, ...] = ()


@dataclass(frozen=True, slots=True)
class ProcessReport(CUDAProcess):
    """The CUDA calls of one program. If a process executes another program, each program has a report.

    :ivar run: Number that identifies this program run in all reports of one probe.
    :ivar kernels: Kernels with the most launches or time, most launched first. The limit ``kernels_told`` in
        :class:`gpu_tracker.cuda_probe.limits.Limits` sets the number of kernels.
    """

    run: int
    kernels: tuple[KernelReport, ...]


@dataclass(frozen=True, slots=True)
class CudaReport:
    """The report of a probe.

    :ivar seconds: Time during which the probe counted calls.
    :ivar engine: The Linux probe interface in use: ``uprobe.session``, ``uprobe.multi`` or ``perf``.
    :ivar processes: Programs that called CUDA, in the order of their first CUDA calls.
    :ivar devices: GPUs of this machine.
    :ivar events: Number of calls whose times are known. Durations are computed from these times.
    :ivar events_lost: Number of calls without times because the event buffer was full. Counts and bytes in the report
        include these calls.
    :ivar notes: Sentences that name missing or inexact figures.
    """

    seconds: float
    engine: str
    processes: tuple[ProcessReport, ...]
    devices: tuple[CUDAGpu, ...]
    events: int
    events_lost: int
    notes: tuple[str, ...] = ()


def report_json(report: CudaReport, *, indent: int | None = 2) -> str:
    """Return a JSON object, without a line break at its end; with an ``indent`` of None it is one line.

    Its keys are the fields of the report, those of memory with ``_bytes`` at their end; values are unrounded, and null
    is what is not known.
    """
    return json.dumps(report, default=_plain, indent=indent)


def problem_json(problem: str, *, indent: int | None = 2) -> str:
    """Return what replaces a report where nothing could be probed: an object with one key, ``problem``."""
    return json.dumps({'problem': problem}, indent=indent)


def _plain(record: object) -> dict[str, object]:
    found = base_units(record)
    return {name: found[name] for name in _IDENTITY if name in found} | found


_NANOSECONDS = 1e9
_ADDED = (
    'launches',
    'synchronisations',
    'synchronising_seconds',
    'copies',
    'allocations',
    'frees',
    'allocated',
    'freed',
)
"""The figures of a process that are the sums of its GPUs'."""
_NOT_LISTED = 'Kernels not listed one by one: {:,}, beyond the limit "kernels_told". Their launches are counted.'


class RunRecord(NamedTuple):
    """All that is known of one program run."""

    totals: RunTotals
    times: ProcessRun | None
    """Its spans; None: no event of it was taken."""
    program: ProgramRun | None
    """What else is known of it; None: it ended too soon."""


def process_report(record: RunRecord, now: int, kernels_told: int) -> ProcessReport:
    """Return what one program run did, as of ``now`` in nanoseconds of the monotonic clock."""
    run, times, program = record
    process = run.process
    nanoseconds = max((process.ended or now) - process.began, 0)
    devices = [
        _device_report(totals, times.devices.get(number) if times else None, record, nanoseconds)
        for number, totals in run.devices.items()
    ]
    launches = sum(device.launches for device in devices)
    in_use = run.together.in_use if run.together else 0
    has_ended = process.ended is not None
    return ProcessReport(
        pid=process.pid,
        run=process.process,
        name=process.name,
        command=None if program is None else program.command,
        control_group=None if program is None else program.control_group,
        container=None if program is None or program.control_group is None else container_of(program.control_group),
        ended=has_ended,
        seconds=nanoseconds / _NANOSECONDS,
        **{name: sum(getattr(device, name) for device in devices) for name in _ADDED},
        **_times(launches, times, nanoseconds),
        used_cores=_used_cores_of_all(devices),
        mean_threads=_mean(sum(totals.threads for totals in run.devices.values()), launches),
        streams=process.streams,
        memory_current=0 if has_ended else in_use,
        memory_max=run.together.peak if run.together else 0,
        memory_leaked=in_use if has_ended else None,
        host_allocations=run.host.allocations if run.host else 0,
        host_memory_current=run.host.in_use if run.host and not has_ended else 0,
        host_memory_max=run.host.peak if run.host else 0,
        graph_launches=process.graph_launches,
        kernels_total=len(run.kernels),
        devices=tuple(devices),
        kernels=tuple(_kernel_report(kernel, record) for kernel in reported_kernels(record, kernels_told)),
        failures=_failures(run),
    )


def known_gpus(host: HostGpus) -> tuple[CUDAGpu, ...]:
    """Return the GPUs of this machine that can be named."""
    return tuple(
        CUDAGpu(gpu.uuid, gpu.vendor, gpu.model, gpu.driver, gpu.mig, gpu.cores, gpu.memory)
        for gpu in host.physical
        if gpu.uuid is not None
    )


def _device_report(totals: DeviceTotals, times: DeviceRun | None, record: RunRecord, nanoseconds: int) -> CUDADevice:
    ordinal = UNKNOWN_DEVICE if totals.device is None else totals.device
    has_ended = record.totals.process.ended is not None
    gpu = None if record.program is None else record.program.gpu_of(ordinal)
    return CUDADevice(
        ordinal=None if ordinal == UNKNOWN_DEVICE else ordinal,
        uuid=None if gpu is None else gpu.uuid,
        launches=totals.launches,
        **_times(totals.launches, times, nanoseconds),
        used_cores=_used_cores(times, nanoseconds) if times else None,
        mean_threads=_mean(totals.threads, totals.launches),
        synchronisations=totals.synchronisations,
        synchronising_seconds=totals.synchronising / _NANOSECONDS,
        copies=totals.copies,
        allocations=totals.allocations,
        frees=totals.frees,
        allocated=totals.allocated,
        freed=totals.freed,
        memory_current=0 if has_ended else totals.in_use,
        memory_max=totals.peak,
        memory_leaked=totals.in_use if has_ended else None,
    )


def reported_kernels(record: RunRecord, most: int) -> list[KernelTotals]:
    """Return the kernels that a report names, the most launched first: so many of these, and so many with most time."""
    times = record.times.kernels if record.times else {}
    by_launches = sorted(record.totals.kernels, key=lambda kernel: kernel.launches, reverse=True)
    by_time = sorted(record.totals.kernels, key=lambda kernel: times.get(kernel.address, 0), reverse=True)
    listed = {kernel.address: kernel for kernel in (*by_launches[:most], *by_time[:most])}
    return [kernel for kernel in by_launches if kernel.address in listed]


def omission_notes(processes: Iterable[ProcessReport]) -> tuple[str, ...]:
    """Return a note on kernels that are in no list; nothing where all are."""
    left_out = sum(process.kernels_total - len(process.kernels) for process in processes)
    return (_NOT_LISTED.format(left_out),) if left_out else ()


def _kernel_report(totals: KernelTotals, record: RunRecord) -> KernelReport:
    nanoseconds = record.times.kernels.get(totals.address) if record.times else None
    known = None if record.program is None else record.program.kernel(totals.address)
    variants = known.kernel.variants if known is not None and known.kernel is not None else ()
    return KernelReport(
        name=f'{totals.address:#x}' if known is None else known.name,
        symbol=None if known is None else known.symbol,
        file=None if known is None else known.file,
        address=totals.address,
        launches=totals.launches,
        mean_threads=_mean(totals.threads, totals.launches),
        span_seconds=None if nanoseconds is None else nanoseconds / _NANOSECONDS,
        variants=tuple(
            KernelVariant(one.sm, one.feature, one.registers, one.code_size, one.static_shared, one.constant)
            for one in variants
        ),
    )


def _failures(run: RunTotals) -> tuple[CUDAFailure, ...]:
    """Return the failed calls, those through a function's other names together."""
    counts: dict[tuple[str, int], int] = {}
    for failure in run.failures:
        key = FUNCTIONS[failure.function].name, failure.error
        if key[0].startswith('__'):
            continue  # what compilers call ahead of a launch, which then fails itself
        counts[key] = counts.get(key, 0) + failure.times
    by_count = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(CUDAFailure(function, error, error_name(error), count) for (function, error), count in by_count)


def _used_cores(times: DeviceRun, nanoseconds: int) -> float | None:
    """Return the average over a run's time; windows in which they were not known count as the others do."""
    cores = times.used_cores_normalised
    if not cores.nanoseconds or not nanoseconds:
        return None
    return cores.core_nanoseconds * times.seen / cores.nanoseconds / nanoseconds


def _used_cores_of_all(devices: Iterable[CUDADevice]) -> float | None:
    """Return the used cores of all GPUs; not known where those of one that was launched to are not."""
    used = [device.used_cores for device in devices if device.launches or device.used_cores is not None]
    known = [cores for cores in used if cores is not None]
    return sum(known) if known and len(known) == len(used) else None


def _times(launches: int, times: DeviceRun | ProcessRun | None, nanoseconds: int) -> dict[str, Any]:
    """Return the figures of a process, or of it on one GPU, that are rates and times."""
    busy = times.busy if times else None
    return {
        'launches_per_second': launches * _NANOSECONDS / nanoseconds if nanoseconds else None,
        'active_percent': None if busy is None or not nanoseconds else min(100.0 * busy / nanoseconds, 100.0),
        'launch_to_sync_seconds': None if busy is None else busy / _NANOSECONDS,
    }


def _mean(total: int, count: int) -> float | None:
    return total / count if count else None
