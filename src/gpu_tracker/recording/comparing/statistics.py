"""Statistics of the runs of two groups, by logarithms of their figures: doubling and halving are equally far."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_LARGEST_LOGARITHM = math.log(sys.float_info.max)


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive values, one at least; exactly the value where all are the same."""
    return values[0] if _are_alike(values) else math.exp(_mean_logarithm(values))


@dataclass(frozen=True, slots=True)
class Ratio:
    """The ratio of the geometric means of two groups.

    :ivar value: The ratio: 1.25 where the second group has a quarter more.
    :ivar low: The lower end of its 95 % interval; None where a group has fewer than two values.
    :ivar high: The upper end.
    """

    value: float
    low: float | None
    high: float | None


def ratio_of(first: Sequence[float], second: Sequence[float]) -> Ratio:
    """Return the geometric mean of ``second`` divided by that of ``first``, with Welch's t interval on logarithms.

    :param first: Positive values, one at least.
    :param second: The same.
    """
    difference = _mean_logarithm(second) - _mean_logarithm(first)
    value = _exponential(difference)
    if len(first) == 1 or len(second) == 1:
        return Ratio(value, None, None)
    errors = [_squared_error(first), _squared_error(second)]
    error = math.fsum(errors)
    if error == 0:
        return Ratio(value, value, value)
    # Welch and Satterthwaite; by the shares of the error, since the squares of tiny errors would be 0.
    shares = [part / error for part in errors]
    freedom = 1 / math.fsum(share**2 / (len(group) - 1) for share, group in zip(shares, (first, second), strict=True))
    half = student(freedom) * math.sqrt(error)
    return Ratio(value, _exponential(difference - half), _exponential(difference + half))


def _are_alike(values: Sequence[float]) -> bool:
    return values.count(values[0]) == len(values)


def _mean_logarithm(values: Sequence[float]) -> float:
    """Return the mean of the logarithms; that of one of them where all are the same, without an error of rounding."""
    return math.log(values[0]) if _are_alike(values) else math.fsum(map(math.log, values)) / len(values)


def _squared_error(values: Sequence[float]) -> float:
    """Return the squared standard error of the mean of the logarithms of two or more values."""
    if _are_alike(values):
        return 0.0
    mean = _mean_logarithm(values)
    variance = math.fsum((math.log(value) - mean) ** 2 for value in values) / (len(values) - 1)
    return variance / len(values)


def _exponential(exponent: float) -> float:
    """Return the exponential, the largest number where it is beyond all of them."""
    return math.exp(exponent) if exponent < _LARGEST_LOGARITHM else sys.float_info.max


_NORMAL = 1.959963984540054
"""The 97.5 % point of the normal distribution: that of Student's lies above it, and comes to it with the freedom."""
_OUTSIDE = 0.05
_PRECISION = 1e-13
_MOST_STEPS = 200


def student(freedom: float) -> float:
    """Return the 97.5 % point of Student's distribution with ``freedom`` degrees of freedom, 1 or more.

    The two tails are an incomplete beta function (Abramowitz and Stegun, 26.7.1 and 26.5.27). They are convex, so
    Newton's steps from the left never go past the point.
    """
    point = _NORMAL
    for _ in range(_MOST_STEPS):
        step = (_tails(point, freedom) - _OUTSIDE) / (2 * _density(point, freedom))
        point += step
        if abs(step) <= _PRECISION * point:
            break
    return point


def _density(point: float, freedom: float) -> float:
    logarithm = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - math.log(freedom * math.pi) / 2
    return math.exp(logarithm - (freedom + 1) / 2 * math.log1p(point**2 / freedom))


def _tails(point: float, freedom: float) -> float:
    """Return the probability of values beyond ``point`` on both sides."""
    return _incomplete_beta(freedom / (freedom + point**2), freedom / 2, 0.5)


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function for 0 < x < 1."""
    factor = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return factor * _beta_fraction(x, a, b) / a
    return 1 - factor * _beta_fraction(1 - x, b, a) / b  # where the fraction for x itself converges slowly


_TINY = 1e-300


def _beta_fraction(x: float, a: float, b: float) -> float:
    """Return the continued fraction of the incomplete beta function, by Lentz's method."""
    upper, lower = 1.0, 1 / _not_zero(1 - (a + b) * x / (a + 1))
    result = lower
    for step in range(1, 10_000):
        even = step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step))
        odd = -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1))
        for part in (even, odd):
            lower = 1 / _not_zero(1 + part * lower)
            upper = _not_zero(1 + part / upper)
            result *= upper * lower
        if abs(upper * lower - 1) < _PRECISION / 10:
            break
    return result


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
