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
    """Resident memory of a process or of a group of processes, in the unit of the :class:`MaxRAM` around it.

    :ivar total_rss: The most physical memory that was resident at once; a page shared inside the group counts once.
    :ivar private_rss: The most that was mapped by one process alone; None elsewhere than on Linux.
    :ivar shared_rss: The most that was mapped by more than one process, each page counted once; likewise None.
    """

    total_rss: float | None
    private_rss: float | None
    shared_rss: float | None


@dataclass(frozen=True, slots=True)
class MaxRAM:
    """The most RAM that was in use.

    :ivar unit: The unit of every value here.
    :ivar system_capacity: All RAM of the machine.
    :ivar system: The most that was in use on the whole machine.
    :ivar main: The tracked process itself.
    :ivar descendants: All processes that it started, directly or not.
    :ivar combined: The tracked process and its descendants together.
    """

    unit: str
    system_capacity: float | None
    system: float | None
    main: RSSValues
    descendants: RSSValues
    combined: RSSValues


@dataclass(frozen=True, slots=True)
class MaxGPURAM:
    """The most GPU RAM that was in use, summed over all GPUs of the machine.

    :ivar unit: The unit of every value here.
    :ivar system_capacity: The memory of all GPUs; 0.0 without a GPU.
    :ivar system: The most that was in use by anybody.
    :ivar main: The tracked process itself.
    :ivar descendants: All processes that it started, directly or not.
    :ivar combined: The tracked process and its descendants together.
    """

    unit: str
    system_capacity: float | None
    system: float | None
    main: float | None
    descendants: float | None
    combined: float | None


@dataclass(frozen=True, slots=True)
class ProcessingUnitPercentages:
    """How busy processing units were.

    :ivar max_sum_percent: The most at any time, summed over the units: two busy cores are 200.0.
    :ivar max_hardware_percent: The same divided by the number of units that were expected to be used.
    :ivar mean_sum_percent: The mean over the tracked time, weighted by time, summed over the units.
    :ivar mean_hardware_percent: The same divided by the number of units that were expected to be used.
    """

    max_sum_percent: float | None
    max_hardware_percent: float | None
    mean_sum_percent: float | None
    mean_hardware_percent: float | None


@dataclass(frozen=True, slots=True)
class CPUUtilization:
    """How busy the CPU was.

    :ivar system_core_count: The logical cores of the machine, by which the system's hardware percentages are divided.
    :ivar n_expected_cores: The cores by which all other hardware percentages are divided.
    :ivar system: The whole machine.
    :ivar main: The tracked process itself.
    :ivar descendants: All processes that it started, directly or not, those that ended between two samples included.
    :ivar combined: The tracked process and its descendants together.
    :ivar main_n_threads: The most threads of the tracked process in any one sample.
    :ivar descendants_n_threads: The most threads of its descendants together in any one sample.
    :ivar combined_n_threads: The most threads of all of them together in any one sample.
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
    """How busy the GPUs were, whoever used them.

    :ivar system_gpu_count: The GPUs of the machine.
    :ivar n_expected_gpus: The GPUs over which the percentages are taken.
    :ivar gpu_percentages: Summed over those GPUs; 0.0 without a GPU.
    """

    system_gpu_count: int | None
    n_expected_gpus: int | None
    gpu_percentages: ProcessingUnitPercentages


@dataclass(frozen=True, slots=True)
class GPUMemory:
    """The most memory of one GPU that was in use, in the unit of the :class:`GPUUse` around it.

    :ivar system: By anybody.
    :ivar main: By the tracked process itself.
    :ivar descendants: By all processes that it started, directly or not.
    :ivar combined: By the tracked process and its descendants together.
    """

    system: float | None
    main: float | None
    descendants: float | None
    combined: float | None


@dataclass(frozen=True, slots=True)
class GPUPercentages:
    """How busy one GPU was: the part of the time in which some kernel ran.

    :ivar max_percent: The most at any time.
    :ivar mean_percent: The mean, weighted by time.
    """

    max_percent: float | None
    mean_percent: float | None


@dataclass(frozen=True, slots=True)
class GPUUse:
    """One GPU that the tracked processes used, or that they were restricted to and left unused.

    :ivar index: Its place in PCI bus order among the GPUs of its vendor, from 0.
    :ivar vendor: ``nvidia``, ``amd``, ``intel`` or ``drm``.
    :ivar uuid: Its UUID.
    :ivar name: The name of the product.
    :ivar unit: The unit of ``capacity`` and ``max_ram``.
    :ivar capacity: Its memory. None in MIG mode: programs can use a part of it only.
    :ivar max_ram: The most of it that was in use.
    :ivar utilization: How busy it was, whoever used it.
    :ivar own_utilization: How busy the tracked processes kept it. None in MIG mode, in containers with process IDs of
        their own, and for GPUs whose driver does not report it by process.
    :ivar others_used_it: Other processes were on it as well; None: there may have been some that cannot be seen.
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
    """How long was tracked.

    :ivar unit: The unit of ``time``.
    :ivar time: Wall time from the start to the stop.
    """

    unit: str
    time: float


