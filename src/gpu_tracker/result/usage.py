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
    """Peak resident memory (RSS). The fields may reach their peaks at different times.

    :ivar total_rss: All resident memory. A page shared by several processes counts once.
    :ivar private_rss: Memory that only one process has mapped. Known only on Linux.
    :ivar shared_rss: Memory that several processes have mapped, counted once. Known only on Linux.
    """

    total_rss: float | None
    private_rss: float | None
    shared_rss: float | None


@dataclass(frozen=True, slots=True)
class MaxRAM:
    """Peak RAM in ``unit``. ``main``, ``descendants`` and ``combined`` are :class:`RSSValues`.

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
    """Peak GPU RAM of all GPUs together, in ``unit``. Without a GPU, the peaks are 0.0.

    ``system`` is the peak of all programs. ``system_capacity`` is the memory of all GPUs. ``main``, ``descendants`` and
    ``combined`` are peaks of the tracked processes.
    """

    unit: str
    system_capacity: float | None
    system: float | None
    main: float | None
    descendants: float | None
    combined: float | None


@dataclass(frozen=True, slots=True)
class ProcessingUnitPercentages:
    """Peak (``max``) and mean utilization of CPU cores or GPUs.

    ``max_sum_percent`` and ``mean_sum_percent`` add up all cores or GPUs: two busy cores are 200 %.
    ``max_hardware_percent`` and ``mean_hardware_percent`` are these sums, divided by the expected number of cores or
    GPUs.
    """

    max_sum_percent: float | None
    max_hardware_percent: float | None
    mean_sum_percent: float | None
    mean_hardware_percent: float | None


@dataclass(frozen=True, slots=True)
class CPUUtilization:
    """CPU utilization of ``system``, ``main``, ``descendants`` and ``combined`` (:class:`ProcessingUnitPercentages`).

    :ivar system_core_count: Number of logical cores. Hardware percentages of ``system`` are relative to this number.
    :ivar n_expected_cores: Number of expected cores. Hardware percentages of tracked processes are relative to this
        number.
    :ivar main_n_threads: Highest number of threads of ``main`` in one sample. ``descendants_n_threads`` and
        ``combined_n_threads`` count ``descendants`` and ``combined``.
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
    :ivar n_expected_gpus: Number of measured GPUs, used to calculate ``gpu_percentages``.
    :ivar gpu_percentages: Utilization of all measured GPUs together. Without a GPU, all values are 0.0.
    """

    system_gpu_count: int | None
    n_expected_gpus: int | None
    gpu_percentages: ProcessingUnitPercentages


@dataclass(frozen=True, slots=True)
class GPUMemory:
    """Peak memory in use on one GPU, by all programs (``system``) and by ``main``, ``descendants`` and ``combined``."""

    system: float | None
    main: float | None
    descendants: float | None
    combined: float | None


@dataclass(frozen=True, slots=True)
class GPUPercentages:
    """Utilization of one GPU (``max_percent``, ``mean_percent``): share of time in which any GPU kernel ran."""

    max_percent: float | None
    mean_percent: float | None


@dataclass(frozen=True, slots=True)
class GPUUse:
    """Use of one GPU by a run. ``uuid`` and ``name`` identify the GPU.

    ``index`` is the number of the GPU among all GPUs of the same ``vendor``, from 0, in PCI bus order.

    :ivar unit: Unit of ``capacity`` and ``max_ram``.
    :ivar capacity: Memory size of the GPU, or None in MIG mode.
    :ivar max_ram: Peak memory in use (:class:`.GPUMemory`).
    :ivar utilization: Utilization by all programs (:class:`.GPUPercentages`).
    :ivar own_utilization: Utilization by the tracked processes (:class:`.GPUPercentages`). Percentages are unknown in
        MIG mode, in containers with their own process IDs, and with some drivers.
    :ivar others_used_it: Whether untracked processes used the GPU, or None if some processes may be hidden.
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
    """I/O of one or more processes. A peak rate is the highest mean over half a second or longer.

    :ivar read: Data read from storage, not from the page cache (peak rate: ``max_read_per_second``).
    :ivar written: Data written to files, counted when the data enter the page cache (peak rate:
        ``max_written_per_second``).
    :ivar cancelled: Written data that never reached storage, because the file was deleted or truncated (Linux only).
    :ivar read_by_calls: Data read by system calls such as ``read(2)``, without sockets and mapped files (peak rate:
        ``max_read_by_calls_per_second``).
    :ivar written_by_calls: Data written by system calls (peak rate: ``max_written_by_calls_per_second``).
    :ivar minor_page_faults: Page faults without storage access (Linux only).
    :ivar major_page_faults: Page faults with storage access (Linux only).
    :ivar voluntary_context_switches: How often threads gave up their core to wait. Measured only for commands and for
        processes that track themselves.
    :ivar involuntary_context_switches: How often the scheduler interrupted a thread to run another thread.
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
    """I/O of ``main``, ``descendants`` and ``combined`` (:class:`.IOValues`), with rates in ``unit`` per second.

    ``combined`` also includes a child that ended between two samples, if the parent waited for the child.
    """

    unit: str
    main: IOValues
    descendants: IOValues
    combined: IOValues


@dataclass(frozen=True, slots=True)
class GPUEnergy:
    """Energy of one whole GPU in ``joules``, with the ``uuid`` of the GPU.

    ``joules`` is None for runs shorter than 1 s, for MIG devices and for GPUs without an energy counter.

    :ivar others_used_it: Whether untracked processes used the GPU.
    """

    uuid: str
    joules: float | None
    others_used_it: bool | None


@dataclass(frozen=True, slots=True)
class EnergyUsage:
    """Energy of the used GPUs and of the CPUs in ``unit`` (joules), for all programs together.

    :ivar gpu: Energy of all used GPUs together, or 0.0 if the run used no GPU.
    :ivar gpus: Energy of each used GPU (:class:`.GPUEnergy`).
    :ivar cpu_packages: Energy of all CPU packages. On most systems, only root may read this energy.
    """

    unit: str
    gpu: float | None
    gpus: tuple[GPUEnergy, ...]
    cpu_packages: float | None


@dataclass(frozen=True, slots=True)
class GPUActivity:
    """Activity of the units inside one GPU, by all programs. A maximum is the highest mean over one second.

    ``index``, ``vendor`` and ``uuid`` identify the GPU, as in :class:`.GPUUse`.

    :ivar gpu_instance: Number of the measured MIG GPU instance. None means the whole GPU.
    :ivar sm_mean_percent: Share of the multiprocessors (SMs) that were busy (maximum: ``sm_max_percent``).
    :ivar occupancy_mean_percent: Resident warps, in percent of all warps that fit (maximum: ``occupancy_max_percent``).
    :ivar tensor_mean_percent: Share of time in which tensor cores were busy (maximum: ``tensor_max_percent``).
    :ivar dram_mean_percent: Share of the memory bandwidth that was used (maximum: ``dram_max_percent``).
    :ivar pcie_sent_mean_per_second: Data sent over PCIe per second, in ``unit`` (received:
        ``pcie_received_mean_per_second``).
    :ivar nvlink_sent_mean_per_second: Data sent over NVLink per second (received: ``nvlink_received_mean_per_second``).
    :ivar problem: Reason why figures are unknown.
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
    """Limits of the Linux control group in which the run started, and processes killed for lack of memory.

    Each limit is the lowest limit of the group and its readable parents. Without a limit, the figure is the machine's
    total.

    :ivar unit: Unit of ``memory_limit``.
    :ivar folder: Folder of the control group.
    :ivar memory_limit: RAM that the group may use.
    :ivar cpu_limit: Number of cores that the CPU quota allows, such as 1.5.
    :ivar allowed_cores: ``cpu_limit`` or the number of cores in the CPU affinity, whichever is lower.
    :ivar oom_kills: Number of processes in the group that Linux killed for lack of memory.
    :ivar problem: Sentence about the killed processes.
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

    :ivar launcher: Launcher that started the rank directly, such as ``slurm``, ``openmpi``, ``torchrun``, ``ray`` or
        ``kubernetes``.
    :ivar job: Job ID. In a job array, ``array_task`` is the task ID. ``array_size`` is the number of tasks.
    :ivar step: ID of the job step.
    :ivar rank: Rank in the job step, from 0 to ``size`` - 1.
    :ivar local_rank: Rank on the node, from 0 to ``local_size`` - 1.
    :ivar node: Name of the node.
    :ivar attempt: Number of restarts before this attempt.
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
    """Figures that Linux counted for all processes in a command's own control group (``--cgroup``).

    Sizes are in ``unit``.

    :ivar made_in: How the control group was made: ``'cgroup v1'``, ``'cgroup v2'``, ``'cgroup v1 and v2'`` or
        ``'systemd scope'``.
    :ivar memory_peak: Peak memory of the group. Unlike ``max_ram``, the peak includes page cache and kernel memory.
    :ivar cpu_seconds: CPU time: the sum of ``user_cpu_seconds`` and ``system_cpu_seconds``.
    :ivar read: Data read from storage devices.
    :ivar written: Data that reached storage before the end of the command, or None in cgroup v1.
    :ivar max_tasks: Highest number of threads at the same time.
    :ivar oom_kills: Number of processes that Linux killed for lack of memory.
    :ivar left_processes: Number of processes that outlived the command. gpu-tracker killed these processes.
    :ivar problem: Reason for a missing control group or missing figures.
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
    """Advice for the next run: name of the ``rule``, ``text``, and measured ``figures`` (bytes, seconds, percent)."""

    rule: str
    text: str
    figures: Mapping[str, float] = field(hash=False)


