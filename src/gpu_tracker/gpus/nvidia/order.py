"""The order in which GPUs are numbered."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    T = TypeVar('T')


def in_bus_order(gpus: Iterable[T], pci_bus_id: Callable[[T], str | None]) -> list[T]:
    """Return GPUs in PCI bus order; one whose bus ID is unknown keeps the driver's place.

    The driver numbers its GPUs in that order too, but nvml.h promises nothing.
    """
    known = [(pci_bus_id(gpu), gpu) for gpu in gpus]
    in_order = iter(sorted(((_position(bus_id), gpu) for bus_id, gpu in known if bus_id), key=lambda found: found[0]))
    return [next(in_order)[1] if bus_id else gpu for bus_id, gpu in known]


def _position(pci_bus_id: str) -> tuple[int, ...]:
    """Return domain, bus and device as numbers; the function after the dot is always 0."""
    return tuple(int(part, 16) for part in pci_bus_id.partition('.')[0].split(':'))
