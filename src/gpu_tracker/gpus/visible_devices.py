"""The GPUs that CUDA_VISIBLE_DEVICES leaves, read as CUDA reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.gpus.model import GpuReading

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


def visible(gpus: Sequence[GpuReading], value: str | None) -> list[GpuReading]:
    """Return the GPUs and MIG devices that the variable's value leaves, in the order of ``gpus``.

    As in CUDA the list ends at its first entry that names no GPU, so ``''`` and ``'-1'`` leave none. An index counts
    in PCI bus order, and it and a GPU's UUID stand for its MIG devices too.
    """
    if value is None:
        return [device for gpu in gpus for device in gpu.devices()]
    kept: set[int] = set()
    everything = [device for gpu in gpus for device in gpu.devices()]
    for entry in value.split(','):
        found = find(gpus, entry.strip())
        if found is None:
            break
        kept |= {id(device) for device in found.devices()}
    return [device for device in everything if id(device) in kept]


def find(gpus: Sequence[GpuReading], name: str) -> GpuReading | None:
    """Return the one GPU or MIG device that an index, a UUID or the beginning of one names."""
    if name.isascii() and name.isdecimal():
        index = name.lstrip('0') or '0'  # compared as text: a number may have too many digits for Python
        return next((gpu for gpu in gpus if str(gpu.number) == index), None)
    if not name.startswith(UUID_PREFIXES):
        return None
    devices = [device for gpu in gpus for device in gpu.devices()]
    place = place_of([device.uuid for device in devices], name)
    return None if place is None else devices[place]


def counts_otherwise(gpus: Sequence[GpuReading], value: str | None, order: str | None) -> bool:
    """Return whether CUDA may number the GPUs of the variable in another order than this module does.

    Unless told to use the PCI bus order CUDA puts the fastest GPU first, which matters where they are not all alike.
    """
    if value is None or order == PCI_ORDER:
        return False
    indices = [entry for entry in value.split(',') if entry.strip().isdecimal()]
    return bool(indices) and len({gpu.name for gpu in gpus} - {None}) > 1  # a lost GPU tells no name
