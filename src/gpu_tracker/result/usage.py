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
    """Peak resident memory (RSS). Each field has its peak at its own time.

    :ivar total_rss: All resident memory. A page that several processes share counts once.
    :ivar private_rss: Memory that only one process has mapped. None except on Linux.
    :ivar shared_rss: Memory that several processes have mapped, counted once. None except on Linux.
    """

    total_rss: float | None
    private_rss: float | None
    shared_rss: float | None


@dataclass(frozen=True, slots=True)
class MaxRAM:
    """Peak RAM in ``unit``: :class:`RSSValues` of ``main``, ``descendants`` and ``combined``.

    ``system`` is the peak RAM of all programs. ``system_capacity`` is the RAM of the machine.
    """

    unit: str
    system_capacity: float | None
    system: float | None
    main: RSSValues
    descendants: RSSValues
    combined: RSSValues


@dataclass(frozen=True, slots=True)
class MaxGPURAM:
    """Peak GPU RAM of all GPUs together, in ``unit``; 0.0 without a GPU.

    ``system`` is the peak of all programs, and ``system_capacity`` the memory of all GPUs. The others are ``main``,
    ``descendants`` and ``combined``.
    """

    unit: str
    system_capacity: float | None
    system: float | None
    main: float | None
    descendants: float | None
    combined: float | None


@dataclass(frozen=True, slots=True)
class ProcessingUnitPercentages:
    """Peak (``max``) and mean utilization of cores or GPUs.

    ``max_sum_percent`` and ``mean_sum_percent`` are sums: two busy cores are 200. ``max_hardware_percent`` and
    ``mean_hardware_percent`` are these sums, divided by the expected cores or GPUs.
    """

    max_sum_percent: float | None
    max_hardware_percent: float | None
    mean_sum_percent: float | None
    mean_hardware_percent: float | None


@dataclass(frozen=True, slots=True)
class CPUUtilization:
    """:class:`ProcessingUnitPercentages` of ``system``, ``main``, ``descendants`` and ``combined``.

    :ivar system_core_count: Logical cores of the machine. The hardware percentages of ``system`` are of these.
    :ivar n_expected_cores: Expected cores. The hardware percentages of the tracked processes are of these.
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
    :ivar n_expected_gpus: Number of GPUs that ``gpu_percentages`` adds up.
    :ivar gpu_percentages: Utilization of the expected GPUs; 0.0 without a GPU.
    """

    system_gpu_count: int | None
    n_expected_gpus: int | None
    gpu_percentages: ProcessingUnitPercentages


@dataclass(frozen=True, slots=True)
class GPUMemory:
    """Peak memory in use on one GPU, by all programs (``system``), ``main``, ``descendants`` and ``combined``."""

    system: float | None
    main: float | None
    descendants: float | None
    combined: float | None


@dataclass(frozen=True, slots=True)
class GPUPercentages:
    """Utilization of one GPU, the share of time in which a kernel ran: ``max_percent`` and ``mean_percent``."""

    max_percent: float | None
    mean_percent: float | None


@dataclass(frozen=True, slots=True)
class GPUUse:
    """What a run used of one GPU, with the ``uuid`` and ``name`` of the GPU.

    ``index`` counts the GPUs of one ``vendor`` from 0, in the order of the PCI bus.

    :ivar unit: Unit of ``capacity`` and ``max_ram``.
    :ivar capacity: Memory of the GPU; None in MIG mode.
    :ivar max_ram: Peak memory in use: :class:`.GPUMemory`.
    :ivar utilization: Utilization by all programs: :class:`.GPUPercentages`.
    :ivar own_utilization: Utilization by the tracked processes: :class:`.GPUPercentages`. None in MIG mode, in
        containers with their own process IDs, and if the driver does not report it.
    :ivar others_used_it: Whether other processes used the GPU. None: unknown, because some processes may be hidden.
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
    """I/O of one or more processes. A peak rate is a mean over half a second or more.

    :ivar read: Data read from storage, not from the page cache. Its peak rate is ``max_read_per_second``.
    :ivar written: Data for storage, counted when they enter the page cache. Peak rate: ``max_written_per_second``.
    :ivar cancelled: Part of ``written`` that was deleted before it reached storage (Linux).
    :ivar read_by_calls: Data read by calls such as ``read(2)``, except sockets and mapped files. Peak rate:
        ``max_read_by_calls_per_second``.
    :ivar written_by_calls: Data written by calls. Peak rate: ``max_written_by_calls_per_second``.
    :ivar minor_page_faults: Page faults without storage access (Linux).
    :ivar major_page_faults: Page faults with storage access (Linux).
    :ivar voluntary_context_switches: How often threads gave up a core to wait. Known for commands and for a process
        that tracks itself.
    :ivar involuntary_context_switches: How often the kernel took a core from a thread.
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
    """Energy of one whole GPU: its ``uuid`` and ``joules``.

    ``joules`` is None for runs of less than 1 s, for MIG devices and for GPUs without a counter.

    :ivar others_used_it: The same as in :class:`.GPUUse`.
    """

    uuid: str
    joules: float | None
    others_used_it: bool | None


@dataclass(frozen=True, slots=True)
class EnergyUsage:
    """Energy of the used devices in ``unit`` (joules). Nothing is estimated or divided between programs.

    :ivar gpu: Energy of all used GPUs together; 0.0 if none was used.
    :ivar gpus: Energy of each used GPU: :class:`.GPUEnergy`.
    :ivar cpu_packages: Energy of all CPU packages, for all programs. On most systems, only root may read it.
    """

    unit: str
    gpu: float | None
    gpus: tuple[GPUEnergy, ...]
    cpu_packages: float | None


