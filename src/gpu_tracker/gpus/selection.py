"""Which GPUs a user asks for, checked, and the choice among those of the machine. Pure."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.errors import GpusUnavailableError, ParameterError
from gpu_tracker.gpus.claims.claim import describe
from gpu_tracker.gpus.constraints import ANY, BEYOND_LIMITS, CLAIMED, IN_USE, Limits, Rejection, rejection
from gpu_tracker.gpus.visible_devices import VARIABLE, find, visible
from gpu_tracker.units import SIZES_ACCEPTED, parse_size

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpu_tracker.gpus.model import GpuReading

_WHOLE = 100.0
_PERCENTAGE = 'a percentage from 0 to 100'
_DEGREES = 'a number of degrees Celsius'
_COUNT = 'a positive whole number'
_SECONDS = 'a positive number of seconds'
_NAMES = 'indices or UUIDs of GPUs: a list, or a text with commas between them'

ORDERS: dict[str, Callable[[GpuReading], float]] = {
    'index': lambda gpu: (gpu.parent or gpu).number,
    'free': lambda gpu: -(gpu.memory_free or 0),
    'power': lambda gpu: -((gpu.parent or gpu).power_limit or 0),
}
"""Name of an order -> what is sorted by, smallest first; among equals the lower index comes first."""


class Request(NamedTuple):
    """Which GPUs are wanted, and how many."""

    limits: Limits = ANY
    at_most: int | None = None
    exactly: int | None = None
    """None: whatever is free, but at least one."""
    order: str = 'index'
    by_uuid: bool = False
    """Names are UUIDs, and MIG devices may be chosen; else names are indices."""
    exclude: tuple[str, ...] = ()
    """Indices, UUIDs or beginnings of UUIDs."""
    visible_devices: str | None = None
    """What CUDA_VISIBLE_DEVICES says; None where it is not set."""

    @property
    def needs_load(self) -> bool:
        """Whether more has to be known of the GPUs than their memory."""
        return (self.limits.max_utilization, self.limits.max_temperature) != (None, None) or self.order == 'power'

    def name(self, gpu: GpuReading) -> str:
        """Return what a chosen GPU is called."""
        return str(gpu.uuid if self.by_uuid else gpu.number)


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
    exclude: str | Sequence[str | int] = (),
    visible_devices: str | None = None,
) -> Request:
    """Return the request.

    :raises ParameterError: A value cannot be used.
    """
    limits = Limits(
        _number('max_used_percent', max_used_percent, _PERCENTAGE, 0, _WHOLE),
        None if max_utilization is None else _number('max_utilization', max_utilization, _PERCENTAGE, 0, _WHOLE),
        _size('min_free', min_free),
        None if max_temperature is None else _number('max_temperature', max_temperature, _DEGREES),
    )
    if not isinstance(order, str) or order not in ORDERS:
        raise ParameterError('order', order, 'index, free or power')
    return Request(
        limits,
        None if limit is None else check_count('limit', limit),
        None if count is None else check_count('count', count),
        order,
        uuid,
        _names('exclude', exclude),
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
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or not least <= number <= most:
        raise ParameterError(name, value, accepted)
    return number


def _names(option: str, given: object) -> tuple[str, ...]:
    """Return the names of GPUs in a list, or in a text with commas."""
    if isinstance(given, str):
        given = given.split(',')
    if not isinstance(given, (list, tuple, set, frozenset)):
        raise ParameterError(option, given, _NAMES)
    if any(isinstance(name, bool) or not isinstance(name, (str, int)) for name in given):
        raise ParameterError(option, given, _NAMES)
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


_LEFT_OUT = 'left_out'
_NOTHING: Mapping[str, Rejection] = MappingProxyType({})


class Choice(NamedTuple):
    """What has been chosen, and what stands in the way of the rest."""

    chosen: list[GpuReading]
    wanted: int
    others: list[tuple[GpuReading, Rejection]]
    """Those that are not free, by index."""
    is_possible: bool
    """Whether waiting may help."""

    @property
    def uuids(self) -> list[str]:
        """The UUIDs of what has been chosen; a GPU that has none cannot be read, and so is not chosen."""
        return [gpu.uuid for gpu in self.chosen if gpu.uuid is not None]

    @property
    def may_yield(self) -> bool:
        """Whether a GPU that is in use was read without its processes, which may be those of an idle monitor."""
        return any(found.kind in {IN_USE, BEYOND_LIMITS} and gpu.processes is None for gpu, found in self.others)

    @property
    def is_enough(self) -> bool:
        """Whether the request is met."""
        return len(self.chosen) >= self.wanted

    def error(self, now: float) -> GpusUnavailableError:
        """Return the exception that says why the request is not met.

        Users' names are looked up for it, which may take long.

        :param now: Seconds since 1970.
        """
        reasons = [_reason(gpu, found, now) for gpu, found in self.others]
        free = len(self.chosen)
        if free > 0:
            summary = f'{free} GPU{"s are" if free > 1 else " is"} available, not {self.wanted}'
            return GpusUnavailableError(summary, reasons)
        return GpusUnavailableError('no GPU is available', reasons or ['this machine has no GPU with a driver'])


def choose(gpus: Sequence[GpuReading], request: Request, refused: Mapping[str, Rejection] = _NOTHING) -> Choice:
    """Choose as many as requested of those that nothing stands in the way of.

    :param refused: GPUs, by UUID, that are not chosen as long as the program of an idle monitor is on them.
    :raises ParameterError: A GPU to exclude does not exist.
    """
    left_out = _left_out(gpus, request)
    free: list[GpuReading] = []
    others: list[tuple[GpuReading, Rejection]] = []
    for gpu in _nameable(gpus, request):
        found = left_out.get(id(gpu)) or rejection(gpu, request.limits)
        if found is None and gpu.idle_programs:
            found = refused.get(gpu.uuid or '')
        if found is None:
            free.append(gpu)
        else:
            others.append((gpu, found))
    order = ORDERS[request.order]
    free.sort(key=lambda gpu: (bool(gpu.idle_programs), order(gpu)))
    wanted = request.exactly or 1
    most = request.exactly if request.at_most is None else request.at_most
    may_become_free = sum(not found.is_lasting for _, found in others)
    return Choice(free[:most], wanted, others, is_possible=len(free) + may_become_free >= wanted)


def _nameable(gpus: Sequence[GpuReading], request: Request) -> list[GpuReading]:
    """Return what can be named at all: whole GPUs or, where UUIDs are wanted, a GPU's MIG devices instead of it."""
    if not request.by_uuid:
        return list(gpus)
    return [device for gpu in gpus for device in gpu.mig_devices or (gpu,)]


