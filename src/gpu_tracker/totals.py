"""The types of what crosses between tracker and sampler as plain data: configuration, messages, totals.

All of it can be marshalled. Nothing imports this module at run time: the names are for type checkers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NotRequired, Protocol, TypedDict

from typing_extensions import ReadOnly

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Group = Literal['main', 'descendants', 'combined']
"""The tracked process, all that it started, or both together."""

Sizes = tuple[int | None, int | None, int | None]
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
    def ru_majflt(self) -> int:
        """Page faults with I/O."""

    @property
    def ru_nvcsw(self) -> int:
        """Voluntary context switches."""

    @property
    def ru_nivcsw(self) -> int:
        """Involuntary ones."""


class UseWithFaults(ProcessUse, Protocol):
    """Use of a process, with its page faults."""

    @property
    def ru_minflt(self) -> int:
        """Page faults without I/O."""


class RecordingRequest(TypedDict):
    """Where a run is recorded."""

    path: str
    """The absolute path of a file, which is there and empty if it begins now; empty: beside the file of the run."""
    begins: Literal['now', 'late', 'with_regions']
    """When it is begun. One that begins with the first region is removed by the tracker; one that begins late, with
    :class:`gpu_tracker.sampler.kept_recording.KeptRecording`, is kept by it."""
    per_process: bool
    """Each process has rows of its own."""
    commit_interval: float | None
    """Seconds after which what was measured is in the file; None: those of every recording."""


class RankRequest(TypedDict):
    """Where a rank writes what a job's report is made of, see :mod:`gpu_tracker.recording.writing.rank_files`."""

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
    words: Sequence[str] | None
    """The words of the target; None: the sampler looks them up."""
    version: str
    """That of this package."""
    launcher: int | None
    """That of the program which holds the target back before its exec."""
    exec_handle: int | None
    """The reading end of a pipe whose other end that exec closes."""
    reader: str
    """``'proc'`` or ``'psutil'``."""
    interval: float
    """Seconds between two samples."""
    brands: tuple[str, ...] | None
    """Those of the GPUs; None: all."""
    uuids: tuple[str, ...] | None
    overhead: float | None
    """The share of one core that bounds the sampler's CPU time."""
    report: tuple[str, Sequence[Any], bool] | None
    """The path of a file, the fields of a :class:`.Form`, and whether the file is a table of runs."""
    units: tuple[str, str, str, int | None]
    """Those of that file: of RAM, GPU RAM and time, and the number of cores expected."""
    keeps: bool
    """The evidence is kept in a file in case the run is killed."""
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
    """The place of the target in a job, by the fields of :class:`gpu_tracker.result.usage.JobIdentity`."""
    rank: RankRequest | None
    limits: Mapping[str, float]
    """Those that the sampler compares with what it samples, see :mod:`gpu_tracker.limits`."""


class SamplerConfiguration(Configuration):
    """The same as the sampler gets it: with where it finds its modules and the store."""

    path: list[str]
    store_handle: int
    store_path: str | None
    store_place: int


class Message(TypedDict, total=False):
    """What a sampler sends to its tracker: that it is ready or refuses, that it watches a command, that it is done."""

    pid: int
    parent: int
    kept: str | None
    """The path of the file that outlives the sampler."""
    messages: list[tuple[str, str]]
    """Those for the user so far, as (level, text)."""
    error: str
    """The short name of the reason why it refuses."""
    text: str
    watching: bool
    done: bool
    evidence: Evidence
    """All that was read; it comes with ``done``."""
    is_recording: bool
    """It waits for the settled totals, for its recording."""
    unfinished: str | None
    """Why that is incomplete all the same."""
    exceeded: str
    """The reason of the limit that was exceeded; it is reported at any time."""
    amount: float
    """What was used of it."""


