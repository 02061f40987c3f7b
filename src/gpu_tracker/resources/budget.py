"""What measuring may cost: a share of one core, saved up while it is not spent.

The basic sample is what the user asked for with the sampling interval. The optional readings (exact readings of pages,
and the kernel's high-water marks) are paid from a :class:`Budget`. If the user sets the share, it is an
:class:`OverheadLimit`, which bounds everything.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MOST_AT_EDGE = 0.005
"""CPU seconds that a reading may take at the first and the last sample, whatever is left of the budget."""
_AT_THE_START = 10.0
"""Seconds whose share is there from the start under a limit."""
_FOR_OPTIONAL = 0.25
"""The part of a limit that basic samples leave to the optional readings."""
_LONGEST_PAUSE = 1e6
"""Seconds that samples may lie apart under a limit, however small it is."""
_MOST_SAVED = 1.0
"""CPU seconds that may be saved up under a limit, for readings of large trees."""
_FIRST_SAMPLE_COST = 0.0005
"""CPU seconds of a basic sample, until that has been measured."""


class Budget:
    """CPU seconds that may be spent: ``share`` of the time that passes, and at most ``most`` saved up.

    :param share: Seconds of CPU a second of wall time.
    :param most: Where the saved-up seconds end, and where they begin: short runs get it at once.
    """

    def __init__(self, now: float, share: float = 0.01, most: float = 0.25) -> None:
        self._share = share
        self._most = most
        self._left = most
        self._at = now
        self.spent = 0.0
        """All CPU seconds that were spent."""
        self._has_refused = False
        """A reading waits until enough is saved up."""

    def affords(self, now: float, cost: float) -> bool:
        """Return whether ``cost`` CPU seconds may be spent now.

        What costs more than can ever be saved up is afforded once the budget is full, and paid off afterwards.
        """
        self._save_up(now)
        self._has_refused = cost > self._left < self._most
        return not self._has_refused

    def affords_extra_sample(self, now: float, cost: float) -> bool:
        """Return whether ``cost`` may be spent on an extra sample. Half of the budget is kept for readings."""
        self._save_up(now)
        return not self._has_refused and self._left - cost >= self._most / 2

    def affords_at_edge(self, now: float, cost: float, most: float) -> bool:
        """Return whether ``cost`` may be spent at the first or the last sample, where that is at most ``most``."""
        del now  # nobody waits for the budget there
        return cost <= most

    def count(self, now: float, cost: float) -> int:
        """Return how many marks may be read at ``cost`` CPU seconds each. Half of the budget is kept for readings."""
        self._save_up(now)
        return max(0, int((self._left - self._most / 2) / cost))

    def spend(self, cost: float) -> None:
        """Take note that ``cost`` CPU seconds were spent."""
        self._left -= cost
        self.spent += cost

    def _save_up(self, now: float) -> None:
        self._left = min(self._most, self._left + (now - self._at) * self._share)
        self._at = now


class OverheadLimit:
    """CPU seconds that may be spent on everything: a share of the time that has passed since :meth:`begin`.

    What has been spent is the CPU time of the whole process. What ten seconds allow is there from the start, so that
    short runs have something; apart from that nothing is afforded before it was saved up, and no more than the share is
    ever spent. A quarter of it is kept for the optional readings: basic samples alone would use up all, and never tell
    what processes share. Has the methods of an :class:`Budget` for these; while it does not count yet, samples are
    afforded, and optional readings at the edge only.

    :param share: Seconds of CPU a second of wall time.
    :param cpu_time: The CPU seconds that this process has used.
    """

    def __init__(self, share: float, cpu_time: Callable[[], float]) -> None:
        self.share = share
        self._cpu_time = cpu_time
        self._at: float | None = None
        self._left = 0.0
        self._kept = 0.0
        self._cpu_before = 0.0
        self._cpu_at_sample = 0.0
        self._optional = 0.0
        self._sample_cost = _FIRST_SAMPLE_COST

    def begin(self, now: float) -> None:
        """Count from now on; what was spent until now does not count."""
        self._at = now
        self._left = _AT_THE_START * self.share
        self._kept = _FOR_OPTIONAL * self._left
        self._optional = 0.0
        self._cpu_before = self._cpu_at_sample = self._cpu_time()

    def suspend(self) -> None:
        """Count nothing until :meth:`begin` is called again."""
        self._at = None

    def affords(self, now: float, cost: float) -> bool:
        """Return whether ``cost`` CPU seconds may be spent now."""
        return cost <= self._saved_up(now)

    def affords_at_edge(self, now: float, cost: float, most: float) -> bool:
        """Return whether ``cost`` may be spent at the first or the last sample, where that is at most ``most``."""
        return cost <= most and (self._at is None or cost <= self._saved_up(now))

    def count(self, now: float, cost: float) -> int:
        """Return how many things at ``cost`` CPU seconds each may be bought now."""
        return max(0, int(self._saved_up(now) / cost))

    def spend(self, cost: float) -> None:
        """Take note that ``cost`` CPU seconds were no part of the basic sample."""
        self._optional += cost
        self._kept = max(0.0, self._kept - cost)

    def seconds_to_next_sample(self, now: float) -> float:
        """Take note that a sample has ended, and return after how long another one can be paid."""
        cpu = self._cpu_time()
        cost = max(0.0, cpu - self._cpu_at_sample - self._optional)
        self._cpu_at_sample = cpu
        self._optional = 0.0
        self._sample_cost += 0.2 * (cost - self._sample_cost)
        if self._at is None:
            return 0.0
        missing = self._sample_cost - (self._saved_up(now) - self._kept)
        return min(_LONGEST_PAUSE, max(0.0, missing / (self.share * (1 - _FOR_OPTIONAL))))

    def _saved_up(self, now: float) -> float:
        if self._at is None:
            return 0.0
        cpu = self._cpu_time()
        earned = (now - self._at) * self.share
        most = max(_MOST_SAVED, 2 * self._sample_cost)
        self._left = min(most, self._left + earned - (cpu - self._cpu_before))
        self._kept = min(_FOR_OPTIONAL * most, self._kept + _FOR_OPTIONAL * earned)
        self._at = now
        self._cpu_before = cpu
        return self._left


class CostEstimate:
    """Predicts the cost of a reading from what earlier ones have cost: a price for each process and for each byte."""

    def __init__(self, per_process: float, per_byte: float) -> None:
        self._per_process = per_process
        self._per_byte = per_byte
        self._correction = 1.0

    def of(self, processes: int, size: int) -> float:
        """Return the CPU seconds to expect for reading ``processes`` with ``size`` resident bytes together."""
        return self._correction * (processes * self._per_process + size * self._per_byte)

    def learn(self, processes: int, size: int, cost: float) -> None:
        """Take note of what it has really cost."""
        expected = processes * self._per_process + size * self._per_byte
        if expected > 0:
            self._correction += 0.5 * (min(10.0, max(0.1, cost / expected)) - self._correction)
