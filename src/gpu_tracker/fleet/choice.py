"""Chooses GPUs out of those of the machine. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.errors import GpusUnavailableError, ParameterError
from gpu_tracker.fleet.visible import VARIABLE, find, visible
from gpu_tracker.fleet.wish import ANY, Wish, obstacle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpu_tracker.fleet.gpu import Gpu

ORDERS: dict[str, Callable[[Gpu], float]] = {
    'index': lambda gpu: (gpu.parent or gpu.state).number,
    'free': lambda gpu: -(gpu.state.memory_free or 0),
    'power': lambda gpu: -((gpu.parent or gpu.state).power_limit or 0),
}
"""Name of an order -> what is sorted by, smallest first; among equals the lower index comes first."""


class Request(NamedTuple):
    """Which GPUs are wanted, and how many."""

    wish: Wish = ANY
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
        return (self.wish.max_utilization, self.wish.max_temperature) != (None, None) or self.order == 'power'

    def name(self, gpu: Gpu) -> str:
        """Return what a chosen GPU is called."""
        return str(gpu.state.uuid if self.by_uuid else gpu.state.number)


class Choice(NamedTuple):
    """What has been chosen, and what stood in the way of the rest."""

    chosen: list[Gpu]
    wanted: int
    reasons: list[str]
    """One for each GPU that is not free."""
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

    def error(self) -> GpusUnavailableError:
        """Return the exception that says why the request is not met."""
        found = len(self.chosen)
        if found == 0:
            summary = 'no GPU is available'
        else:
            summary = f'{found} GPU{"s are" if found > 1 else " is"} available, not {self.wanted}'
        return GpusUnavailableError(summary, self.reasons)


def choose(gpus: Sequence[Gpu], request: Request) -> Choice:
    """Choose as many as requested of those that nothing stands in the way of.

    :raises ParameterError: A GPU to exclude does not exist.
    """
    if not gpus:
        return Choice([], request.exactly or 1, ['this machine has no GPU with a driver'], is_possible=False)
    left_out = _left_out(gpus, request)
    reasons = []
    free: list[Gpu] = []
    may_become_free = 0
    for gpu in _nameable(gpus, request):
        if id(gpu) in left_out:
            reasons.append(f'{gpu.label}: {left_out[id(gpu)]}')
            continue
        found = obstacle(gpu, request.wish)
        if found is None:
            free.append(gpu)
        else:
            may_become_free += not found.is_lasting
            name = '' if gpu.state.name is None else f' ({gpu.state.name})'
            reasons.append(f'{gpu.label}{name}: {found.text}')
    free.sort(key=ORDERS[request.order])
    wanted = request.exactly or 1
    most = request.exactly if request.at_most is None else request.at_most
    return Choice(free[:most], wanted, reasons, is_possible=len(free) + may_become_free >= wanted)


def _nameable(gpus: Sequence[Gpu], request: Request) -> list[Gpu]:
    """Return what can be named at all: whole GPUs or, where UUIDs are wanted, a GPU's MIG devices instead of it."""
    if not request.by_uuid:
        return list(gpus)
    return [device for gpu in gpus for device in gpu.mig_devices or (gpu,)]


def _left_out(gpus: Sequence[Gpu], request: Request) -> dict[int, str]:
    """Return, by identity, why GPUs and MIG devices are not even looked at."""
    shown = {id(device) for device in visible(gpus, request.visible_devices)}
    left_out = {
        id(device): f'left out by {VARIABLE}={request.visible_devices}'
        for gpu in gpus
        for device in gpu.devices()
        if id(device) not in shown
    }
    for name in request.exclude:
        found = find(gpus, name)
        if found is None:
            there = ', '.join(str(gpu.state.number) for gpu in gpus)
            raise ParameterError('exclude', name, f'the index or UUID of a GPU (indices here: {there})')
        left_out |= dict.fromkeys(map(id, found.devices()), 'excluded')
    return left_out