class CpuTotals(TypedDict):
    """CPU seconds of each group and of the machine, and the most of them in a second; None is unknown."""

    main: ReadOnly[tuple[Any, Any]]
    descendants: ReadOnly[tuple[Any, Any]]
    combined: ReadOnly[tuple[Any, Any]]
    system: ReadOnly[tuple[Any, Any]]
    threads: ReadOnly[tuple[int, int, int]]
    """The most of the three groups."""
    cores: ReadOnly[int | None]


class CpuEvidence(CpuTotals):
    """What was read of it."""

    before: ReadOnly[float]
    """What main had used before the first sample."""
    unreceived: ReadOnly[float]
    """CPU seconds of members that are gone and that no member has got, as they were last read."""
    has_reaped: ReadOnly[bool]
    """Main has reaped a child."""
    has_orphans: ReadOnly[bool]
    """A process outside the tree has reaped a member."""
    is_ignored: ReadOnly[bool]
    """A member ignores SIGCHLD or has set SA_NOCLDWAIT."""
    counts_reaped: ReadOnly[bool]
    """The system adds the time of a reaped child to its parent's."""


class RamTotals(TypedDict):
    """The largest sizes in bytes; None is unknown."""

    main: ReadOnly[Sizes]
    descendants: ReadOnly[Sizes]
    combined: ReadOnly[Sizes]
    system: ReadOnly[int | None]
    capacity: ReadOnly[int | None]


class RamEvidence(RamTotals):
    """What was read of it: exactly, and with each page counted once."""

    ceilings: ReadOnly[tuple[int, int, int]]
    """The most that main, descendants and all of them may have had."""
    most_of_main: ReadOnly[int | None]
    """The most that main can have had, whatever kind of pages it has got; None is unknown."""
    faults_of_orphans: ReadOnly[int]
    """Page faults of ended members without a parent in the tree, and of their children, when last read."""
    most_private: ReadOnly[int]
    """The most private bytes that main can have had while it was alone."""
    huge_pages: ReadOnly[int]
    """The transparent huge pages that the machine has given to programs since the start."""
    reasons: ReadOnly[tuple[str, ...]]
    """Why groups may have had more than that, see :data:`gpu_tracker.resources.settle.REASONS`."""


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
    missed: NotRequired[Sequence[str]]
    """The sizes that are lower bounds, since a reading has failed."""
    devices: NotRequired[Sequence[GpuDeviceTotals] | None]
    """Each GPU of the machine that could be opened."""


class GpuDeviceTotals(TypedDict):
    """One GPU: bytes and percent; ``main``, ``descendants`` and ``combined`` are the most that the tree had of it."""

    uuid: str
    name: str | None
    vendor: str
    index: int
    place: str
    """What names it among the GPUs of all vendors: ``0``, ``amd:0``."""
    capacity: int | None
    system: int | None
    main: int | None
    descendants: int | None
    combined: int | None
    missed: Sequence[str]
    utilization: float | None
    """The mean."""
    max_utilization: float | None
    own_utilization: float | None
    max_own_utilization: float | None
    others: bool | None
    is_used: bool | None
    is_visible: bool


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


class GpuActivityTotals(TypedDict):
    """One GPU or MIG GPU instance: percent and bytes a second by the fields of GpuActivity; None is unknown."""

    uuid: str
    vendor: str
    index: int
    gpu_instance: int | None
    is_used: bool | None
    """Whether tracked processes were seen on it."""
    problem: str | None
    """Why a reading has failed."""
    seconds: float
    """The time that was read."""
    means: Mapping[str, float | None]
    maxima: Mapping[str, float | None]
    latest: Sequence[float | None]
    """The percentages of the last reading."""


class GpuActivitiesTotals(TypedDict, total=False):
    """See :meth:`gpu_tracker.resources.gpu_activity.ActivitySource.read`."""

    gpus: Sequence[GpuActivityTotals]
    problem: str