@dataclass(frozen=True, slots=True, repr=False)
class ResourceUsage:
    """The result of a run. ``str()`` returns the report as text.

    A field without data is None or empty.

    :ivar max_ram: Peak RAM (:class:`MaxRAM`).
    :ivar max_gpu_ram: Peak GPU RAM (:class:`MaxGPURAM`).
    :ivar cpu_utilization: CPU utilization, and number of threads (:class:`CPUUtilization`).
    :ivar gpu_utilization: GPU utilization by all programs (:class:`GPUUtilization`).
    :ivar compute_time: Wall time of the run (:class:`ComputeTime`).
    :ivar gpus: GPUs used by the run or assigned to the run (:class:`.GPUUse`).
    :ivar cuda: Optional section: CUDA calls (:class:`.CUDAUsage`).
    :ivar io: Optional section: reads, writes and page faults (:class:`.IOUsage`).
    :ivar energy: Optional section: energy of GPUs and CPUs (:class:`.EnergyUsage`).
    :ivar gpu_activity: Optional section: activity inside each used GPU (:class:`.GPUActivity`).
    :ivar control_group: Memory and CPU limits of the run, and killed processes (:class:`.ControlGroupUsage`).
    :ivar job: Job and rank of the process (:class:`~gpu_tracker.JobIdentity`).
    :ivar own_group: Figures that Linux counted for a command with ``--cgroup`` (:class:`.OwnGroupUsage`).
    :ivar termination_reason: The limit that ended the command: ``time_limit``, ``cpu_limit``, ``memory_limit`` or
        ``gpu_memory_limit``. ``killed`` means that the run was killed or has no recorded end.
    :ivar exceeded_limits: Limits that the command exceeded just before its end. gpu-tracker did not end the command.
    :ivar advice: Advice for the next run, most urgent first (:class:`.Advice`). Only command-line reports contain
        advice.
    :ivar lower_bounds: Names of figures that may be too low, such as ``max_ram.combined.total_rss``.
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
        """Return the report as a dictionary for :func:`json.dumps`."""
        return {
            name: _plain(value)
            for name, value in asdict(self).items()
            if value is not None and (value or name not in {'advice', 'lower_bounds'})
        }

    @staticmethod
    def from_dict(report: Mapping[str, Any]) -> ResourceUsage:
        """Convert a dictionary from :meth:`to_dict` to a result.

        Missing figures become None. Unknown keys are ignored.

        :raises ValueError: if ``report`` is not a report of gpu-tracker.
        """
        usage: ResourceUsage = make('usage of dictionary', report)
        return usage

    @staticmethod
    def from_json(text: str | bytes) -> ResourceUsage:
        """Convert a JSON report, such as the output of ``gpu-tracker -f json``, to a result.

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
