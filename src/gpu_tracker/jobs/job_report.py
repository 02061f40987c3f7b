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
    """One run of one rank. A rank that was started again has one for each attempt.

    :ivar label: By which it is named: the rank, with task and step where there are several.
    :ivar job: The job, :attr:`.JobIdentity.job`; the following three as there.
    :ivar array_task: The task of an array.
    :ivar step: The step of the job.
    :ivar rank: The rank.
    :ivar attempt: How often it was started again before.
    :ivar node: Its node.
    :ivar state: ``ended``, ``failed``, ``killed``, ``lost``, ``running`` or ``unmeasured``.
    :ivar exit_code: The exit code of its command; -n if signal n has ended it.
    :ivar signal: The name of that signal.
    :ivar started: When it began, in seconds since 1970.
    :ivar updated: When it was heard of last.
    :ivar seconds: How long it ran, or was seen to run.
    :ivar cpu_seconds: CPU time of all its processes.
    :ivar max_ram: The most RAM of all its processes, with what is certain of it.
    :ivar max_gpu_ram: The most GPU RAM.
    :ivar gpu_utilization: How busy the GPUs that it counts were on average, in percent, summed over them.
    :ivar read: Bytes read from storage, where the section ``io`` was asked for.
    :ivar written: Bytes written to it.
    :ivar recording: The path of its recording.
    :ivar figures: Known figures of its result by their paths, such as ``io.combined.read``.
    :ivar lower_bounds: The paths of lower bounds among them.
    :ivar termination_reason: Which limit has ended its command, as in ``ResourceUsage``; None where none has.
    :ivar exceeded_limits: Limits that its command has exceeded without being ended, as there; None: there are none.
    :ivar own_group_memory_peak: The most memory that was charged to the control group of its command (``--cgroup``),
        page cache and kernel memory included; None where it had none.
    :ivar max_cores: The most cores that its processes used at once.
    :ivar batch_system: The batch system that it ran in: ``slurm``, ``kubernetes`` or ``docker``; None: there was none.
    :ivar asked_cores: The cores that each task was given by the batch system.
    :ivar time_limit: The time limit of the job in seconds.
    :ivar swapped_out: Bytes that the machine moved to swap while it ran, of any process.
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
    """What all ranks on one node used together.

    :ivar node: Its name.
    :ivar ranks: How many ranks ran there.
    :ivar max_ram: The most RAM of them at one moment. ``value`` needs recordings where several ran at once. Pages that
        several ranks share count once in the lower bound only.
    :ivar cpu_seconds: Their CPU time, of those of which it is known.
    :ivar cores: The cores that the job was given there, or that its ranks may use.
    :ivar cpu_seconds_allotted: These, times the seconds for which the job ran there.
    :ivar asked_ram: The bytes of RAM that the job was given there.
    :ivar max_gpu_ram: The most GPU RAM of any rank there.
    :ivar gpu_seconds: For how many seconds its GPUs were busy, those that the ranks used, each counted once.
    :ivar gpu_seconds_allotted: The GPUs that the job was given there, times the seconds for which it ran there.
    :ivar system_max_ram: The most RAM that everybody used on the machine.
    :ivar system_ram_capacity: All RAM of the machine.
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
    """One GPU that ranks used.

    :ivar node: The node.
    :ivar label: Its name on the node: ``GPU 3``.
    :ivar uuid: Its UUID.
    :ivar capacity: Its memory.
    :ivar max_ram: The most memory of it that all ranks there had: between the largest of one rank and the sum of all.
    :ivar mean_percent: How busy it was on average, whoever used it, in the rank in which it was busiest.
    :ivar ranks: The labels of the ranks.
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
    """A control group in which the kernel has killed processes for lack of memory while ranks ran in it.

    :ivar nodes: The node; several where several nodes of the launcher are one machine.
    :ivar folder: The folder of the group, as the first of these ranks has seen it.
    :ivar kills: How many processes, tracked or not, each once however many ranks have seen it. Version 2 of control
        groups counts those of the groups below too, so kills of several groups are not to be added up. It is a lower
        bound where kills were counted in a group below that was removed before a later rank began (version 1).
    :ivar ranks: The labels of the ranks that ran in it.
    """

    nodes: tuple[str, ...]
    folder: str | None
    kills: int
    ranks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Imbalance:
    """How unequal the ranks of one step were.

    :ivar figure: ``seconds``, ``cpu_seconds``, ``max_ram`` or ``max_gpu_ram``.
    :ivar job: The job.
    :ivar step: The step.
    :ivar rank: The label of the rank that has the most.
    :ivar max: What it has.
    :ivar mean: The mean of all ranks of which it is known.
    :ivar ratio: The one by the other: 1 where all are equal.
    :ivar ranks: How many ranks that is from.
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
    """A region of the program in all ranks.

    :ivar path: The names from the outermost region to this one.
    :ivar ranks: How many ranks have been in it.
    :ivar calls: How often all of them together.
    :ivar slowest_rank: The label of the rank that was in it for the longest time.
    :ivar max_seconds: For how long that was.
    :ivar mean_seconds: The mean of all ranks.
    :ivar waiting_share: The share of the slowest rank's time for which the others, on average, would have waited for it
        if each call had ended in all ranks together, from 0 to 1. Calls are compared one by one where all ranks have
        the same number of them (``is_by_call``), else their sums.
    :ivar is_by_call: See above.
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
    """What all ranks of a job used together.

    :ivar jobs: The jobs that were found, by their IDs.
    :ivar launchers: What has started the ranks.
    :ivar is_running: Whether a rank still runs; then the figures are those so far.
    :ivar is_lower_bound: Whether sums and maxima are lower bounds: the end of a rank was not seen, or nothing is known
        of what it used.
    :ivar started: When the first rank began, in seconds since 1970.
    :ivar ended: When the last one was heard of.
    :ivar seconds: The time between.
    :ivar ranks_expected: How many ranks there should be, where the launcher says it.
    :ivar ranks_started: How many of them have begun.
    :ivar never_started: The labels of the others.
    :ivar states: How many ranks are in each state, that of their last attempt.
    :ivar restarted: The labels of ranks that were started again.
    :ivar cpu_seconds: CPU time of all ranks and attempts.
    :ivar cpu_seconds_allotted: The cores that the job was given, times the time for which it ran, over all nodes.
    :ivar gpu_seconds: For how many seconds GPUs were busy, over all GPUs that the ranks used.
    :ivar gpu_seconds_allotted: The GPUs that the job was given, times the time for which it ran.
    :ivar gpu_joules: Energy of the GPUs that the ranks used, each counted once, as whole devices.
    :ivar cpu_package_joules: Energy of the CPU packages of all machines.
    :ivar read: Bytes that all ranks together read from storage.
    :ivar written: Bytes that they wrote to it.
    :ivar max_ram_of_rank: The most RAM of any one rank.
    :ivar max_ram_of_node: The most RAM of the ranks on any one node, see :attr:`NodeReport.max_ram`.
    :ivar asked_ram_of_node: What the job was given of the node that was given most.
    :ivar nodes: The nodes by their names.
    :ivar gpus: The GPUs that ranks used, fullest first.
    :ivar ranks: The ranks in order, each with all its attempts.
    :ivar imbalance: How unequal the ranks were, by step and figure.
    :ivar regions: The regions of the program, where there are recordings that have some.
    :ivar oom_kills: The control groups in which processes were killed for lack of memory, each once.
    :ivar figures: Known figures of all ranks and attempts by their paths: sums, or the largest of any rank.
    :ivar lower_bounds: The paths of figures that may be too low: a rank's is a lower bound or unknown.
    :ivar problems: What has to be known before the figures are believed.
    :ivar advice: What the job suggests for the next one, most urgent first. Only ``gpu-tracker merge`` and its pages
        have it. Not in JSON if there is none.
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
        """Return all of it as dictionaries, lists, texts, numbers and None, which :func:`json.dumps` takes."""
        return {name: value for name, value in asdict(self).items() if value or name != 'advice'}

    def __str__(self) -> str:
        """Return it as the text that ``gpu-tracker merge`` prints."""
        text: str = make('job as text', self)
        return text

    def _repr_html_(self) -> str:
        """Return it as tables, for notebooks."""
        html: str = make('job as HTML', self)
        return html
