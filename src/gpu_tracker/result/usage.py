"""What a tracked run used: the documented result, in the units asked for.

Every value that could not be known is ``None``. Maxima are kept for each field by itself: the largest private RSS and
the largest total RSS may have been reached at different moments.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from gpu_tracker.bindings import make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from gpu_tracker.result.cuda_usage import CUDAUsage


@dataclass(frozen=True, slots=True)
class RSSValues:
    """Peak resident memory (RSS). The peaks may be from different times.

    :ivar total_rss: Resident memory. Pages shared inside the group count once.
    :ivar private_rss: Memory mapped by one process alone (Linux).
    :ivar shared_rss: Memory mapped by several processes, each page once (Linux).
    """

    total_rss: float | None
    private_rss: float | None
    shared_rss: float | None


@dataclass(frozen=True, slots=True)
class MaxRAM:
    """Peak RAM in ``unit``: ``system``, and :class:`RSSValues` of ``main``, ``descendants`` and ``combined``.

    ``system_capacity`` is the RAM of the machine.
    """

    unit: str
    system_capacity: float | None
    system: float | None
    main: RSSValues
    descendants: RSSValues
    combined: RSSValues


@dataclass(frozen=True, slots=True)
class MaxGPURAM:
    """Peak GPU RAM of all GPUs, in ``unit``; 0.0 without a GPU.

    It has ``system_capacity``, ``system``, ``main``, ``descendants`` and ``combined``.
    """

    unit: str
    system_capacity: float | None
    system: float | None
    main: float | None
    descendants: float | None
    combined: float | None


@dataclass(frozen=True, slots=True)
class ProcessingUnitPercentages:
    """Utilization of cores or GPUs. Two busy cores are 200 % as a sum.

    ``max_sum_percent`` and ``mean_sum_percent`` are the peak and the mean. Divided by the expected units they are
    ``max_hardware_percent`` and ``mean_hardware_percent``.
    """

    max_sum_percent: float | None
    max_hardware_percent: float | None
    mean_sum_percent: float | None
    mean_hardware_percent: float | None


@dataclass(frozen=True, slots=True)
class CPUUtilization:
    """:class:`ProcessingUnitPercentages` of ``system``, ``main``, ``descendants`` and ``combined``.

    :ivar system_core_count: Logical cores of the machine; 100 % of the hardware for ``system``.
    :ivar n_expected_cores: Cores that count as 100 % of the hardware for the others.
    :ivar main_n_threads: Most threads of main in one sample; also ``descendants_n_threads`` and ``combined_n_threads``.
    """

    system_core_count: int | None
    n_expected_cores: int | None
    system: ProcessingUnitPercentages
    main: ProcessingUnitPercentages
    descendants: ProcessingUnitPercentages
    combined: ProcessingUnitPercentages
    main_n_threads: int | None
    descendants_n_threads: int | None
    combined_n_threads: int | None


@dataclass(frozen=True, slots=True)
class GPUUtilization:
    """GPU utilization by all programs, not only yours.

    :ivar system_gpu_count: Number of GPUs of the machine.
    :ivar n_expected_gpus: Number of GPUs that ``gpu_percentages`` sums up.
    :ivar gpu_percentages: Utilization of these GPUs in percent; 0.0 without a GPU.
    """

    system_gpu_count: int | None
    n_expected_gpus: int | None
    gpu_percentages: ProcessingUnitPercentages


@dataclass(frozen=True, slots=True)
class GPUMemory:
    """Peak memory of one GPU: ``system``, ``main``, ``descendants``, ``combined``."""

    system: float | None
    main: float | None
    descendants: float | None
    combined: float | None


@dataclass(frozen=True, slots=True)
class GPUPercentages:
    """Share of time in which a kernel ran: ``max_percent`` and ``mean_percent``."""

    max_percent: float | None
    mean_percent: float | None


@dataclass(frozen=True, slots=True)
class GPUUse:
    """One GPU: ``index`` in PCI bus order of its vendor, from 0; ``vendor``, ``uuid`` and ``name``.

    :ivar unit: Unit of ``capacity`` and ``max_ram``.
    :ivar capacity: Memory of the GPU; None in MIG mode.
    :ivar max_ram: :class:`.GPUMemory`.
    :ivar utilization: :class:`.GPUPercentages` by all programs.
    :ivar own_utilization: :class:`.GPUPercentages` by the tracked processes. None in MIG mode, in containers with their
        own process IDs, and if the driver does not report it.
    :ivar others_used_it: Whether other processes used it. None: hidden processes may have.
    """

    index: int
    vendor: str
    uuid: str
    name: str | None
    unit: str
    capacity: float | None
    max_ram: GPUMemory
    utilization: GPUPercentages
    own_utilization: GPUPercentages
    others_used_it: bool | None


@dataclass(frozen=True, slots=True)
class ComputeTime:
    """Wall ``time`` from start to stop, in ``unit``."""

    unit: str
    time: float


@dataclass(frozen=True, slots=True)
class IOValues:
    """I/O of one or more processes. Peak rates are over half a second or more.

    :ivar read: Read from storage, without the page cache. ``max_read_per_second`` is its peak rate.
    :ivar written: Written to storage, counted when it enters the page cache. Peak rate: ``max_written_per_second``.
    :ivar cancelled: Part of ``written`` deleted before it reached storage (Linux).
    :ivar read_by_calls: Read by calls such as ``read(2)``, except sockets and mapped files. Peak rate:
        ``max_read_by_calls_per_second``.
    :ivar written_by_calls: Written by calls such as ``write(2)``. Peak rate: ``max_written_by_calls_per_second``.
    :ivar minor_page_faults: Page faults without storage access (Linux).
    :ivar major_page_faults: Page faults with storage access (Linux).
    :ivar voluntary_context_switches: How often threads waited. Known for commands and for a process that tracks itself.
    :ivar involuntary_context_switches: How often threads were moved off a core.
    """

    read: float | None
    written: float | None
    cancelled: float | None
    read_by_calls: float | None
    written_by_calls: float | None
    max_read_per_second: float | None
    max_written_per_second: float | None
    max_read_by_calls_per_second: float | None
    max_written_by_calls_per_second: float | None
    minor_page_faults: int | None
    major_page_faults: int | None
    voluntary_context_switches: int | None
    involuntary_context_switches: int | None


@dataclass(frozen=True, slots=True)
class IOUsage:
    """:class:`.IOValues` of ``main``, ``descendants`` and ``combined``. Sizes are in ``unit``, rates per second.

    ``combined`` includes children that no sample found, if a process waited for them.
    """

    unit: str
    main: IOValues
    descendants: IOValues
    combined: IOValues


@dataclass(frozen=True, slots=True)
class GPUEnergy:
    """``joules`` of one whole GPU, with its ``uuid``. None for runs below 1 s, for MIG devices and without a counter.

    :ivar others_used_it: Whether other processes used it. None: hidden processes may have.
    """

    uuid: str
    joules: float | None
    others_used_it: bool | None


@dataclass(frozen=True, slots=True)
class EnergyUsage:
    """Energy of the used devices in ``unit`` (joules). Nothing is estimated or divided between programs.

    :ivar gpu: All used GPUs; 0.0 without one.
    :ivar gpus: :class:`.GPUEnergy` of each.
    :ivar cpu_packages: All CPU packages, for all programs. Most systems let only root read it.
    """

    unit: str
    gpu: float | None
    gpus: tuple[GPUEnergy, ...]
    cpu_packages: float | None


@dataclass(frozen=True, slots=True)
class GPUActivity:
    """Activity inside one GPU, by its own counters and for all programs. A maximum is the highest mean of one second.

    ``index``, ``vendor`` and ``uuid`` are as in :class:`.GPUUse`.

    :ivar gpu_instance: MIG GPU instance; None: the whole GPU.
    :ivar sm_mean_percent: Busy multiprocessors (SMs); also ``sm_max_percent``.
    :ivar occupancy_mean_percent: Resident warps, of all that fit; also ``occupancy_max_percent``.
    :ivar tensor_mean_percent: Time with busy tensor cores; also ``tensor_max_percent``.
    :ivar dram_mean_percent: Used memory bandwidth; also ``dram_max_percent``.
    :ivar pcie_sent_mean_per_second: Sent over PCIe, in ``unit``; also ``pcie_received_mean_per_second``.
    :ivar nvlink_sent_mean_per_second: Sent over NVLink; also ``nvlink_received_mean_per_second``.
    :ivar problem: Why figures are unknown.
    """

    index: int
    vendor: str
    uuid: str
    gpu_instance: int | None
    unit: str
    sm_mean_percent: float | None
    sm_max_percent: float | None
    occupancy_mean_percent: float | None
    occupancy_max_percent: float | None
    tensor_mean_percent: float | None
    tensor_max_percent: float | None
    dram_mean_percent: float | None
    dram_max_percent: float | None
    pcie_sent_mean_per_second: float | None
    pcie_received_mean_per_second: float | None
    nvlink_sent_mean_per_second: float | None
    nvlink_received_mean_per_second: float | None
    problem: str | None


@dataclass(frozen=True, slots=True)
class ControlGroupUsage:
    """Limits of the control groups at the start, and processes killed for lack of memory (out of memory).

    Each limit is the lowest one visible. Without a limit, it is what the machine has.

    :ivar unit: Unit of ``memory_limit``.
    :ivar folder: Folder of the group.
    :ivar memory_limit: RAM that the group may use.
    :ivar cpu_limit: Cores that the quota allows, such as 1.5.
    :ivar allowed_cores: The smaller of ``cpu_limit`` and the cores of the affinity.
    :ivar oom_kills: Killed processes of the group, tracked or not.
    :ivar problem: A sentence about these kills.
    """

    unit: str
    folder: str | None
    memory_limit: float | None
    cpu_limit: float | None
    allowed_cores: float | None
    oom_kills: int | None
    problem: str | None


@dataclass(frozen=True, slots=True)
class JobIdentity:
    """The job and the rank of a process. Unknown fields are None.

    :ivar launcher: The innermost of ``slurm``, ``openmpi``, ``mpich``, ``flux``, ``pals``, ``torchrun``, ``ray``,
        ``kubernetes``, ``parallel`` and others.
    :ivar job: Job ID. ``array_task`` is the task of an array, ``array_size`` the number of tasks.
    :ivar step: Step of the job.
    :ivar rank: Rank in the step, of ``size`` ranks.
    :ivar local_rank: Rank on the node, of ``local_size`` ranks.
    :ivar node: Name of the node.
    :ivar attempt: Restarts before this attempt.
    """

    launcher: str
    job: str | None = None
    array_task: int | None = None
    array_size: int | None = None
    step: str | None = None
    rank: int | None = None
    size: int | None = None
    local_rank: int | None = None
    local_size: int | None = None
    node: str | None = None
    attempt: int | None = None


@dataclass(frozen=True, slots=True)
class OwnGroupUsage:
    """The kernel's figures of a command's own control group (``--cgroup``), daemons included.

    Sizes are in ``unit``.

    :ivar made_in: ``cgroup v2``, ``cgroup v1``, ``cgroup v1 and v2`` or ``systemd scope``; None: no group.
    :ivar memory_peak: Peak of charged memory, with page cache and kernel memory. It is not RSS.
    :ivar cpu_seconds: CPU time: ``user_cpu_seconds`` and ``system_cpu_seconds``.
    :ivar read: Read from storage.
    :ivar written: Written to storage by the end; None in version 1.
    :ivar max_tasks: Most threads at once.
    :ivar oom_kills: Processes killed for lack of memory.
    :ivar left_processes: Processes that outlived the command and were ended.
    :ivar problem: Why there is no group, or what is not counted.
    """

    unit: str
    made_in: str | None
    memory_peak: float | None
    cpu_seconds: float | None
    user_cpu_seconds: float | None
    system_cpu_seconds: float | None
    read: float | None
    written: float | None
    max_tasks: int | None
    oom_kills: int | None
    left_processes: int | None
    problem: str | None


@dataclass(frozen=True, slots=True)
class Advice:
    """One suggestion: its ``rule``, its ``text``, and its ``figures`` in bytes, seconds, percent and counts."""

    rule: str
    text: str
    figures: Mapping[str, float] = field(hash=False)


@dataclass(frozen=True, slots=True, repr=False)
class ResourceUsage:
    """The result of a run. ``str()`` returns the report as text.

    Optional fields are None or empty if they were not asked for, do not apply or are unknown. Reports omit them then.

    :ivar max_ram: :class:`MaxRAM`.
    :ivar max_gpu_ram: :class:`MaxGPURAM`.
    :ivar cpu_utilization: :class:`CPUUtilization`.
    :ivar gpu_utilization: :class:`GPUUtilization`.
    :ivar compute_time: :class:`ComputeTime`.
    :ivar gpus: Each GPU used, and each selected GPU left unused: :class:`.GPUUse`.
    :ivar cuda: :class:`.CUDAUsage`.
    :ivar io: :class:`.IOUsage`.
    :ivar energy: :class:`.EnergyUsage`.
    :ivar gpu_activity: :class:`.GPUActivity` of each used GPU.
    :ivar control_group: :class:`.ControlGroupUsage`, if its limits are below the machine's or a process was killed for
        lack of memory.
    :ivar job: :class:`~gpu_tracker.JobIdentity`.
    :ivar own_group: :class:`.OwnGroupUsage` (``--cgroup``).
    :ivar termination_reason: The limit that ended the command: ``time_limit``, ``cpu_limit``, ``memory_limit`` or
        ``gpu_memory_limit``. ``killed``: the run was killed or has no recorded end.
    :ivar exceeded_limits: Limits that the command exceeded just before it ended by itself.
    :ivar advice: Each :class:`.Advice`, most urgent first. Only the command line gives advice.
    :ivar lower_bounds: Paths of figures that may be too low, such as ``max_ram.combined.total_rss``.
    """

    max_ram: MaxRAM
    max_gpu_ram: MaxGPURAM
    cpu_utilization: CPUUtilization
    gpu_utilization: GPUUtilization
    compute_time: ComputeTime
    gpus: tuple[GPUUse, ...] | None = None
    cuda: CUDAUsage | None = None
    io: IOUsage | None = None
    energy: EnergyUsage | None = None
    gpu_activity: tuple[GPUActivity, ...] | None = None
    control_group: ControlGroupUsage | None = None
    job: JobIdentity | None = None
    own_group: OwnGroupUsage | None = None
    termination_reason: str | None = None
    exceeded_limits: tuple[str, ...] | None = None
    advice: tuple[Advice, ...] = ()
    lower_bounds: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the report as text."""
        text: str = make('usage as text', self)
        return text

    def __repr__(self) -> str:
        """Return the figures that people want to know first, in one line."""
        return f'<ResourceUsage {make("usage as line", self)}>'

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a dictionary for :func:`json.dumps`, with the names of the fields as keys."""
        return {
            name: _plain(value)
            for name, value in asdict(self).items()
            if value is not None and (value or name not in {'advice', 'lower_bounds'})
        }

    @staticmethod
    def from_dict(report: Mapping[str, Any]) -> ResourceUsage:
        """Return the result in a dictionary of :meth:`to_dict`.

        Missing figures are None, unknown keys are ignored.

        :raises ValueError: if ``report`` is no report.
        """
        usage: ResourceUsage = make('usage of dictionary', report)
        return usage

    @staticmethod
    def from_json(text: str | bytes) -> ResourceUsage:
        """Return the result in a JSON report, such as one of ``gpu-tracker -f json``.

        :raises ValueError: if ``text`` is no report.
        """
        usage: ResourceUsage = make('usage of JSON', text)
        return usage

    def _repr_html_(self) -> str:
        """Return the figures as a table, for notebooks."""
        html: str = make('usage as HTML', self)
        return html


def _plain(value: Any) -> Any:  # noqa: ANN401 - any field
    """Return a value as JSON knows it: with lists in the place of tuples."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, tuple) else value
