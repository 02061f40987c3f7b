"""The types of what crosses between tracker and sampler as plain data: configuration, messages, totals.

All of it can be marshalled. Nothing imports this module at run time: the names are for type checkers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NotRequired, Protocol, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Group = Literal['main', 'descendants', 'combined']
"""The tracked process, all that it started, or both together."""

Sizes = list[int | None]
"""Total, private and shared bytes; None where unknown."""


class ProcessUse(Protocol):
    """What the kernel reports of a process that was waited for, see getrusage(2); ``resource.struct_rusage`` is one."""

    @property
    def ru_utime(self) -> float:
        """CPU seconds in user mode."""

    @property
    def ru_stime(self) -> float:
        """CPU seconds in the kernel."""

    @property
    def ru_maxrss(self) -> int:
        """The most that was resident: KiB on Linux, bytes on macOS."""

    @property
    def ru_nvcsw(self) -> int:
        """Voluntary context switches."""

    @property
    def ru_nivcsw(self) -> int:
        """Involuntary ones."""


class RecordingRequest(TypedDict):
    """Where a run is recorded."""

    path: str
    """The absolute path of a file, which is there and empty, unless it is temporary."""
    is_temporary: bool
    """It is begun where a region is, and the tracker removes it."""
    per_process: bool
    """Each process has rows of its own."""
    commit_interval: float | None
    """Seconds after which what was measured is in the file; None: those of every recording."""
    command: Sequence[str] | None
    """The words of the target; None: the sampler looks them up."""
    version: str
    """That of this package."""


class RankRequest(TypedDict):
    """Where a rank writes what a job's report is made of, see :mod:`gpu_tracker.jobs.rank_files`."""

    folder: str
    name: str
    about: Mapping[str, Any]
    """What is known of it before it runs."""


class Configuration(TypedDict):
    """What a tracker asks of its sampler."""

    owner: int
    """The pid of the tracker's process."""
    target: int
    """That of the tracked one."""
    launcher: int | None
    """That of the program which holds the target back before its exec."""
    launcher_peak: int | None
    """The peak of that program in bytes."""
    exec_handle: int | None
    """The reading end of a pipe whose other end that exec closes."""
    reader: str
    """``'proc'`` or ``'psutil'``."""
    exit_records: bool
    """The kernel is asked to report the processes that end, where it is permitted."""
    interval: float
    """Seconds between two samples."""
    brands: tuple[str, ...] | None
    """Those of the GPUs; None: all."""
    uuids: tuple[str, ...] | None
    overhead: float | None
    """The share of one core that bounds the sampler's CPU time."""
    report: tuple[str, Sequence[Any], bool] | None
    """The path of a file, the fields of a :class:`gpu_tracker.report.Form`, and whether the file is a table of runs."""
    """The path and the format of a file that is kept up to date."""
    units: tuple[str, str, str, int | None]
    """Those of that file: of RAM, GPU RAM and time, and the number of cores expected."""
    settles: bool
    """The tracker writes that file itself after a stop."""
    sections: tuple[str, ...]
    """The names of the optional resources that are wanted."""
    command: tuple[tuple[str, ...], str] | None
    """The words of the target that is held back, and the folder where it starts, for these."""
    recording: RecordingRequest | None
    rows_file: str | None
    """The path of a CSV file for the samples in the layout of gpu-tracker 5."""
    recording_handle: int | None
    """A descriptor by which the file is locked."""
    regions: str | None
    """The path of the log that the tracked processes write regions to."""
    job: Mapping[str, Any] | None
    """The place of the target in a job, by the fields of :class:`gpu_tracker.usage.JobIdentity`."""
    rank: RankRequest | None
    limits: NotRequired[Mapping[str, float]]
    """Those that the sampler compares with what it samples, see :mod:`gpu_tracker.limits`."""


class SamplerConfiguration(Configuration):
    """The same as it lies in the store: with where the sampler finds its modules and the store."""

    path: list[str]
    store_handle: int
    store_path: str | None
    store_place: int


class Message(TypedDict, total=False):
    """What a sampler sends to its tracker: that it is ready or refuses, that it watches a command, that it is done."""

    pid: int
    parent: int
    messages: list[tuple[str, str]]
    """Those for the user so far, as (level, text)."""
    error: str
    """The short name of the reason why it refuses."""
    text: str
    watching: bool
    done: bool
    is_recording: bool
    """It waits for the settled totals, for its recording."""
    unfinished: str | None
    """Why that is incomplete all the same."""
    exceeded: str
    """The reason of the limit that was exceeded; it is reported at any time."""
    amount: float
    """What was used of it."""


class CpuTotals(TypedDict):
    """Of each group and of the machine: CPU seconds, and the most of them in a second."""

    main: list[Any]
    descendants: list[Any]
    combined: list[Any]
    system: list[Any]
    threads: list[int]
    """The most of the three groups."""
    cores: int | None


