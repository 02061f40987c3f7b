"""What the optional readings may cost: a share of one core, saved up while it is not spent. Pure.

The basic sample is what the user asked for. The optional readings (the exact split into private and shared pages, and
the kernel's high-water marks) are paid from here.
"""

from __future__ import annotations


class Allowance:
    """CPU seconds that may be spent: ``share`` of the time that passes, and at most ``most`` saved up.

    :param share: Seconds of CPU a second of wall time.
    :param most: Where the saved-up seconds end, and where they begin: short runs get it at once.
    """

    def __init__(self, now: float, share: float = 0.01, most: float = 0.25) -> None:
        self._share = share
        self._most = most
        self._left = most
        self._at = now

    def affords(self, now: float, cost: float) -> bool:
        """Tell whether ``cost`` CPU seconds may be spent now.

        What costs more than can ever be saved up is afforded once the allowance is full, and paid off afterwards.
        """
        self._save_up(now)
        return cost <= self._left or self._left == self._most

    def count(self, now: float, cost: float) -> int:
        """Return how many things at ``cost`` CPU seconds each may be bought now."""
        self._save_up(now)
        return max(0, int(self._left / cost))

    def spend(self, cost: float) -> None:
        """Take note that ``cost`` CPU seconds were spent."""
        self._left -= cost

    def _save_up(self, now: float) -> None:
        self._left = min(self._most, self._left + (now - self._at) * self._share)
        self._at = now


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
