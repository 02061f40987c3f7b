"""The calls of code blocks: which stop belongs to which start."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

START = 0
STOP = 1


class Row(NamedTuple):
    """One row of a sub-tracking file; ``call_id`` is None where the file has none, as those of gpu-tracker 5."""

    process_id: int
    name: str
    position: int
    timestamp: float
    call_id: int | None


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a block, or a recording's sum of many calls that began and ended between ``start`` and ``stop``.

    Times are Unix times, durations seconds; ``squares`` is the sum of the squares of the calls' durations.
    """

    start: float
    stop: float
    n_calls: int
    total: float
    shortest: float
    longest: float
    squares: float

    @classmethod
    def single(cls, start: float, stop: float) -> Call:
        """Return one call."""
        lasted = stop - start
        return cls(start, stop, 1, lasted, lasted, lasted, lasted * lasted)


@dataclass(slots=True)
class BlockCalls:
    """All calls of one block, in the order of process ids and starts, and how many have no stop."""

    calls: list[Call] = field(default_factory=list)
    n_unfinished: int = 0

    def compute_time(self) -> dict[str, float | None]:
        """Return the statistics of the calls' durations in seconds; the standard deviation is that of all calls."""
        n_calls = sum(call.n_calls for call in self.calls)
        total = math.fsum(call.total for call in self.calls)
        if not n_calls:
            return {'min': None, 'max': None, 'mean': None, 'std': None, 'total': 0.0}
        mean = total / n_calls
        # of a single call without the difference of two large squares
        squares = math.fsum(
            (call.total - mean) ** 2
            if call.n_calls == 1
            else max(call.squares - 2 * mean * call.total + call.n_calls * mean * mean, 0.0)
            for call in self.calls
        )
        return {
            'min': min(call.shortest for call in self.calls),
            'max': max(call.longest for call in self.calls),
            'mean': mean,
            'std': math.sqrt(squares / n_calls),
            'total': total,
        }


def paired(rows: Iterable[Row]) -> dict[str, BlockCalls]:
    """Return the calls of each block.

    Rows with a call id are paired by it. Those without are paired in the order of time in each process, a stop with the
    latest start that has none yet: right for calls inside each other, a guess for calls of two threads at once.
    """
    blocks: dict[str, BlockCalls] = {}
    opened: dict[tuple[int, str, int | None], list[float]] = {}
    found: dict[str, list[tuple[int, float, float]]] = {}
    for row in sorted(rows, key=lambda row: (row.process_id, row.timestamp)):  # stable: of equal times as in the file
        blocks.setdefault(row.name, BlockCalls())
        starts = opened.setdefault((row.process_id, row.name, row.call_id), [])
        if row.position == START:
            starts.append(row.timestamp)
        elif starts:
            found.setdefault(row.name, []).append((row.process_id, starts.pop(), row.timestamp))
        if not starts:
            del opened[row.process_id, row.name, row.call_id]
    for (_, name, _), starts in opened.items():
        blocks[name].n_unfinished += len(starts)
    for name, calls in found.items():
        blocks[name].calls = [Call.single(start, stop) for _, start, stop in sorted(calls)]
    return blocks