class SizesByGroup(TypedDict):
    """Sizes of the three groups."""

    main: Sizes
    descendants: Sizes
    combined: Sizes


class BytesByGroup(TypedDict):
    """One number of bytes for each of the three groups; None where unknown."""

    main: int | None
    descendants: int | None
    combined: int | None


class RamTotals(SizesByGroup):
    """Maxima in bytes, with what is certain of them and what they can have been at most."""

    lower: SizesByGroup
    upper: BytesByGroup
    beside_descendants: int | None
    """What main had beside the descendants when these had most."""
    system: int | None
    capacity: int | None


class GpuTotals(TypedDict):
    """Bytes and percent."""

    count: int | None
    expected: int | None
    capacity: int | None
    system: int | None
    main: int | None
    descendants: int | None
    combined: int | None
    max_sum: float | None
    mean_sum: float | None
    devices: NotRequired[Sequence[GpuDeviceTotals] | None]
    """Each GPU of the machine that could be opened."""


class GpuDeviceTotals(TypedDict):
    """One GPU: bytes that it has, the most that the tree had of it, and its mean utilization in percent."""

    uuid: str
    name: str | None
    capacity: int | None
    combined: int | None
    utilization: float | None


class IoValues(TypedDict):
    """Of one group; see :mod:`gpu_tracker.resources.io`."""

    bytes: list[int | None]
    rates: list[float | None]
    faults: list[int | None]
    switches: list[int | None]


class IoTotals(TypedDict):
    """Of the three groups."""

    main: IoValues
    descendants: IoValues
    combined: IoValues


class EnergyTotals(TypedDict, total=False):
    """See :meth:`gpu_tracker.resources.energy.EnergySource.read`."""

    seconds: float
    gpus: Sequence[tuple[str, float | None, bool | None]] | None
    packages: float | None
    problem: str


class ControlGroupTotals(TypedDict):
    """See :class:`gpu_tracker.usage.ControlGroupUsage`; sizes in bytes."""

    folder: str | None
    memory_limit: float | None
    cpu_limit: float | None
    allowed_cores: float | None
    oom_kills: int | None
    oom_kills_before: NotRequired[int | None]
    """Those that the counter of the group had at the start."""
    inode: NotRequired[int | None]
    """That of the folder, which tells the group from all others of the machine."""


class Record(TypedDict):
    """How a run was sampled, and what the corrections at its end have to know."""

    late: int
    skipped: int
    is_limited: bool
    mean_interval: float | None
    cpu_seconds: float
    early: int
    postponed: int
    held: bool
    """The target is still held back before its exec."""
    launcher_peak: int | None
    tracked_seconds: float | None
    has_descendants: bool
    faults_of_waited_for: int | None
    older_has_ended: bool
    unreaped: float
    adopted: float
    has_clocks: bool
    cpu_is_lower_bound: bool
    cpu_before: float
    has_reaped: bool
    unreadable: bool
    doubled: int
    most_waited_for: int | None
    may_miss_orphans: NotRequired[bool]
    """Descendants may have been there that no sample has seen and for which no member has waited."""
    exit_records: NotRequired[int | None]
    """How many descendants the kernel has reported at their end; None or absent: it reports none."""
    exit_records_lost: NotRequired[bool]
    ended_main_peak: NotRequired[int | None]
    """Bytes that the target had at most, as known when it ended."""
    ended_peak: NotRequired[int]
    """The same of the largest descendant that has ended."""
    ended_copies_peak: NotRequired[int]
    """The same of those that may have been in the target's memory."""
    ended_unseen_peaks: NotRequired[int]
    """The sum of what those have had at most that no sample has seen, and for which nobody in the tree has waited; of
    others what they had beyond their mark as it was read last."""


class Totals(TypedDict):
    """What a run has used so far, in base units."""

    seconds: float
    """From the first sample to the last."""
    samples: int
    cpu: CpuTotals
    ram: RamTotals
    gpu: GpuTotals
    io: NotRequired[IoTotals]
    energy: NotRequired[EnergyTotals]
    cuda: NotRequired[Mapping[str, Any]]
    """The fields of :class:`gpu_tracker.cuda_usage.CUDAUsage` in base units."""
    control_group: NotRequired[ControlGroupTotals]
    job: NotRequired[Mapping[str, Any]]
    """The place of the tracked process in a job; absent where no launcher is to be seen."""
    own_group: NotRequired[Mapping[str, Any]]
    """See :meth:`gpu_tracker.control_groups.own_group.OwnGroup.end`; absent where none was asked for."""
    termination_reason: NotRequired[str]
    """Which limit has ended the run; absent where none has."""
    exceeded_limits: NotRequired[list[str]]
    """Which limits were exceeded of a run that has ended by itself; absent where none was."""
    record: Record
    messages: list[tuple[str, str]]
    """Those for the user, as (level, text)."""
