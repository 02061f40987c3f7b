"""The variables by which CUDA is told which GPUs to use, and what an entry of theirs names."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

VARIABLE = 'CUDA_VISIBLE_DEVICES'
ORDER_VARIABLE = 'CUDA_DEVICE_ORDER'
PCI_ORDER = 'PCI_BUS_ID'

UUID_PREFIXES = ('GPU-', 'MIG-')
"""How an entry begins that is a UUID, or the beginning of one."""


def place_of(uuids: Sequence[str | None], beginning: str) -> int | None:
    """Return the place of the one UUID that begins so; None where none does, or more than one."""
    wanted = beginning.lower()
    matching = [place for place, uuid in enumerate(uuids) if (uuid or '').lower().startswith(wanted)]
    return matching[0] if len(matching) == 1 else None
