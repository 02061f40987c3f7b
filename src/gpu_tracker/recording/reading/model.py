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
    """What run was recorded, where, and how it ended.

    :ivar program: The gpu-tracker that has written the recording, with its version.
    :ivar command: The words of the tracked command; None where a process was tracked.
    :ivar folder: Where the run was started.
    :ivar host: The name of the machine.
    :ivar system: The release of its kernel.
    :ivar machine: Its architecture.
    :ivar python: The version of the sampler's Python.
    :ivar cores: The logical cores of the machine.
    :ivar ram_capacity: All RAM of the machine in bytes.
    :ivar started: The date of the first sample, ISO 8601 in UTC.
    :ivar start_unix_us: The same in microseconds since 1970.
    :ivar start_monotonic_us: The same on the system's monotonic clock. All times of a recording count from here.
    :ivar interval: The sampling interval in seconds.
    :ivar units: The units that the result was wanted in: of RAM, of GPU RAM and of time, and the number of cores that
        were expected to be used, None for all.
    :ivar sections: The optional sections that were asked for.
    :ivar root_pid: The pid of the tracked process.
    :ivar totals: What the whole run has used, in base units, from which the result is made.
    :ivar ended: ``stopped`` where the tracker has stopped the run, ``abandoned`` where it was gone before; None where
        the sampler was gone as well, or the run is still going on.
    :ivar exit_code: That of the command.
    :ivar oom_kills: How many processes of its control group were killed for lack of memory, as far as that is known.
    :ivar job: Which rank of which job it was; None where no launcher had started it.
    :ivar region_lines_lost: How many lines of the region log could not be kept.
    :ivar samples_lost: How many samples could not be kept, since the file could not be written for too long.
    :ivar termination_reason: Which limit has ended the run, as in the result; None where none has.
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
    """A column of the samples.

    :ivar name: Its name.
    :ivar unit: Its base unit: ``bytes``, ``seconds``, ``percent``, ``joules`` or ``count``.
    :ivar kind: ``gauge``: a value of the moment; ``counter``: what was used since the first sample.
    :ivar meaning: What it means, in a sentence.
    """

    name: str
    unit: str
    kind: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU of the machine.

    :ivar id: Its number in this recording.
    :ivar uuid: Its UUID.
    :ivar name: What it is sold as.
    :ivar total_ram: Its memory in bytes.
    """

    id: int
    uuid: str
    name: str | None
    total_ram: int | None


@dataclass(frozen=True, slots=True)
class GpuSample:
    """What one GPU showed at one sample.

    :ivar t: Seconds since the first sample.
    :ivar gpu: The number of the GPU.
    :ivar ram: Its memory in use, in bytes.
    :ivar combined_ram: What of it the tracked processes used.
    :ivar utilization: How busy it was, in percent.
    """

    t: float
    gpu: int
    ram: int | None
    combined_ram: int | None
    utilization: float | None


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """A tracked process, where processes were recorded.

    :ivar id: Its number in this recording; pids are used again.
    :ivar pid: Its pid.
    :ivar parent: The pid of its parent when it was first seen.
    :ivar name: Its name.
    :ivar first_t: When it was first seen, in seconds since the first sample.
    :ivar command: Its command line as ``ps`` shows it, 200 characters at most.
    """

    id: int
    pid: int
    parent: int
    name: str
    first_t: float
    command: str | None


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """What one process showed at one sample.

    :ivar t: Seconds since the first sample.
    :ivar process: The number of the process in this recording.
    :ivar rss: Its resident set size in bytes.
    :ivar cpu: Its CPU time in seconds since it started.
    :ivar n_threads: Its threads.
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
    """What the tracker has said to its user.

    :ivar t: When, in seconds since the first sample.
    :ivar level: ``info`` or ``warning``.
    :ivar text: The message.
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
    """A figure with what is certain of it.

    :ivar value: The figure; an estimate where the bounds differ; None where none can be made.
    :ivar lower: It is not less than this.
    :ivar upper: It is not more than this.
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
    """A region of the program, or the sum of many calls of one, with what was used in it.

    Calls that were folded (``is_folded``) began and ended between ``start`` and ``stop``, with other things in between:
    figures of the tree are then estimates by the share of that time which the calls took.

    :ivar id: Its number, unique in the recording.
    :ivar parent_id: The region in which it was begun.
    :ivar name: Its name.
    :ivar attributes: What was given with the name.
    :ivar process_id: The pid of its process.
    :ivar thread_id: The thread that began it.
    :ivar task: The asyncio task that began it.
    :ivar start: Seconds since the first sample, at its begin.
    :ivar stop: At its end; None where it has not ended.
    :ivar seen_until: The same, or the last sign of life of its process.
    :ivar has_ended: Its end was recorded: False where the run, or its process, ended before.
    :ivar error: The name of the type of the exception that has ended it.
    :ivar calls: How many calls it stands for.
    :ivar errors: How many of them an exception has ended.
    :ivar is_folded: It is the sum of calls.
    :ivar wall_time: Its time in seconds, that of all calls together; None where it has not ended.
    :ivar shortest: The shortest call.
    :ivar longest: The longest call.
    :ivar squares: The sum of the squares of the calls' times.
    :ivar thread_cpu: CPU time of its own thread.
    :ivar cpu: CPU time of all tracked processes in it.
    :ivar ram: The most RAM of its own process in it.
    :ivar combined_ram: The most RAM of all tracked processes at any sample in it: a lower bound.
    :ivar gpu_ram: The most GPU RAM of all tracked processes at any sample in it: a lower bound.
    :ivar gpu_utilization: How busy the GPUs in use were: the mean over them and over time, in percent.
    :ivar gpu_coverage: The share of it, from 0 to 1, of which the GPU's utilization is known.
    :ivar gpu_samples: How many samples that is from.
    :ivar io: What all tracked processes read, wrote and faulted in it, by name; None where that was not sampled.
    :ivar energy: Joules of the GPUs that the tracked processes used.
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
