"""What a whole job used: the result that all its ranks' records make together, in base units.

Bytes, CPU seconds, seconds, joules. Unknown is None. A figure of the machine counts once for each machine or node, and
one of a GPU once for its UUID, however many ranks have seen it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from gpu_tracker.bindings import make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_tracker.recording.reading.model import Bounded
    from gpu_tracker.result.usage import Advice


@dataclass(frozen=True, slots=True)
class RankReport:
    """One attempt of one rank.

    :class:`~gpu_tracker.JobIdentity` explains ``job``, ``array_task``, ``step``, ``rank``, ``attempt`` and ``node``.

    :ivar label: Name of the rank in printed reports.
    :ivar state: ``ended``, ``failed``, ``killed``, ``running``, ``lost`` (no recorded end) or ``unmeasured`` (sampler
        did not start).
    :ivar exit_code: Exit code of the rank, or -n if signal n ended the rank. ``signal`` is the signal's name.
    :ivar started: Start of the rank, in seconds since 1970. ``updated`` is the time of the last update.
    :ivar seconds: Recorded run time.
    :ivar cpu_seconds: CPU time. ``max_cores`` is the highest number of cores in use.
    :ivar max_ram: Peak RAM (:class:`.Bounded`).
    :ivar max_gpu_ram: Peak GPU RAM.
    :ivar gpu_utilization: Mean utilization in percent, summed over the rank's GPUs.
    :ivar read: Data read from storage (section ``io``). ``written`` is data written to storage.
    :ivar recording: Path of the rank's recording.
    :ivar figures: Dictionary of more figures, such as ``io.combined.read``. ``lower_bounds`` names figures that may be
        too low.
    :ivar termination_reason: Limit that ended the rank. ``exceeded_limits`` are limits exceeded just before the end.
    :ivar own_group_memory_peak: Peak memory of the control group that ``--cgroup`` created for the rank.
    :ivar batch_system: ``slurm``, ``kubernetes``, ``docker`` or None.
    :ivar asked_cores: Number of cores that the scheduler allotted to each task. ``time_limit`` is the time limit of the
        job, in seconds.
    :ivar swapped_out: Bytes that the whole machine swapped out while the rank ran.
    """

    label: str
    job: str | None
    array_task: int | None
    step: str | None
    rank: int | None
    attempt: int | None
    node: str | None
    state: str
    exit_code: int | None
    signal: str | None
    started: float
    updated: float
    seconds: float
    cpu_seconds: float | None
    max_ram: Bounded
    max_gpu_ram: float | None
    gpu_utilization: float | None
    read: float | None
    written: float | None
    recording: str | None
    figures: Mapping[str, float]
    lower_bounds: tuple[str, ...]
    termination_reason: str | None = None
    exceeded_limits: tuple[str, ...] | None = None
    own_group_memory_peak: float | None = None
    max_cores: float | None = None
    batch_system: str | None = None
    asked_cores: float | None = None
    time_limit: float | None = None
    swapped_out: float | None = None


@dataclass(frozen=True, slots=True)
class NodeReport:
    """Resource use of all ranks on one ``node`` together. ``ranks`` is the number of ranks on the node.

    :ivar max_ram: Peak RAM of all ranks together (:class:`.Bounded`). ``lower`` is the highest peak of a single rank.
        ``value`` and ``upper`` are sums over ranks, and can count shared pages twice.
    :ivar cpu_seconds: CPU time of all ranks together.
    :ivar cores: Number of cores allotted on the node or, if unknown, allowed for the ranks. ``cpu_seconds_allotted`` is
        ``cores`` times run time.
    :ivar asked_ram: RAM allotted to the job on the node.
    :ivar max_gpu_ram: Highest peak GPU RAM of a single rank.
    :ivar gpu_seconds: Busy time of the used GPUs. ``gpu_seconds_allotted`` is allotted GPUs times run time.
    :ivar system_max_ram: Peak RAM of all programs on the node. ``system_ram_capacity`` is the node's RAM.
    """

    node: str
    ranks: int
    max_ram: Bounded
    cpu_seconds: float | None
    cores: int | None
    cpu_seconds_allotted: float | None
    asked_ram: int | None
    max_gpu_ram: float | None
    gpu_seconds: float | None
    gpu_seconds_allotted: float | None
    system_max_ram: float | None
    system_ram_capacity: float | None


@dataclass(frozen=True, slots=True)
class UsedGPU:
    """One GPU of a job: its ``node``, ``label``, ``uuid``, ``capacity`` and the ``ranks`` that used it.

    :ivar max_ram: Peak memory of all ranks together on this GPU (:class:`.Bounded`).
    :ivar mean_percent: Highest mean utilization (by all programs, in percent) that any rank measured.
    """

    node: str
    label: str
    uuid: str
    capacity: float | None
    max_ram: Bounded
    mean_percent: float | None
    ranks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupKills:
    """Number of processes killed for lack of memory in the control group ``folder`` (of ``ranks`` on ``nodes``).

    :ivar kills: Number of killed processes, tracked or not. Groups can contain other groups, so do not add up kills.
    """

    nodes: tuple[str, ...]
    folder: str | None
    kills: int
    ranks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Imbalance:
    """How unevenly one figure is distributed over the ranks in one ``step`` of a ``job``.

    :ivar figure: The figure: ``seconds``, ``cpu_seconds``, ``max_ram`` or ``max_gpu_ram``.
    :ivar rank: Rank with the largest value. ``max`` is the largest value.
    :ivar mean: Mean of the known values. ``ranks`` is the number of these values.
    :ivar ratio: ``max`` divided by ``mean``.
    """

    figure: str
    job: str | None
    step: str | None
    rank: str
    max: float
    mean: float
    ratio: float
    ranks: int


@dataclass(frozen=True, slots=True)
class JobRegion:
    """One region in all ranks: its ``path`` from the outermost region, and the numbers of ``ranks`` and ``calls``.

    :ivar slowest_rank: Rank that spent the most time in the region. ``max_seconds`` is the time of this rank.
    :ivar mean_seconds: Time in all calls of the region, as a mean over the ranks.
    :ivar waiting_share: Imbalance of the ranks, from 0 to 1. If all ranks waited for the slowest rank after each call,
        a rank would wait for this share of the region's time, on average.
    :ivar is_by_call: True if ``waiting_share`` compares single calls, False if total times of ranks.
    """

    path: tuple[str, ...]
    ranks: int
    calls: int
    slowest_rank: str
    max_seconds: float
    mean_seconds: float
    waiting_share: float | None
    is_by_call: bool


@dataclass(frozen=True, slots=True)
class JobReport:
    """Resource use of all ranks of a job, in bytes and seconds. ``str()`` returns the report as text.

    :ivar jobs: IDs of the jobs.
    :ivar launchers: Launchers of the ranks, such as ``slurm``.
    :ivar is_running: Whether a rank still runs.
    :ivar is_lower_bound: True if a rank has no recorded end or no figures. Sums and maxima may then be too low.
    :ivar started: Start of the first rank, in seconds since 1970.
    :ivar ended: Time of the last update of any rank. ``seconds`` is the time from ``started`` to ``ended``.
    :ivar ranks_expected: Expected number of ranks, or None if unknown.
    :ivar ranks_started: Number of ranks that started. ``never_started`` lists ranks that never started.
    :ivar states: Number of ranks by state of the last attempt, such as ``failed``.
    :ivar restarted: Ranks that were restarted.
    :ivar cpu_seconds: CPU time of all attempts. ``cpu_seconds_allotted`` is allotted cores times run time.
    :ivar gpu_seconds: Busy time of all used GPUs. ``gpu_seconds_allotted`` is allotted GPUs times run time.
    :ivar gpu_joules: Energy of all used GPUs. ``cpu_package_joules`` is the energy of all CPU packages.
    :ivar read: Data read from storage. ``written`` is data written to storage.
    :ivar max_ram_of_rank: Highest peak RAM of a single rank (:class:`.Bounded`).
    :ivar max_ram_of_node: Highest peak RAM of all ranks on one node together (:class:`.Bounded`).
    :ivar asked_ram_of_node: Highest RAM allotted on any node.
    :ivar nodes: One :class:`.NodeReport` for each node.
    :ivar gpus: One :class:`.UsedGPU` for each used GPU, highest peak memory first.
    :ivar ranks: One :class:`.RankReport` for each attempt of each rank.
    :ivar imbalance: One :class:`.Imbalance` for each compared figure and each job step.
    :ivar regions: One :class:`.JobRegion` for each region, from all ranks together.
    :ivar oom_kills: One :class:`.GroupKills` for each control group that ran out of memory.
    :ivar figures: Dictionary of more figures, such as ``io.combined.read``. Each figure is a sum over ranks or the
        highest value of any rank.
    :ivar lower_bounds: Names of figures that may be too low.
    :ivar problems: Warnings about missing or unreliable data.
    :ivar advice: :class:`.Advice` for the next job, as ``gpu-tracker merge`` prints it.
    """

    jobs: tuple[str, ...]
    launchers: tuple[str, ...]
    is_running: bool
    is_lower_bound: bool
    started: float | None
    ended: float | None
    seconds: float | None
    ranks_expected: int | None
    ranks_started: int
    never_started: tuple[str, ...]
    states: Mapping[str, int]
    restarted: tuple[str, ...]
    cpu_seconds: float | None
    cpu_seconds_allotted: float | None
    gpu_seconds: float | None
    gpu_seconds_allotted: float | None
    gpu_joules: float | None
    cpu_package_joules: float | None
    read: float | None
    written: float | None
    max_ram_of_rank: Bounded | None
    max_ram_of_node: Bounded | None
    asked_ram_of_node: int | None
    nodes: tuple[NodeReport, ...]
    gpus: tuple[UsedGPU, ...]
    ranks: tuple[RankReport, ...]
    imbalance: tuple[Imbalance, ...]
    regions: tuple[JobRegion, ...]
    oom_kills: tuple[GroupKills, ...]
    figures: Mapping[str, float]
    lower_bounds: tuple[str, ...]
    problems: tuple[str, ...]
    advice: tuple[Advice, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the report as a dictionary for :func:`json.dumps`."""
        return {name: value for name, value in asdict(self).items() if value or name != 'advice'}

    def __str__(self) -> str:
        """Return it as the text that ``gpu-tracker merge`` prints."""
        text: str = make('job as text', self)
        return text

    def _repr_html_(self) -> str:
        """Return it as tables, for notebooks."""
        html: str = make('job as HTML', self)
        return html
