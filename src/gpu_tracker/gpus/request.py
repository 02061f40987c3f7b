"""Which GPUs a user asks for, checked. Pure."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.errors import ParameterError
from gpu_tracker.gpus.constraints import ANY, Limits
from gpu_tracker.gpus.opening import check_brands
from gpu_tracker.gpus.vendor_variables import READ
from gpu_tracker.units import SIZES_ACCEPTED, parse_size
from gpu_tracker.vendors import vendor_order

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpu_tracker.gpus.model import GpuReading

_WHOLE = 100.0
_PERCENTAGE = 'a percentage from 0 to 100'
_DEGREES = 'a number of degrees Celsius'
_COUNT = 'a positive whole number'
_ALL_OF_DRM = 'drm'
"""The one brand that has the GPUs of several vendors."""
_SECONDS = 'a positive number of seconds'
_NAMES = 'indices or UUIDs of GPUs: a list, or a text with commas between them'
_PROGRAMS = 'names of programs: a list, or a text with commas between them'
_NOTHING_SET: Mapping[str, str] = MappingProxyType({})

ORDERS: dict[str, Callable[[GpuReading], tuple[float, ...]]] = {
    'index': lambda gpu: (vendor_order(gpu.gpu.vendor)[0], (gpu.parent or gpu).number),
    'free': lambda gpu: (-(gpu.memory_free or 0),),
    'power': lambda gpu: (-((gpu.parent or gpu).power_limit or 0),),
}
"""Name of an order -> what is sorted by, smallest first; among equals the lower index comes first."""


class Request(NamedTuple):
    """Which GPUs are wanted, and how many."""

    limits: Limits = ANY
    at_most: int | None = None
    exactly: int | None = None
    """None: whatever is free, but at least one."""
    order: str = 'free'
    by_uuid: bool = False
    """Names are UUIDs, and MIG devices may be chosen; else names are indices."""
    exclude: tuple[str, ...] = ()
    """Indices, UUIDs or beginnings of UUIDs."""
    environment: Mapping[str, str] = _NOTHING_SET
    """Those environment variables that restrict which GPUs this process may use."""
    brands: tuple[str, ...] = ()
    """Of which brands; several may be chosen from together. None: of the first vendor whose GPUs have memory of their
    own."""

    @property
    def needs_load(self) -> bool:
        """Whether more has to be known of the GPUs than their memory."""
        return not self.limits.by_memory or self.needs_sensors

    @property
    def needs_sensors(self) -> bool:
        """Whether temperature or power limit have to be known."""
        return self.limits.max_temperature is not None or self.order == 'power'

    def name(self, gpu: GpuReading) -> str:
        """Return what a chosen GPU is called."""
        if self.by_uuid:
            return str(gpu.uuid)
        return gpu.place if len(self.brands) > 1 or self.brands == (_ALL_OF_DRM,) else str(gpu.number)


def make_request(
    *,
    max_used_percent: float | None = None,
    max_utilization: float | None = None,
    min_free: int | str | None = None,
    max_temperature: float | None = None,
    allow: str | Sequence[str] = (),
    limit: int | None = None,
    count: int | None = None,
    order: str | None = None,
    uuid: bool = False,
    exclude: str | Sequence[str | int] = (),
    gpu_brand: str | Sequence[str] | None = None,
    environment: Mapping[str, str] = _NOTHING_SET,
) -> Request:
    """Return the request.

    :param order: None: most free memory first, with nvgpu's rule by index.
    :param environment: All environment variables of this process.
    :raises ParameterError: A value cannot be used.
    """
    limits = Limits(
        None if max_used_percent is None else _number('max_used_percent', max_used_percent, _PERCENTAGE, 0, _WHOLE),
        None if max_utilization is None else _number('max_utilization', max_utilization, _PERCENTAGE, 0, _WHOLE),
        _size('min_free', min_free),
        None if max_temperature is None else _number('max_temperature', max_temperature, _DEGREES),
        _names('allow', allow, _PROGRAMS),
    )
    if order is None:
        order = 'index' if limits.by_memory else 'free'
    if not isinstance(order, str) or order not in ORDERS:
        raise ParameterError('order', order, 'index, free or power')
    return Request(
        limits,
        None if limit is None else check_count('limit', limit),
        None if count is None else check_count('count', count),
        order,
        uuid,
        _names('exclude', exclude, _NAMES),
        {name: environment[name] for name in READ if name in environment},
        () if gpu_brand is None else check_brands(gpu_brand),
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
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or not least <= number <= most:
        raise ParameterError(name, value, accepted)
    return number


def _names(option: str, given: object, accepted: str) -> tuple[str, ...]:
    """Return the names in a list, or in a text with commas."""
    if isinstance(given, str):
        given = given.split(',')
    if not isinstance(given, (list, tuple, set, frozenset)):
        raise ParameterError(option, given, accepted)
    if any(isinstance(name, bool) or not isinstance(name, (str, int)) for name in given):
        raise ParameterError(option, given, accepted)
    names = (str(name).strip() for name in given)
    return tuple(name for name in names if name)


def _size(name: str, value: object) -> int | None:
    """Return the bytes of a size; None is no size."""
    if value is None:
        return None
    size = parse_size(value) if isinstance(value, str) else value
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        accepted = SIZES_ACCEPTED if isinstance(value, str) else f'a number of bytes, or {SIZES_ACCEPTED}'
        raise ParameterError(name, value, accepted)
    return size