@dataclass(frozen=True, slots=True)
class GPUActivity:
    """Activity inside one GPU by all programs, from the GPU's own counters. A maximum is the highest mean of a second.

    ``index``, ``vendor`` and ``uuid`` mean the same as in :class:`.GPUUse`.

    :ivar gpu_instance: Number of the MIG GPU instance. None: the figures are of the whole GPU.
    :ivar sm_mean_percent: Share of the multiprocessors (SMs) that were busy; also ``sm_max_percent``.
    :ivar occupancy_mean_percent: Resident warps, as a share of all warps that fit; also ``occupancy_max_percent``.
    :ivar tensor_mean_percent: Share of the time in which tensor cores were busy; also ``tensor_max_percent``.
    :ivar dram_mean_percent: Share of the memory bandwidth that was used; also ``dram_max_percent``.
    :ivar pcie_sent_mean_per_second: Data sent over PCIe, in ``unit``; also ``pcie_received_mean_per_second``.
    :ivar nvlink_sent_mean_per_second: Data sent over NVLink, in ``unit``; also ``nvlink_received_mean_per_second``.
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
    """Limits of the run's control group at its start, and processes killed for lack of memory (out of memory).

    Each limit is the lowest visible limit of the group and its parents, or what the machine has if none is set.

    :ivar unit: Unit of ``memory_limit``.
    :ivar folder: Folder of the group.
    :ivar memory_limit: RAM that the group may use.
    :ivar cpu_limit: Cores that the CPU quota allows, such as 1.5.
    :ivar allowed_cores: ``cpu_limit`` or the cores of the CPU affinity, whichever is less.
    :ivar oom_kills: Number of killed processes of the group, tracked or not.
    :ivar problem: A sentence about the killed processes.
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

    :ivar launcher: The innermost launcher, such as ``slurm``, ``openmpi``, ``mpich``, ``flux``, ``pals``, ``torchrun``,
        ``ray``, ``kubernetes`` or ``parallel``.
    :ivar job: Job ID. ``array_task`` is the task of an array, ``array_size`` the number of tasks.
    :ivar step: ID of the job step.
    :ivar rank: Rank in the step, of ``size`` ranks.
    :ivar local_rank: Rank on the node, of ``local_size`` ranks.
    :ivar node: Name of the node.
    :ivar attempt: How often the rank was restarted before.
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
    :ivar memory_peak: Peak memory charged to the group, with page cache and kernel memory. It differs from RSS.
    :ivar cpu_seconds: CPU time: the sum of ``user_cpu_seconds`` and ``system_cpu_seconds``.
    :ivar read: Data read from storage.
    :ivar written: Data written to storage before the end; None in cgroup v1.
    :ivar max_tasks: Most threads at once.
    :ivar oom_kills: Number of processes killed for lack of memory.
    :ivar left_processes: Number of processes that outlived the command. They were killed.
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
    """Advice for the next run: its ``rule``, its ``text``, and the ``figures`` behind it in base units."""

    rule: str
    text: str
    figures: Mapping[str, float] = field(hash=False)


@dataclass(frozen=True, slots=True, repr=False)
class ResourceUsage:
    """The result of a run. ``str()`` returns the report as text.

    A section that was not requested, does not apply or is unknown is None or empty. Reports leave it out.

    :ivar max_ram: Peak RAM: :class:`MaxRAM`.
    :ivar max_gpu_ram: Peak GPU RAM: :class:`MaxGPURAM`.
    :ivar cpu_utilization: Use of the cores, and threads: :class:`CPUUtilization`.
    :ivar gpu_utilization: Use of all GPUs by all programs: :class:`GPUUtilization`.
    :ivar compute_time: Wall time of the run: :class:`ComputeTime`.
    :ivar gpus: Each GPU that the run used or was assigned: :class:`.GPUUse`.
    :ivar cuda: CUDA calls (section ``cuda``): :class:`.CUDAUsage`.
    :ivar io: Reads, writes and page faults (section ``io``): :class:`.IOUsage`.
    :ivar energy: Energy of the devices (section ``energy``): :class:`.EnergyUsage`.
    :ivar gpu_activity: Activity inside each used GPU (section ``gpu_activity``): :class:`.GPUActivity`.
    :ivar control_group: Limits below the machine's, and killed processes: :class:`.ControlGroupUsage`.
    :ivar job: Job and rank of the process: :class:`~gpu_tracker.JobIdentity`.
    :ivar own_group: The kernel's figures of a command with ``--cgroup``: :class:`.OwnGroupUsage`.
    :ivar termination_reason: The limit that ended the command: ``time_limit``, ``cpu_limit``, ``memory_limit`` or
        ``gpu_memory_limit``. ``killed``: the run was killed or has no recorded end.
    :ivar exceeded_limits: Limits that the command exceeded just before it ended by itself.
    :ivar advice: :class:`.Advice` for the next run, most urgent first. Only the command line gives advice.
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
        """Return the result that :meth:`to_dict` wrote into a dictionary.

        Missing figures become None, and unknown keys are ignored.

        :raises ValueError: if ``report`` is not a report of gpu-tracker.
        """
        usage: ResourceUsage = make('usage of dictionary', report)
        return usage

    @staticmethod
    def from_json(text: str | bytes) -> ResourceUsage:
        """Return the result that a JSON report holds, such as a report of ``gpu-tracker -f json``.

        :raises ValueError: if ``text`` is not a report of gpu-tracker.
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
