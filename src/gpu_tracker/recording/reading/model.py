"""What a recording holds, as plain values in base units: bytes, seconds, percent, joules. Unknown is None."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpu_tracker.limits import ended_by, exit_code_in_words
from gpu_tracker.recording.schema import STOPPED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_tracker.result.usage import JobIdentity


@dataclass(frozen=True, slots=True)
class Meta:
    """The run of a recording: ``program``, ``command``, ``folder`` and the machine.

    The machine is ``host``, ``system`` (kernel), ``machine`` (architecture), ``python``, ``cores`` and ``ram_capacity``
    in bytes.

    :ivar started: Date of the first sample (ISO 8601, UTC); also ``start_unix_us`` and, on the monotonic clock,
        ``start_monotonic_us``.
    :ivar interval: Sampling interval in seconds.
    :ivar units: Units of RAM, GPU RAM and time, and the expected cores (None: all).
    :ivar sections: Optional sections.
    :ivar root_pid: ID of the tracked process.
    :ivar totals: Totals of the run, in base units.
    :ivar ended: ``stopped`` by the tracker; ``abandoned`` after the tracker was gone; None: running or unknown.
    :ivar exit_code: Exit code of the command; also ``termination_reason`` and ``oom_kills``.
    :ivar job: :class:`~gpu_tracker.JobIdentity`.
    :ivar samples_lost: Samples that were lost; ``region_lines_lost``: lost lines of the region log.
    """

    program: str | None
    command: tuple[str, ...] | None
    folder: str | None
    host: str | None
    system: str | None
    machine: str | None
    python: str | None
    cores: int | None
    ram_capacity: int | None
    started: str | None
    start_unix_us: int | None
    start_monotonic_us: int | None
    interval: float | None
    units: tuple[str, str, str, int | None] | None
    sections: tuple[str, ...]
    root_pid: int | None
    totals: Mapping[str, Any] | None
    ended: str | None
    exit_code: int | None
    oom_kills: int
    job: JobIdentity | None
    region_lines_lost: int
    samples_lost: int
    termination_reason: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the tracker has stopped the run, and the recording has all of it."""
        return self.ended == STOPPED

    @property
    def title(self) -> str:
        """What was tracked: the words of the command, or the process."""
        return ' '.join(self.command) if self.command else f'process {or_unknown(self.root_pid)}'

    @property
    def exit_in_words(self) -> str | None:
        """How a run has ended, such as ``with exit code 0`` or ``by SIGKILL``; None: it has no exit code."""
        if self.exit_code is None:
            return None
        code = exit_code_in_words(self.exit_code)
        return code if self.termination_reason is None else f'{code}, {ended_by(self.termination_reason)}'


def or_unknown(value: object) -> str:
    """Return a value as text, ``N/A`` for None."""
    return 'N/A' if value is None else str(value)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the samples: its ``name`` and its ``meaning``.

    :ivar unit: ``bytes``, ``seconds``, ``percent``, ``joules`` or ``count``.
    :ivar kind: ``gauge`` (value of the moment) or ``counter`` (sum since the first sample).
    """

    name: str
    unit: str
    kind: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU of the machine: its ``id`` in this recording, ``uuid``, ``name`` and ``total_ram`` in bytes."""

    id: int
    uuid: str
    name: str | None
    total_ram: int | None


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One GPU at ``t`` seconds: ``gpu`` (its ``id``), ``ram``, ``utilization``.

    ``combined_ram`` is the memory of the tracked processes.
    """

    t: float
    gpu: int
    ram: int | None
    combined_ram: int | None
    utilization: float | None


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """A recorded process: its ``id`` in this recording, ``pid``, ``parent`` PID and ``name``.

    :ivar first_t: First seen, in seconds since the first sample.
    :ivar command: Its command line as ``ps`` shows it, at most 200 characters.
    """

    id: int
    pid: int
    parent: int
    name: str
    first_t: float
    command: str | None


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """One process at ``t`` seconds: ``process`` (its ``id``), ``rss`` in bytes, ``n_threads``.

    :ivar cpu: Its CPU time in seconds since its start.
    :ivar gpu_ram: Its memory on all GPUs together, in bytes.
    """

    t: float
    process: int
    rss: int | None
    cpu: float | None
    n_threads: int | None
    gpu_ram: int | None


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the tracker at ``t`` seconds: its ``level`` (``info`` or ``warning``) and ``text``."""

    t: float
    level: str
    text: str


@dataclass(frozen=True, slots=True)
class ClockPoint:
    """One moment on two clocks; where the difference changes from one to the next, the date was set.

    :ivar t: Seconds since the first sample.
    :ivar unix: Seconds since 1970.
    """

    t: float
    unix: float


@dataclass(frozen=True, slots=True)
class Bounded:
    """A figure with its limits: it is at least ``lower`` and at most ``upper``.

    ``value`` is an estimate if the limits differ; None: unknown.
    """

    value: float | None
    lower: float | None
    upper: float | None

    @property
    def is_exact(self) -> bool:
        """Whether the bounds are the value."""
        return self.value is not None and self.lower == self.value == self.upper


@dataclass(frozen=True, slots=True)
class Region:
    """One call of a region, or many calls added up (``is_folded``), in bytes and seconds.

    It has ``id``, ``parent_id``, ``name``, ``attributes``, ``process_id``, ``thread_id`` and the asyncio ``task``.
    Figures of folded calls are estimates.

    :ivar start: Start, in seconds since the first sample.
    :ivar stop: End; None: not ended. ``has_ended``: whether the end was recorded; ``seen_until``: the last sign of
        life.
    :ivar calls: Number of calls; ``errors``: calls that an exception ended; ``error``: type of the exception.
    :ivar wall_time: Time of all calls; also ``shortest``, ``longest`` and ``squares`` (sum of squares).
    :ivar thread_cpu: CPU time of its thread.
    :ivar cpu: CPU time of all tracked processes: :class:`.Bounded`.
    :ivar ram: Peak RAM of its process: :class:`.Bounded`.
    :ivar combined_ram: Highest sampled RAM of all tracked processes; ``gpu_ram``: GPU RAM. Both are lower bounds.
    :ivar gpu_utilization: Mean utilization of the used GPUs in percent, from ``gpu_samples``. ``gpu_coverage``: share
        of the time with known utilization, from 0 to 1.
    :ivar io: I/O of all tracked processes by name: :class:`.Bounded`.
    :ivar energy: Joules of the used GPUs.
    """

    id: int
    parent_id: int | None
    name: str
    attributes: Mapping[str, Any]
    process_id: int
    thread_id: int | None
    task: str | None
    start: float
    stop: float | None
    seen_until: float
    has_ended: bool
    error: str | None
    calls: int
    errors: int
    is_folded: bool
    wall_time: float | None
    shortest: float | None
    longest: float | None
    squares: float | None
    thread_cpu: float | None
    cpu: Bounded | None
    ram: Bounded | None
    combined_ram: float | None
    gpu_ram: float | None
    gpu_utilization: float | None
    gpu_coverage: float
    gpu_samples: int
    io: Mapping[str, Bounded] | None
    energy: float | None
