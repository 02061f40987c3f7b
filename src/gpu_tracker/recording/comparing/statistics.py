"""Statistics of the runs of two groups, by logarithms of their figures: doubling and halving are equally far."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
"""The 97.5 % point of the normal distribution. That of Student's distribution is larger."""
_BEYOND = 0.475
"""The probability between 0 and the point."""
_PRECISION = 1e-12
_PARTS = 200


def student(freedom: float) -> float:
    """Return the 97.5 % point of Student's distribution with ``freedom`` degrees of freedom, 1 or more.

    Its density falls, so Newton's steps from the left never pass the point.
    """
    factor = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)

    def density(point: float) -> float:
        return factor * math.exp(-(freedom + 1) / 2 * math.log1p(point**2 / freedom))

    point, area, step = 0.0, 0.0, _NORMAL
    while step > _PRECISION * point:
        area += _integral(density, point, point + step)
        point += step
        step = (_BEYOND - area) / density(point)
    return point


def _integral(function: Callable[[float], float], begin: float, end: float) -> float:
    """Return the integral by Simpson's rule."""
    width = (end - begin) / _PARTS
    values = [function(begin + width * number) for number in range(_PARTS + 1)]
    return width / 3 * (values[0] + 4 * math.fsum(values[1::2]) + 2 * math.fsum(values[2:-1:2]) + values[-1])