class ControlGroupTotals(TypedDict):
    """See :class:`gpu_tracker.result.usage.ControlGroupUsage`; sizes in bytes."""

    folder: str | None
    memory_limit: float | None
    cpu_limit: float | None
    allowed_cores: float | None
    oom_kills: int | None
    oom_kills_before: NotRequired[int | None]
    """Those that the counter of the group had at the start."""
    inode: NotRequired[int | None]
    """That of the folder, which tells the group from all others of the machine."""
    throttled_seconds: NotRequired[float | None]
    """This and the following: see :class:`gpu_tracker.control_groups.pressure.Pressure`."""
    group_swap: NotRequired[int | None]
    shmem_growth: NotRequired[int | None]
    swapped_out: NotRequired[int | None]


class Record(TypedDict):
    """How a run was sampled."""

    late: ReadOnly[int]
    skipped: ReadOnly[int]
    is_limited: ReadOnly[bool]
    mean_interval: ReadOnly[float | None]
    cpu_seconds: ReadOnly[float]
    held: ReadOnly[bool]
    """The target is still held back before its exec."""
    tracked_seconds: ReadOnly[float | None]


class LineageEvidence(TypedDict):
    """What is known of the descendants."""

    has_descendants: ReadOnly[bool]
    faults_of_waited_for: ReadOnly[int | None]
    """Page faults of the children that main has reaped; None if it has not reaped all that it has started."""
    older_has_ended: ReadOnly[bool]
    """A descendant of the first sample has ended: its peak may be from before."""
    may_miss_orphans: ReadOnly[bool]
    """A process may be an orphan of the tree, and may as well be another program's."""


class _Run(TypedDict):
    seconds: ReadOnly[float]
    """From the first sample to the last."""
    samples: ReadOnly[int]
    gpu: ReadOnly[GpuTotals]
    io: ReadOnly[NotRequired[IoTotals]]
    energy: ReadOnly[NotRequired[EnergyTotals]]
    gpu_activity: ReadOnly[NotRequired[GpuActivitiesTotals]]
    cuda: ReadOnly[NotRequired[Mapping[str, Any]]]
    """The fields of :class:`gpu_tracker.result.cuda_usage.CUDAUsage` in base units."""
    control_group: ReadOnly[NotRequired[ControlGroupTotals]]
    job: ReadOnly[NotRequired[Mapping[str, Any]]]
    """The place of the tracked process in a job; absent if no launcher is to be seen."""
    record: ReadOnly[Record]
    messages: ReadOnly[Sequence[tuple[str, str]]]
    """Those for the user, as (level, text)."""


class Evidence(_Run):
    """What was read of a run so far, in base units. It is written whole, and changes no more."""

    cpu: ReadOnly[CpuEvidence]
    ram: ReadOnly[RamEvidence]
    lineage: ReadOnly[LineageEvidence]


class Totals(_Run):
    """What a run has used, in base units: see :func:`gpu_tracker.resources.settle.settle`."""

    cpu: ReadOnly[CpuTotals]
    ram: ReadOnly[RamTotals]
    lower_bounds: ReadOnly[Mapping[str, str]]
    """The figures that may be too low, by their paths in the result, with the reasons."""
    own_group: ReadOnly[NotRequired[Mapping[str, Any]]]
    """See :meth:`gpu_tracker.control_groups.own_group.OwnGroup.end`; absent if none was asked for."""
    termination_reason: ReadOnly[NotRequired[str]]
    """The limit that has ended the run; absent if none has."""
    batch: ReadOnly[NotRequired[Mapping[str, Any]]]
    """See :func:`gpu_tracker.job.batch_request`; absent if there is no batch system."""
    major_faults: ReadOnly[NotRequired[int]]
    """Page faults that read from disk, of a command and of all that it has waited for."""
    exceeded_limits: ReadOnly[NotRequired[Sequence[str]]]
    """Limits that were exceeded by a run that has ended by itself; absent if none was."""
