"""Medians, ratios and intervals of what several rounds have given."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist, mean, median, stdev
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LEAST_PAIRS = 3
_BOTH_TAILS = 0.05
_WIDEST = 4
"""An interval may be so many limits wide: with a limit of 0.5 %, 1 % to both sides."""


@dataclass(frozen=True)
class Interval:
    """A mean and its 95 % interval."""

    mean: float
    low: float
    high: float

    def is_harmless(self, limit: float) -> bool | None:
        """Tell whether it includes 0 or lies below the limit; None where it is too wide to tell that from harm."""
        if self.low <= 0 <= self.high and self.high - self.low > _WIDEST * limit:
            return None
        return self.low <= 0 or self.high < limit


def median_of(rounds: Mapping[int, float]) -> float | None:
    """Return the median over the rounds; None where there are none."""
    return median(rounds.values()) if rounds else None


def ratio_of(numerators: Mapping[int, float], denominators: Mapping[int, float]) -> float | None:
    """Return the median of the ratios of the same rounds: what changed between two rounds has no part in it."""
    ratios = ratios_of(numerators, denominators)
    return median(ratios) if ratios else None


def ratios_of(numerators: Mapping[int, float], denominators: Mapping[int, float]) -> list[float]:
    """Return the ratios of the rounds that have both."""
    return [value / denominators[number] for number, value in numerators.items() if denominators.get(number, 0) != 0]


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % interval of the median, by the sign test: a few outliers have no part in it.

    It lies between two of the values, and contains the median of all that could have been measured with a probability
    of 95 % at least, whatever their distribution. None for fewer than six values.
    """
    number = len(values)
    outside, tail = -1, 0.0
    while tail + (more := math.comb(number, outside + 1) / 2**number) <= _BOTH_TAILS / 2:
        outside, tail = outside + 1, tail + more
    if outside < 0:
        return None
    ordered = sorted(values)
    return ordered[outside], ordered[-1 - outside]


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the smallest value that is not below so many percent of the values: the nearest rank.

    :param values: One at least.
    """
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def mean_interval(values: Sequence[float]) -> Interval | None:
    """Return the mean and its interval by Student's distribution; None for fewer than three values."""
    if len(values) < _LEAST_PAIRS:
        return None
    middle = mean(values)
    half = _student(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return Interval(middle, middle - half, middle + half)


def _student(freedom: int) -> float:
    """Return the 97.5 % point of Student's distribution, by its expansion about the normal one; 1 % off from 4 on."""
    z = NormalDist().inv_cdf(0.975)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3