@dataclass(frozen=True, slots=True)
class IOValues:
    """What a process or a group of processes read and wrote, in the unit of the :class:`IOUsage` around it.

    :ivar read: From storage: what was in the page cache already does not count.
    :ivar written: To storage, at the moment at which it got into the page cache.
    :ivar cancelled: What of that never got to storage, since its file was removed or cut before (Linux).
    :ivar read_by_calls: With calls such as ``read(2)``, from whatever: files, pipes, terminals. Sockets and mapped
        files are not in it.
    :ivar written_by_calls: The same with ``write(2)``.
    :ivar max_read_per_second: The most of ``read`` in any half a second, and so for the next three, a second.
    :ivar max_written_per_second: Of ``written``.
    :ivar max_read_by_calls_per_second: Of ``read_by_calls``.
    :ivar max_written_by_calls_per_second: Of ``written_by_calls``.
    :ivar minor_page_faults: Page faults that needed no storage (Linux).
    :ivar major_page_faults: Those that did (Linux).
    :ivar voluntary_context_switches: How often a thread has waited for something. Known of a command with all that it
        has waited for, and of a process that has tracked itself; else None.
    :ivar involuntary_context_switches: How often a thread had to leave its core to another.
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
    """What was read and written (Linux).

    :ivar unit: The unit of every size here; rates are in that unit a second.
    :ivar main: The tracked process itself.
    :ivar descendants: All processes that it started, directly or not.
    :ivar combined: The tracked process and its descendants together, also of what no sample has seen where one of them
        has waited for it.
    """

    unit: str
    main: IOValues
    descendants: IOValues
    combined: IOValues


@dataclass(frozen=True, slots=True)
class GPUEnergy:
    """The energy of one GPU that was used, as a whole device.

    :ivar uuid: Its UUID.
    :ivar joules: From the first sample to the last; None for runs of less than a second, where the GPU has no counter,
        and where the tracked processes used a MIG device, which is a part of it.
    :ivar others_used_it: Processes that were not tracked were on it as well; None where some may have been that cannot
        be seen: those of other users without root, and those of other containers.
    """

    uuid: str
    joules: float | None
    others_used_it: bool | None


@dataclass(frozen=True, slots=True)
class EnergyUsage:
    """The energy of the devices that the tracked processes used. Nothing is estimated, and nothing divided by share.

    :ivar unit: The unit of every value here: joules.
    :ivar gpu: All GPUs that they were seen on, added up: 0.0 where there was none.
    :ivar gpus: Each of these.
    :ivar cpu_packages: All CPU packages of the machine, whoever used them; None where the system does not let them be
        read, as most do for ordinary users.
    """

    unit: str
    gpu: float | None
    gpus: tuple[GPUEnergy, ...]
    cpu_packages: float | None


@dataclass(frozen=True, slots=True)
class GPUActivity:
    """How busy the parts of a GPU that the run used were, by the GPU's own counters, whoever used it.

    Means are weighted by time. A maximum is the largest mean of any second.

    :ivar index: Its place in PCI bus order among the GPUs of its vendor, from 0.
    :ivar vendor: ``nvidia``, ``amd``, ``intel`` or ``drm``.
    :ivar uuid: Its UUID.
    :ivar gpu_instance: The ID of the MIG GPU instance; None: the figures are those of the whole GPU.
    :ivar unit: The unit of sizes, which are per second.
    :ivar sm_mean_percent: Multiprocessors (SMs) that worked. 100 % is all of them, all the time.
    :ivar sm_max_percent: The most of it.
    :ivar occupancy_mean_percent: Warps on the multiprocessors, of all that these can hold.
    :ivar occupancy_max_percent: The most of it.
    :ivar tensor_mean_percent: Time in which tensor cores worked.
    :ivar tensor_max_percent: The most of it.
    :ivar dram_mean_percent: Bandwidth of its memory that was used.
    :ivar dram_max_percent: The most of it.
    :ivar pcie_sent_mean_per_second: Sent through PCIe.
    :ivar pcie_received_mean_per_second: Received through PCIe.
    :ivar nvlink_sent_mean_per_second: Sent through all NVLinks.
    :ivar nvlink_received_mean_per_second: Received through all NVLinks.
    :ivar problem: Why figures are unknown, or a reading has failed; None: neither.
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
    """What the control groups of the tracked process allowed at the start of the run, and what was killed in its group.

    A limit is the tightest of the group and of those around it, as far as they are visible; where nothing limits the
    process, that is what the machine has. None is unknown.

    :ivar unit: The unit of ``memory_limit``: that of RAM.
    :ivar folder: The folder of the group whose memory it uses.
    :ivar memory_limit: The RAM that all processes of the group may use together.
    :ivar cpu_limit: The cores that all of them may keep busy, by a quota of CPU time: 1.5 is one and a half.
    :ivar allowed_cores: The smaller of ``cpu_limit`` and the cores on which the process may run (its affinity), as far
        as they are known.
    :ivar oom_kills: How many processes of the group were killed for lack of memory during the run, tracked or not.
    :ivar problem: A sentence that says so; None where none was killed.
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
    """The place of the tracked process in a job. What its launcher does not say is None.

    :ivar launcher: What has started it: ``slurm``, ``openmpi``, ``mpich``, ``flux``, ``pals``, ``torchrun``, ``ray``,
        ``kubernetes``, ``parallel`` and others; where launchers are nested, the innermost.
    :ivar job: The ID of the job, the scheduler's where there is one. All tasks of an array have the same.
    :ivar array_task: Which task of an array it is.
    :ivar array_size: How many tasks the array has.
    :ivar step: The step of the job, or what the inner launcher calls itself.
    :ivar rank: Which process of the step it is, mostly from 0.
    :ivar size: How many there are in the step.
    :ivar local_rank: Which it is on its node.
    :ivar local_size: How many there are on its node.
    :ivar node: The name of the node, as the launcher knows it; else that of the machine.
    :ivar attempt: How often it was started again before.
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
    """What the kernel has counted in the control group that a command had for itself (``--cgroup``).

    All processes count that were ever in it: descendants that nobody has waited for, daemons, and samplers of trackers
    within the command. gpu-tracker itself is outside.

    :ivar unit: The unit of ``memory_peak``, ``read`` and ``written``.
    :ivar made_in: ``cgroup v2``, ``cgroup v1``, ``cgroup v1 and v2``, or ``systemd scope``; None: there was none.
    :ivar memory_peak: The most memory that was charged to it at once, the page cache of files that it has read or
        written and kernel memory included: not RSS.
    :ivar cpu_seconds: CPU time, exactly.
    :ivar user_cpu_seconds: That part of it which was spent outside of the kernel.
    :ivar system_cpu_seconds: The part in the kernel.
    :ivar read: From storage devices.
    :ivar written: To storage devices, as far as it has got there by the end. Version 1 does not know it.
    :ivar max_tasks: The most threads at once, with the first one of each process, and with processes that have ended
        and were not waited for.
    :ivar oom_kills: Processes that the kernel has killed in it for lack of memory.
    :ivar left_processes: Those that were still running when the command had ended, and were ended then.
    :ivar problem: Why there was none, or what it does not count; None: nothing.
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
    """What a run suggests for the next one.

    :ivar rule: The name of the rule: ``docs/reading.rst`` lists them.
    :ivar text: The advice, with its figures.
    :ivar figures: The figures by their names, in bytes, seconds, percent and counts.
    """

    rule: str
    text: str
    figures: Mapping[str, float] = field(hash=False)


@dataclass(frozen=True, slots=True, repr=False)
class ResourceUsage:
    """All that a tracked run used.

    ``str()`` of it is the report as text, ``repr()`` one line of a few figures. Two with the same figures are equal. It
    can be pickled.

    :ivar max_ram: The most RAM.
    :ivar max_gpu_ram: The most GPU RAM.
    :ivar cpu_utilization: How busy the CPU was.
    :ivar gpu_utilization: How busy the GPUs were.
    :ivar compute_time: How long it took.
    :ivar gpus: Each GPU that it used, and each that it was restricted to and left unused, by index. None, and in no
        report, on a machine without GPUs, and if the driver does not work.
    :ivar cuda: What it did with CUDA, see :class:`.CUDAUsage`. This and what follows are None
        where they were not asked for (``sections``), and then they are in no report.
    :ivar io: What it read and wrote.
    :ivar energy: The energy of the devices that it used.
    :ivar gpu_activity: How busy the parts of each GPU that it used were. Also None if these GPUs are unknown.
    :ivar control_group: What its control groups allowed; None, and in no report, where that was all that the machine
        has and no process was killed for lack of memory.
    :ivar job: Which rank of which job it was; None, and in no report, where no launcher had started it.
    :ivar own_group: What the control group of the command has used; None, and in no report, where none was asked for.
    :ivar termination_reason: Which limit has ended the command: ``time_limit``, ``cpu_limit``, ``memory_limit`` or
        ``gpu_memory_limit``; ``killed`` if the run was killed with its tracker, or has ended without a stop; None,
        and in no report, where neither is so.
    :ivar exceeded_limits: Limits that the command has exceeded without being ended: it had ended by itself before a
        sample showed that. None, and in no report, where there are none.
    :ivar advice: What the run suggests for the next one, the most urgent first. Only ``gpu-tracker`` and its commands
        make it. Empty, and in no report, if there is none.
    :ivar lower_bounds: The paths of the figures that may be too low, such as ``max_ram.combined.total_rss``; the
        reasons are in :attr:`gpu_tracker.Tracker.sampling`. Empty, and in no report, if there are none.
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
        """Return what the report has as JSON, which :func:`json.dumps` takes as it is.

        The keys are the names of the fields; sections that were not asked for are left out.
        """
        return {
            name: _plain(value)
            for name, value in asdict(self).items()
            if value is not None and (value or name not in {'advice', 'lower_bounds'})
        }

    @staticmethod
    def from_dict(report: Mapping[str, Any]) -> ResourceUsage:
        """Return the result that :meth:`to_dict` has made ``report`` of.

        Figures that an older version did not report are None; keys that are unknown here are left out.

        :raises ValueError: where ``report`` is something else: a :class:`~gpu_tracker.errors.ReportError`.
        """
        usage: ResourceUsage = make('usage of dictionary', report)
        return usage

    @staticmethod
    def from_json(text: str | bytes) -> ResourceUsage:
        """Return the result that a report in JSON holds, such as one of ``gpu-tracker -f json``.

        :param text: What its file holds: ``ResourceUsage.from_json(Path('usage.json').read_bytes())``.
        :raises ValueError: where ``text`` is something else, as in :meth:`from_dict`.
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
