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
    """Facts about a recorded run (``command``). ``folder`` is the working folder.

    ``program`` is the version of gpu-tracker.

    The machine is described by ``host``, ``system`` (kernel version), ``machine`` (architecture), ``python``, ``cores``
    and ``ram_capacity`` (bytes).

    :ivar started: Time of the first sample (ISO 8601, UTC). The same time in microseconds: ``start_unix_us`` (since
        1970) and ``start_monotonic_us`` (monotonic clock).
    :ivar interval: Sampling interval in seconds.
    :ivar units: Units of RAM, GPU RAM and time. The fourth value is the tracker's parameter ``n_expected_cores``.
    :ivar sections: Requested optional sections of the result, such as ``io``.
    :ivar root_pid: Process ID of the tracked process.
    :ivar totals: Result of the run as a dictionary, in bytes, seconds, percent and joules.
    :ivar ended: ``stopped`` after a normal end, ``abandoned`` if the tracker was killed, None if no end was recorded.
    :ivar exit_code: Exit code of the command. ``termination_reason`` is the limit that ended the command. ``oom_kills``
        counts processes killed for lack of memory.
    :ivar job: Job and rank of the tracked process (:class:`~gpu_tracker.JobIdentity`).
    :ivar samples_lost: Number of samples that could not be written. ``region_lines_lost`` counts lost lines of the
        region log.
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
    """A column in the table of samples: its ``name`` and its ``meaning``.

    :ivar unit: ``bytes``, ``seconds``, ``percent``, ``joules`` or ``count``.
    :ivar kind: ``gauge`` for a value at the time of the sample, ``counter`` for a sum since the first sample.
    """

    name: str
    unit: str
    kind: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU of the machine (``uuid``, ``name``). ``id`` is the GPU's number in the recording.

    ``total_ram`` is in bytes.
    """

    id: int
    uuid: str
    name: str | None
    total_ram: int | None


@dataclass(frozen=True, slots=True)
class GpuSample:
    """A sample of one GPU. ``t`` is the time in seconds since the first sample.

    ``gpu`` is the ``id`` of the :class:`.Gpu`. ``ram`` is the GPU memory of all programs, in bytes. ``combined_ram`` is
    the GPU memory of the tracked processes. ``utilization`` is in percent.
    """

    t: float
    gpu: int
    ram: int | None
    combined_ram: int | None
    utilization: float | None


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """A recorded process (``pid``, ``name``). ``id`` is its number in the recording, not the PID. ``parent`` is a PID.

    :ivar first_t: When the process was first seen, in seconds since the first sample.
    :ivar command: Command line of the process as ``ps`` shows it, at most 200 characters.
    """

    id: int
    pid: int
    parent: int
    name: str
    first_t: float
    command: str | None


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """A sample of one process. ``t`` is the time in seconds since the first sample.

    :ivar process: The ``id`` of the :class:`.ProcessRecord`, not the process ID.
    :ivar rss: RAM of the process in bytes. ``n_threads`` is the number of threads.
    :ivar cpu: CPU time of the process since its start, in seconds.
    :ivar gpu_ram: Memory of the process on all GPUs together, in bytes.
    """

    t: float
    process: int
    rss: int | None
    cpu: float | None
    n_threads: int | None
    gpu_ram: int | None


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the tracker, with ``level`` (``info`` or ``warning``) and ``text``.

    ``t`` is the time of the message, in seconds since the first sample.
    """

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
    """A figure with limits: the true value is at least ``lower`` and at most ``upper``.

    If ``lower`` and ``upper`` differ, ``value`` is an estimate or None.
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
    """One call of a region (a named part of a program), or the sum of many calls, in bytes and seconds.

    A region has ``id``, ``name``, ``attributes``, ``process_id`` and ``thread_id``. ``parent_id`` is the enclosing
    region. ``task`` is the asyncio task. If ``is_folded`` is true (sum of many calls), ``cpu``, ``io`` and ``energy``
    are estimates.

    :ivar start: Start of the region, in seconds since the first sample.
    :ivar stop: End of the region, in seconds since the first sample. If no end was recorded, ``stop`` is None and
        ``has_ended`` is False. ``seen_until`` is when the region was last known to run.
    :ivar calls: Number of calls. ``errors`` counts calls that raised an exception. ``error`` is the type of the
        exception.
    :ivar wall_time: Wall time of all calls together. ``shortest`` and ``longest`` are times of single calls.
        ``squares`` is the sum of squared times.
    :ivar thread_cpu: CPU time of the thread that ran the region.
    :ivar cpu: CPU time of all tracked processes during the region (:class:`.Bounded`).
    :ivar ram: Peak RAM of the process that ran the region (:class:`.Bounded`).
    :ivar combined_ram: Highest RAM of all tracked processes in samples during the region. ``gpu_ram`` is the highest
        GPU RAM. Real peaks may be higher.
    :ivar gpu_utilization: Mean utilization of the used GPUs in percent, from ``gpu_samples`` samples. ``gpu_coverage``
        is the share of the region's time (0 to 1) with known utilization.
    :ivar io: I/O of all tracked processes. Each figure, such as ``io.read``, is a :class:`.Bounded`.
    :ivar energy: Energy of the used GPUs in joules.
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
