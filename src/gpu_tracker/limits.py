"""Limits of a command: what each is of, how one is written, which has been exceeded, and how a run has ended.

They belong to the tree, the command with all its descendants, as the figures of the report do, and not to each process
as those of setrlimit(2).
"""

from __future__ import annotations

from typing import NamedTuple

from gpu_tracker.errors import ParameterError
from gpu_tracker.units import SIZES_ACCEPTED, parse_size, parse_time, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from gpu_tracker.totals import Totals

UNMEASURED = 'the command runs unmeasured'
SAMPLER_ENDED = 'the sampler was ended from outside'
"""Why limits are not kept."""

TIME, CPU, MEMORY, GPU_MEMORY = 'time_limit', 'cpu_limit', 'memory_limit', 'gpu_memory_limit'
"""What ``termination_reason`` says where a limit has ended the run."""

REASONS = (TIME, CPU, MEMORY, GPU_MEMORY)

KILLED = 'killed'
"""The same of a run that was killed with its tracker, or has ended without a stop."""

ENDINGS = (*REASONS, KILLED)

SAMPLED = (CPU, MEMORY, GPU_MEMORY)
"""Those that are compared with what was sampled. The time needs no sampler."""

EXIT_CODE = 124
"""That of gpu-tracker where a limit has ended the command, as of timeout(1)."""

DURATIONS_ACCEPTED = 'a time above 0 such as 90, 90s, 30m or 1h30m (a number alone is of seconds)'
GRACES_ACCEPTED = 'a time such as 10, 10s or 2m (a number alone is of seconds; 0 sends SIGKILL at once)'

_USED = {
    TIME: 'the command and its descendants have run for {}',
    CPU: 'the command and its descendants have used {} of CPU time',
    MEMORY: 'the command and its descendants have had {} of memory',
    GPU_MEMORY: 'the command and its descendants have had {} of GPU memory',
}
_SOFT = ' (a soft limit, checked at each sample)'
_SEEN_LATE = ', which was seen only when the command had ended'
_HARD = ' (a hard limit, kept by the kernel)'
_LIMITED = {TIME: 'time', CPU: 'CPU', MEMORY: 'memory', GPU_MEMORY: 'GPU memory'}


def option_of(reason: str) -> str:
    """Return the option that sets the limit."""
    return f'--{reason.replace("_", "-")}'


class Limit(NamedTuple):
    """A limit of a command.

    :ivar reason: One of :data:`REASONS`.
    :ivar value: Seconds, CPU seconds or bytes, of which no more are to be used.
    :ivar given: The same as it was written.
    """

    reason: str
    value: float
    given: str


class RunLimits(NamedTuple):
    """The limits of a run.

    :ivar limits: Those that were given, each reason once.
    :ivar kill_after: Seconds between SIGTERM and SIGKILL.
    """

    limits: tuple[Limit, ...] = ()
    kill_after: float = 10.0

    def of(self, reason: str) -> Limit | None:
        """Return the limit with that reason; None: there is none."""
        return next((limit for limit in self.limits if limit.reason == reason), None)

    def unkept_unmeasured(self) -> str:
        """Return that none of them is kept, not even the time, since the command runs without gpu-tracker."""
        return unkept([limit.reason for limit in self.limits], UNMEASURED)

    def compared(self, kept_otherwise: Collection[str] = ()) -> dict[str, float]:
        """Return the values of the limits that the kernel does not keep, by their reasons.

        :param kept_otherwise: Reasons of the limits that it keeps.
        """
        return {limit.reason: limit.value for limit in self.limits if limit.reason not in kept_otherwise}

    def sampled(self, kept_otherwise: Collection[str] = ()) -> dict[str, float]:
        """Return the limits of :meth:`compared` that the sampler compares with its samples."""
        return {reason: value for reason, value in self.compared(kept_otherwise).items() if reason in SAMPLED}


def of_options(texts: Mapping[str, str], grace: str | None) -> RunLimits:
    """Return the limits that options set.

    :param texts: What options that set a limit were given, by their names.
    :param grace: What ``--kill-after`` was given; None: it was not.
    :raises ParameterError: where one is no time, or no size.
    """
    found = tuple(parse(reason, texts[option_of(reason)]) for reason in REASONS if option_of(reason) in texts)
    return RunLimits(found) if grace is None else RunLimits(found, parse_grace(grace))


def parse(reason: str, given: str) -> Limit:
    """Return the limit that an option was ``given``.

    :raises ParameterError: where it is none.
    """
    if reason in {TIME, CPU}:
        value: float | None = parse_time(given, of_number='s')
        accepted = DURATIONS_ACCEPTED
    else:
        value = parse_size(given)
        accepted = SIZES_ACCEPTED.replace('a size', 'a size above 0')
    if not value:
        raise ParameterError(option_of(reason), given, accepted)
    return Limit(reason, value, given.strip())


