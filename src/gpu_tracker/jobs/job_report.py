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

    ``job``, ``array_task``, ``step``, ``rank``, ``attempt`` and ``node`` mean the same as in
    :class:`~gpu_tracker.JobIdentity`.

    :ivar label: Name of the rank in the text of the report.
    :ivar state: ``ended``, ``failed``, ``killed``, ``lost``, ``running`` or ``unmeasured``.
    :ivar exit_code: Exit code; -n if signal n, named by ``signal``, ended the rank.
    :ivar started: Start of the rank, in seconds since 1970; ``updated`` is the last update.
    :ivar seconds: Run time, as far as recorded.
    :ivar cpu_seconds: CPU time. ``max_cores`` is the most cores used at once.
    :ivar max_ram: Peak RAM, with limits: :class:`.Bounded`.
    :ivar max_gpu_ram: Peak GPU RAM.
    :ivar gpu_utilization: Mean utilization of the rank's GPUs in percent, added up.
    :ivar read: Data read from storage (section ``io``); also ``written``.
    :ivar recording: Path of the rank's recording.
    :ivar figures: Other figures by path. ``lower_bounds`` lists paths of figures that may be too low.
    :ivar termination_reason: The same as in :class:`~gpu_tracker.ResourceUsage`, like ``exceeded_limits``.
    :ivar own_group_memory_peak: Peak memory of the rank's own control group (``--cgroup``).
    :ivar batch_system: ``slurm``, ``kubernetes``, ``docker`` or None.
    :ivar asked_cores: Allotted cores of each task. ``time_limit`` is the time limit of the job, in seconds.
    :ivar swapped_out: Bytes that the machine swapped out while the rank ran.
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
    """What the ranks on one ``node`` used together. ``ranks`` is their number.

    :ivar max_ram: Peak RAM of all ranks together: :class:`.Bounded`. If ranks ran at the same time, ``value`` is known
        only from recordings. Only ``lower`` counts a page shared by several ranks once.
    :ivar cpu_seconds: CPU time of all ranks, as far as known.
    :ivar cores: Allotted or allowed cores. ``cpu_seconds_allotted`` is ``cores`` times run time.
    :ivar asked_ram: RAM allotted on the node.
    :ivar max_gpu_ram: Highest peak GPU RAM of a rank.
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

    :ivar max_ram: Peak memory of all ranks together on this GPU: :class:`.Bounded`.
    :ivar mean_percent: Highest mean utilization by all programs that a rank measured.
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
    """Processes killed for lack of memory in one control group. The group has ``nodes``, a ``folder`` and ``ranks``.

    :ivar kills: Number of killed processes, tracked or not. Do not add up groups: one group may include another.
    """

    nodes: tuple[str, ...]
    folder: str | None
    kills: int
    ranks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Imbalance:
    """How unevenly one figure is distributed over the ranks in one ``step`` of a ``job``.

    :ivar figure: The figure: ``seconds``, ``cpu_seconds``, ``max_ram`` or ``max_gpu_ram``.
    :ivar rank: Rank with the largest value. ``max`` is this value.
    :ivar mean: Mean over the ranks with a known value. ``ranks`` is their number.
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
    """One region in all ranks: its ``path`` from the outermost region, its ``ranks`` and ``calls``.

    :ivar slowest_rank: Rank that spent the most time in the region. ``max_seconds`` is this time.
    :ivar mean_seconds: Mean time that a rank spent in the region.
    :ivar waiting_share: Part of ``max_seconds`` that the other ranks would have waited on average, from 0 to 1, if all
        ranks had ended each call together.
    :ivar is_by_call: Whether ``waiting_share`` compares single calls of the ranks. If False, it compares their total
        times in the region.
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
    """What all ranks of a job used, in bytes and seconds. ``str()`` returns the report as text.

    :ivar jobs: IDs of the jobs.
    :ivar launchers: Launchers of the ranks.
    :ivar is_running: Whether a rank still runs.
    :ivar is_lower_bound: Whether sums and maxima may be too low, because a rank has no recorded end or no figures.
    :ivar started: Start of the first rank, in seconds since 1970.
    :ivar ended: Last update of any rank. ``seconds`` is the time from ``started`` to ``ended``.
    :ivar ranks_expected: Number of ranks of the job, if known.
    :ivar ranks_started: Number of ranks that started. ``never_started`` lists the ranks that did not.
    :ivar states: Number of ranks by state of the last attempt.
    :ivar restarted: Ranks that were restarted.
    :ivar cpu_seconds: CPU time of all attempts. ``cpu_seconds_allotted`` is allotted cores times run time.
    :ivar gpu_seconds: Busy time of all used GPUs. ``gpu_seconds_allotted`` is allotted GPUs times run time.
    :ivar gpu_joules: Energy of all used GPUs. ``cpu_package_joules`` is the energy of all CPU packages.
    :ivar read: Data read from storage; also ``written``.
    :ivar max_ram_of_rank: Highest peak RAM of a rank: :class:`.Bounded`.
    :ivar max_ram_of_node: Highest peak RAM of all ranks on a node: :class:`.Bounded`.
    :ivar asked_ram_of_node: Most RAM allotted on a node.
    :ivar nodes: What was used on each node: :class:`.NodeReport`.
    :ivar gpus: Used GPUs, fullest first: :class:`.UsedGPU`.
    :ivar ranks: Ranks, with all attempts: :class:`.RankReport`.
    :ivar imbalance: Figures that differ between ranks: :class:`.Imbalance`.
    :ivar regions: Regions of all ranks, from the recordings: :class:`.JobRegion`.
    :ivar oom_kills: Processes killed for lack of memory, by control group: :class:`.GroupKills`.
    :ivar figures: Other figures by path: a sum over ranks, or the largest value of a rank.
    :ivar lower_bounds: Paths of figures that may be too low.
    :ivar problems: Sentences about missing or unreliable data.
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
