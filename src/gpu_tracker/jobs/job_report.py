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
    """One attempt of one rank. ``job``, ``array_task``, ``step``, ``rank``, ``attempt``, ``node``: see ``JobIdentity``.

    :ivar label: Name of the rank in the report.
    :ivar state: ``ended``, ``failed``, ``killed``, ``lost``, ``running`` or ``unmeasured``.
    :ivar exit_code: Exit code; -n if ``signal`` n ended it.
    :ivar started: Start, in seconds since 1970; ``updated``: last update.
    :ivar seconds: Run time, as far as recorded.
    :ivar cpu_seconds: CPU time; ``max_cores``: most cores used at once.
    :ivar max_ram: Peak RAM: :class:`.Bounded`.
    :ivar max_gpu_ram: Peak GPU RAM.
    :ivar gpu_utilization: Mean utilization of its GPUs, summed, in percent.
    :ivar read: Read from storage; ``written``: written to it (section ``io``).
    :ivar recording: Path of the recording.
    :ivar figures: Other figures by path; ``lower_bounds``: paths that may be too low.
    :ivar termination_reason: As in :class:`~gpu_tracker.ResourceUsage`; also ``exceeded_limits``.
    :ivar own_group_memory_peak: Peak of its control group (``--cgroup``).
    :ivar batch_system: ``slurm``, ``kubernetes``, ``docker`` or None.
    :ivar asked_cores: Allotted cores of each task; ``time_limit``: limit of the job.
    :ivar swapped_out: Bytes that the machine swapped out meanwhile.
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
    """All ranks on one ``node``, with their number as ``ranks``.

    :ivar max_ram: Peak RAM of all ranks: :class:`.Bounded`. For ranks that ran at once, ``value`` needs recordings.
        Only the lower limit counts pages shared by ranks once.
    :ivar cpu_seconds: CPU time, as far as known.
    :ivar cores: Allotted or allowed cores; ``cpu_seconds_allotted``: cores times run time.
    :ivar asked_ram: Allotted RAM.
    :ivar max_gpu_ram: Highest peak GPU RAM of a rank.
    :ivar gpu_seconds: Busy time of its GPUs; ``gpu_seconds_allotted``: allotted GPUs times run time.
    :ivar system_max_ram: Peak RAM of all programs, of ``system_ram_capacity``.
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

    :ivar max_ram: Peak memory of all ranks: :class:`.Bounded`.
    :ivar mean_percent: Mean utilization by all programs, in the rank with the highest.
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
    """Processes killed for lack of memory in one control group: its ``nodes``, ``folder`` and ``ranks``.

    :ivar kills: Killed processes, tracked or not. Do not add up groups: one may include others.
    """

    nodes: tuple[str, ...]
    folder: str | None
    kills: int
    ranks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Imbalance:
    """Imbalance of the ranks in one ``step`` of a ``job``.

    :ivar figure: ``seconds``, ``cpu_seconds``, ``max_ram`` or ``max_gpu_ram``.
    :ivar rank: Rank with the largest value, ``max``.
    :ivar mean: Mean of the ``ranks`` with a known value.
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

    :ivar slowest_rank: Rank with the longest time, ``max_seconds``.
    :ivar mean_seconds: Mean time of the ranks.
    :ivar waiting_share: Part of ``max_seconds`` that the other ranks would have waited on average, from 0 to 1, if all
        ranks had ended each call together.
    :ivar is_by_call: Whether this compares single calls; otherwise it compares sums.
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

    :ivar jobs: Job IDs.
    :ivar launchers: Launchers of the ranks.
    :ivar is_running: Whether a rank still runs.
    :ivar is_lower_bound: Whether sums and maxima may be too low: a rank has no recorded end or no figures.
    :ivar started: Start of the first rank, in seconds since 1970.
    :ivar ended: Last update of any rank; ``seconds``: the time between.
    :ivar ranks_expected: Ranks of the job, if known.
    :ivar ranks_started: Ranks that started; ``never_started``: ranks that did not.
    :ivar states: Number of ranks by state of the last attempt.
    :ivar restarted: Ranks that were restarted.
    :ivar cpu_seconds: CPU time of all attempts. ``cpu_seconds_allotted`` is allotted cores times run time.
    :ivar gpu_seconds: Busy time of all used GPUs. ``gpu_seconds_allotted`` is allotted GPUs times run time.
    :ivar gpu_joules: Energy of all used GPUs; ``cpu_package_joules``: of all CPU packages.
    :ivar read: Read from storage; ``written``: written to it.
    :ivar max_ram_of_rank: Highest peak RAM of a rank: :class:`.Bounded`.
    :ivar max_ram_of_node: Highest peak RAM of a node: :class:`.Bounded`.
    :ivar asked_ram_of_node: Most RAM allotted on a node.
    :ivar nodes: Each :class:`.NodeReport`.
    :ivar gpus: Each :class:`.UsedGPU`, fullest first.
    :ivar ranks: Each :class:`.RankReport`, with all attempts.
    :ivar imbalance: Each :class:`.Imbalance`.
    :ivar regions: Each :class:`.JobRegion`, from the recordings.
    :ivar oom_kills: Each :class:`.GroupKills`.
    :ivar figures: Other figures by path: sums, or the largest of a rank.
    :ivar lower_bounds: Paths of figures that may be too low.
    :ivar problems: Sentences about missing or unreliable data.
    :ivar advice: :class:`.Advice` of ``gpu-tracker merge``.
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