def parse_grace(given: str) -> float:
    """Return the seconds that ``--kill-after`` was ``given``.

    :raises ParameterError: where it is no time.
    """
    value = parse_time(given, of_number='s')
    if value is None:
        raise ParameterError('--kill-after', given, GRACES_ACCEPTED)
    return value


def exceeded(limits: Mapping[str, float], used: Mapping[str, float | None]) -> Iterator[tuple[str, float]]:
    """Yield the reason and the amount of each limit that was exceeded, as far as known.

    :param limits: Values by their reasons.
    :param used: What was used, by the same reasons; None, or absent: unknown.
    """
    for reason, value in limits.items():
        amount = used.get(reason)
        if amount is not None and amount > value:
            yield reason, amount


def used_in(totals: Totals) -> dict[str, float | None]:
    """Return what a run has used for certain, by the reasons of the limits.

    :param totals: The final ones.
    """
    return {
        TIME: totals['record']['tracked_seconds'],
        CPU: totals['cpu']['combined'][0],
        MEMORY: totals['ram']['combined'][0],
        GPU_MEMORY: totals['gpu']['combined'],
    }


def in_words(limit: Limit, amount: float, kill_after: float) -> str:
    """Return which limit was exceeded, by what, and what follows, for a message.

    :param amount: What was seen, in the unit of the limit.
    :param kill_after: Seconds between SIGTERM and SIGKILL.
    """
    return f'{_exceeded(limit)}: {_used(limit, amount)}. All of them get {_signals(kill_after)}.'


def seen_late_in_words(limit: Limit, amount: float) -> str:
    """Return which limit was exceeded by a command that had ended before a sample showed that, for a message.

    :param amount: What the final figures say, in the unit of the limit.
    """
    return f'{_exceeded(limit)}: {_used(limit, amount)}{_SEEN_LATE}.'


def killed_in_words(limit: Limit, kills: int, kill_after: float) -> str:
    """Return that the kernel has kept a limit of memory by ending processes, and what follows, for a message.

    :param kills: How many processes of the command's control group it has ended.
    :param kill_after: Seconds between SIGTERM and SIGKILL.
    """
    ended = f'{kills} {"process" if kills == 1 else "processes"} of its control group'
    then = f'All that are left get {_signals(kill_after)}.'
    return f'{_exceeded(limit)}: for lack of memory the kernel has ended {ended}{_HARD}. {then}'


def unkept(reasons: Iterable[str], why: str) -> str:
    """Return that limits are not kept, for a message.

    :param reasons: Which.
    :param why: Why not.
    """
    return f'{" and ".join(map(option_of, reasons))} cannot be kept: {why}'


def _used(limit: Limit, amount: float) -> str:
    used = _USED[limit.reason].format(text_of(amount, 'seconds' if limit.reason in {TIME, CPU} else 'bytes'))
    return used if limit.reason == TIME else f'{used}{_SOFT}'


def _exceeded(limit: Limit) -> str:
    size = '' if limit.reason in {TIME, CPU} else f' ({limit.value:,.0f} {"byte" if limit.value == 1 else "bytes"})'
    return f'{option_of(limit.reason)}={limit.given}{size} was exceeded'


def _signals(kill_after: float) -> str:
    return f'SIGTERM, and SIGKILL after {kill_after:g} s' if kill_after else 'SIGKILL'


def known(reason: object) -> str | None:
    """Return ``reason`` where it is one; None for all else: totals may be from a stranger's file."""
    return reason if isinstance(reason, str) and reason in ENDINGS else None


def all_known(reasons: object) -> tuple[str, ...] | None:
    """Return those of ``reasons`` that are some; None where there are none, for the same cause."""
    found = tuple(reason for reason in reasons if reason in REASONS) if isinstance(reasons, list) else ()
    return found or None


def ended_by(reason: str) -> str:
    """Return how a run has ended, in a few words, such as ``ended by its memory limit``."""
    return KILLED if reason == KILLED else f'ended by its {_LIMITED[reason]} limit'


def ended_beyond(reasons: Iterable[str]) -> str:
    """Return which limits a run has exceeded that has ended by itself, such as ``exceeded its memory limit``."""
    return f'exceeded {" and ".join(f"its {_LIMITED[reason]} limit" for reason in reasons)}'


def exit_code_in_words(code: int) -> str:
    """Return what an exit code says, which is negative for a signal: shells have another number for that."""
    if code >= 0:
        return f'with exit code {code}'
    import signal  # noqa: PLC0415 - not where there is none

    try:
        return f'by {signal.Signals(-code).name}'
    except ValueError:
        return f'by signal {-code}'  # a real-time one, or one of another system
