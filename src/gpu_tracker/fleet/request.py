"""Makes a request for GPUs out of what a user gives, checked. The names are those of the public functions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gpu_tracker.errors import ParameterError
from gpu_tracker.fleet.choice import ORDERS, Request
from gpu_tracker.fleet.wish import Wish
from gpu_tracker.units import SIZES_ACCEPTED, parse_size

if TYPE_CHECKING:
    from collections.abc import Sequence

_WHOLE = 100.0
_PERCENTAGE = 'a percentage from 0 to 100'
_DEGREES = 'a number of degrees Celsius'
_COUNT = 'a positive whole number'
_SECONDS = 'a positive number of seconds'


def make_request(
    *,
    max_used_percent: float = 20.0,
    max_utilization: float | None = None,
    min_free: int | str | None = None,
    max_temperature: float | None = None,
    limit: int | None = None,
    count: int | None = None,
    order: str = 'index',
    uuid: bool = False,
    exclude: Sequence[str | int] = (),
    visible_devices: str | None = None,
) -> Request:
    """Return the request.

    :raises ParameterError: A value cannot be used.
    """
    wish = Wish(
        _number('max_used_percent', max_used_percent, _PERCENTAGE, 0, _WHOLE),
        None if max_utilization is None else _number('max_utilization', max_utilization, _PERCENTAGE, 0, _WHOLE),
        _size('min_free', min_free),
        None if max_temperature is None else _number('max_temperature', max_temperature, _DEGREES),
    )
    if order not in ORDERS:
        raise ParameterError('order', order, 'index, free or power')
    return Request(
        wish,
        None if limit is None else check_count('limit', limit),
        None if count is None else check_count('count', count),
        order,
        uuid,
        tuple(str(name) for name in exclude),
        visible_devices,
    )


def check_count(name: str, value: object) -> int:
    """Return a positive whole number, or raise ParameterError."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ParameterError(name, value, _COUNT)
    return value


def check_seconds(name: str, value: object) -> float | None:
    """Return a positive number of seconds, or None for none; raise ParameterError for anything else."""
    if value is None:
        return None
    seconds = _number(name, value, _SECONDS, 0)
    if seconds == 0:
        raise ParameterError(name, value, _SECONDS)
    return seconds


def _number(name: str, value: object, accepted: str, least: float = -math.inf, most: float = math.inf) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ParameterError(name, value, accepted)
    if not math.isfinite(value) or not least <= value <= most:
        raise ParameterError(name, value, accepted)
    return float(value)


def _size(name: str, value: object) -> int | None:
    """Return the bytes of a size; None is no size."""
    if value is None:
        return None
    size = parse_size(value) if isinstance(value, str) else value
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        accepted = SIZES_ACCEPTED if isinstance(value, str) else f'a number of bytes, or {SIZES_ACCEPTED}'
        raise ParameterError(name, value, accepted)
    return size
