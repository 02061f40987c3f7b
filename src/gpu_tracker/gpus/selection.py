"""The choice of GPUs among those of the machine: what meets a request, and what stands in the way of the rest. Pure."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.errors import GpusUnavailableError, ParameterError, see
from gpu_tracker.gpus.claim import describe
from gpu_tracker.gpus.constraints import BEYOND_LIMITS, CLAIMED, IN_USE, Rejection, rejection
from gpu_tracker.gpus.opening import serves
from gpu_tracker.gpus.request import ORDERS
from gpu_tracker.gpus.vendor_variables import visible_of
from gpu_tracker.gpus.visible_devices import find
from gpu_tracker.vendors import none_of, numbered, title, vendor_order

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_tracker.gpus.model import GpuReading
    from gpu_tracker.gpus.request import Request

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
    absence: str = f'this machine has no GPU with a driver. {see("no-gpu-driver")}'
    """Why there is none to choose from, where that is so."""

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
        return GpusUnavailableError('no GPU is available', reasons or [self.absence])


def choose(gpus: Sequence[GpuReading], request: Request, refused: Mapping[str, Rejection] = _NOTHING) -> Choice:
    """Choose as many as requested of those that nothing stands in the way of.

    :param refused: GPUs, by UUID, that are not chosen as long as the program of an idle monitor is on them.
    :raises ParameterError: A GPU to exclude does not exist.
    """
    offered = _offered(gpus, request)
    left_out = _left_out(gpus, offered, request)
    free: list[GpuReading] = []
    others: list[tuple[GpuReading, Rejection]] = []
    for gpu in _nameable(offered, request):
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
    is_possible = len(free) + may_become_free >= wanted
    if gpus and not offered:
        absence = none_of(request.brands)
        return Choice([], wanted, [], is_possible, absence)
    return Choice(free[:most], wanted, others, is_possible)


def _offered(gpus: Sequence[GpuReading], request: Request) -> list[GpuReading]:
    """Return the GPUs of the brands that are wanted.

    Where none was named they are of one vendor, since most programs can use those of one only: the first whose GPUs
    have memory of their own.
    """
    if request.brands:
        return [gpu for gpu in gpus if any(serves(brand, gpu.gpu.vendor) for brand in request.brands)]
    candidates = [gpu for gpu in gpus if not gpu.gpu.is_integrated] or gpus
    vendors = sorted({gpu.gpu.vendor for gpu in candidates}, key=vendor_order)
    return [gpu for gpu in gpus if gpu.gpu.vendor in vendors[:1]]


def _nameable(gpus: Sequence[GpuReading], request: Request) -> list[GpuReading]:
    """Return what can be named at all: whole GPUs or, where UUIDs are wanted, a GPU's MIG devices instead of it."""
    if not request.by_uuid:
        return list(gpus)
    return [device for gpu in gpus for device in gpu.mig_devices or (gpu,)]


def _left_out(gpus: Sequence[GpuReading], offered: Sequence[GpuReading], request: Request) -> dict[int, Rejection]:
    """Return, by identity, why GPUs and MIG devices are not even looked at."""
    if not gpus:
        return {}
    left_out: dict[int, Rejection] = {}
    for vendor in {gpu.gpu.vendor for gpu in offered}:
        own = [gpu for gpu in offered if gpu.gpu.vendor == vendor]
        visible = visible_of(vendor, own, request.environment)
        shown = set(map(id, visible.devices))
        invisible = Rejection(_LEFT_OUT, f'left out by {visible.text}', is_lasting=True)
        left_out |= {
            id(device): invisible
            for gpu in own
            for device in gpu.devices()
            # A GPU of which a MIG device is visible says that its MIG devices are chosen by UUID.
            if shown.isdisjoint(map(id, device.devices()))
        }
        if not request.brands:
            unasked = f"it shares the system's memory; only a choice of {title(vendor)} GPUs includes it"
            integrated = Rejection(_LEFT_OUT, unasked, is_lasting=True)
            left_out |= {id(gpu): integrated for gpu in own if gpu.gpu.is_integrated}
    for name in request.exclude:
        found = _find_listed(offered, name) or _find_listed(gpus, name)
        if found is None:
            there = ', '.join(gpu.place for gpu in gpus)
            raise ParameterError('exclude', name, f'the index or UUID of a GPU (indices here: {there})')
        left_out |= {id(device): Rejection(_LEFT_OUT, 'excluded', is_lasting=True) for device in found.devices()}
    return left_out


def _find_listed(gpus: Sequence[GpuReading], name: str) -> GpuReading | None:
    """Return what a UUID names, or an index as the table shows it.

    That is ``5``, ``5:0`` for a MIG device of that GPU, and ``amd:5`` where there are several vendors.
    """
    devices = [device for gpu in gpus for device in gpu.devices()]
    exact = next((device for device in devices if device.uuid == name), None)
    if exact is not None:
        return exact
    if len({gpu.gpu.vendor for gpu in gpus}) > 1:
        return next((device for device in devices if device.place == name), None) or _find_named(gpus, name)
    return _find_named(gpus, name.removeprefix(numbered(gpus[0].gpu.vendor, ''))) if gpus else None


def _find_named(gpus: Sequence[GpuReading], name: str) -> GpuReading | None:
    whole, colon, number = name.partition(':')
    gpu = find(gpus, whole)
    if not colon or gpu is None:
        return gpu
    return next((device for device in gpu.mig_devices or () if str(device.number) == number), None)


def _reason(gpu: GpuReading, found: Rejection, now: float) -> str:
    name = '' if gpu.name is None or found.kind == _LEFT_OUT else f' ({gpu.name})'
    text = describe(gpu.claim, now) if found.kind == CLAIMED and gpu.claim is not None else found.text
    return f'{gpu.label}{name}: {text}'