def _left_out(gpus: Sequence[GpuReading], request: Request) -> dict[int, Rejection]:
    """Return, by identity, why GPUs and MIG devices are not even looked at."""
    if not gpus:
        return {}
    shown = {id(device) for device in visible(gpus, request.visible_devices)}
    invisible = Rejection(_LEFT_OUT, f'left out by {VARIABLE}={request.visible_devices}', is_lasting=True)
    left_out = {
        id(device): invisible
        for gpu in gpus
        for device in gpu.devices()
        # A GPU of which a MIG device is visible says that its MIG devices are chosen by UUID.
        if shown.isdisjoint(map(id, device.devices()))
    }
    for name in request.exclude:
        found = _find_listed(gpus, name)
        if found is None:
            there = ', '.join(str(gpu.number) for gpu in gpus)
            raise ParameterError('exclude', name, f'the index or UUID of a GPU (indices here: {there})')
        left_out |= {id(device): Rejection(_LEFT_OUT, 'excluded', is_lasting=True) for device in found.devices()}
    return left_out


def _find_listed(gpus: Sequence[GpuReading], name: str) -> GpuReading | None:
    """Return what a UUID names, or an index as the table shows it: ``5``, or ``5:0`` for a MIG device of that GPU."""
    whole, colon, number = name.partition(':')
    gpu = find(gpus, whole)
    if not colon or gpu is None:
        return gpu
    return next((device for device in gpu.mig_devices or () if str(device.number) == number), None)


def _reason(gpu: GpuReading, found: Rejection, now: float) -> str:
    name = '' if gpu.name is None or found.kind == _LEFT_OUT else f' ({gpu.name})'
    text = describe(gpu.claim, now) if found.kind == CLAIMED and gpu.claim is not None else found.text
    return f'{gpu.label}{name}: {text}'
