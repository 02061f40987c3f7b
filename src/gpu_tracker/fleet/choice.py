"""Chooses GPUs out of those of the machine. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.errors import GpusUnavailableError, ParameterError
from gpu_tracker.fleet.claims.wording import describe
from gpu_tracker.fleet.request import ORDERS
from gpu_tracker.fleet.visible import VARIABLE, find, visible
from gpu_tracker.fleet.wish import CLAIMED, Obstacle, obstacle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.fleet.gpu import Gpu
    from gpu_tracker.fleet.request import Request

_LEFT_OUT = 'left_out'


class Choice(NamedTuple):
    """What has been chosen, and what stands in the way of the rest."""

    chosen: list[Gpu]
    wanted: int
    others: list[tuple[Gpu, Obstacle]]
    """Those that are not free, by index."""
    is_possible: bool
    """Whether waiting may help."""

    @property
    def uuids(self) -> list[str]:
        """The UUIDs of what has been chosen; a GPU that has none cannot be read, and so is not chosen."""
        return [gpu.state.uuid for gpu in self.chosen if gpu.state.uuid is not None]

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


def choose(gpus: Sequence[Gpu], request: Request) -> Choice:
    """Choose as many as requested of those that nothing stands in the way of.

    :raises ParameterError: A GPU to exclude does not exist.
    """
    left_out = _left_out(gpus, request)
    free: list[Gpu] = []
    others: list[tuple[Gpu, Obstacle]] = []
    for gpu in _nameable(gpus, request):
        found = left_out.get(id(gpu)) or obstacle(gpu, request.wish)
        if found is None:
            free.append(gpu)
        else:
            others.append((gpu, found))
    free.sort(key=ORDERS[request.order])
    wanted = request.exactly or 1
    most = request.exactly if request.at_most is None else request.at_most
    may_become_free = sum(not found.is_lasting for _, found in others)
    return Choice(free[:most], wanted, others, is_possible=len(free) + may_become_free >= wanted)


def _nameable(gpus: Sequence[Gpu], request: Request) -> list[Gpu]:
    """Return what can be named at all: whole GPUs or, where UUIDs are wanted, a GPU's MIG devices instead of it."""
    if not request.by_uuid:
        return list(gpus)
    return [device for gpu in gpus for device in gpu.mig_devices or (gpu,)]


def _left_out(gpus: Sequence[Gpu], request: Request) -> dict[int, Obstacle]:
    """Return, by identity, why GPUs and MIG devices are not even looked at."""
    if not gpus:
        return {}
    shown = {id(device) for device in visible(gpus, request.visible_devices)}
    invisible = Obstacle(_LEFT_OUT, f'left out by {VARIABLE}={request.visible_devices}', is_lasting=True)
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
            there = ', '.join(str(gpu.state.number) for gpu in gpus)
            raise ParameterError('exclude', name, f'the index or UUID of a GPU (indices here: {there})')
        left_out |= {id(device): Obstacle(_LEFT_OUT, 'excluded', is_lasting=True) for device in found.devices()}
    return left_out


def _find_listed(gpus: Sequence[Gpu], name: str) -> Gpu | None:
    """Return what a UUID names, or an index as the table shows it: ``5``, or ``5:0`` for a MIG device of that GPU."""
    whole, colon, number = name.partition(':')
    gpu = find(gpus, whole)
    if not colon or gpu is None:
        return gpu
    return next((device for device in gpu.mig_devices or () if str(device.state.number) == number), None)


def _reason(gpu: Gpu, found: Obstacle, now: float) -> str:
    name = '' if gpu.state.name is None or found.kind == _LEFT_OUT else f' ({gpu.state.name})'
    text = describe(gpu.claim, now) if found.kind == CLAIMED and gpu.claim is not None else found.text
    return f'{gpu.label}{name}: {text}'
