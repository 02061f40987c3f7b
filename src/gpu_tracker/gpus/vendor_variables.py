"""The environment variables that say which GPUs a program may use, vendor by vendor: read, and set for a command. Pure.

AMD's are layers (the page on GPU isolation in the documentation of ROCm, and the sources of its runtimes):
ROCR_VISIBLE_DEVICES leaves GPUs to all programs, by indices or UUIDs. HIP programs count those that are left from 0
again, and take of them what HIP_VISIBLE_DEVICES names, or CUDA_VISIBLE_DEVICES where that is empty; programs on OpenCL
what GPU_DEVICE_ORDINAL names. Which of both a program will be is not known, so all of them restrict. Each list ends at
its first entry that names no GPU.

Intel's ZE_AFFINITY_MASK (the specification of Level Zero, core programming guide, and ExecutionEnvironment of Intel's
compute-runtime) is a list of numbers in the order in which the driver reports devices. That is PCI bus order only with
ZE_ENABLE_PCI_ID_DEVICE_ORDER=1; else the specification leaves it open, and Intel's driver has cards before integrated
GPUs. What is counted are cards (``0.1`` is a tile of one) where ZE_FLAT_DEVICE_HIERARCHY is COMPOSITE, else tiles;
where it is not set that depends on the driver's version and the card. What one of the possible readings leaves out is
left out. An empty mask restricts nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.gpus.model import GpuReading
from gpu_tracker.gpus.visible_devices import ORDER_VARIABLE, PCI_ORDER, VARIABLE, find, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpu_tracker.gpus.model import Gpu

ROCR, HIP, OPENCL = 'ROCR_VISIBLE_DEVICES', 'HIP_VISIBLE_DEVICES', 'GPU_DEVICE_ORDINAL'
LEVEL_ZERO, LEVEL_ZERO_ORDER = 'ZE_AFFINITY_MASK', 'ZE_ENABLE_PCI_ID_DEVICE_ORDER'
LEVEL_ZERO_TILES, WHOLE_CARDS = 'ZE_FLAT_DEVICE_HIERARCHY', 'COMPOSITE'
"""What the numbers of ZE_AFFINITY_MASK count: unless it says COMPOSITE, the tiles of cards that have several."""
_TILES = ('FLAT', 'COMBINED')
_UNCERTAIN = f'whose numbers are certain only where {LEVEL_ZERO_ORDER}=1 and {LEVEL_ZERO_TILES} are set'

READ = (VARIABLE, ROCR, HIP, OPENCL, LEVEL_ZERO, LEVEL_ZERO_ORDER, LEVEL_ZERO_TILES)
"""The variables that restrict which GPUs this process may use, and those that say what their numbers mean."""

_AMD, _INTEL = 'amd', 'intel'
_ROCR_UUID = len('GPU-') + 16
"""Characters of a UUID as ROCR knows it."""


class Visible(NamedTuple):
    """What is left of the GPUs of a vendor."""

    devices: list[GpuReading]
    """GPUs and MIG devices."""
    variables: tuple[tuple[str, str], ...] = ()
    """The variables that were applied, and their values."""
    remark: str = ''
    """Why the variables may leave more than these, in words that follow them."""

    @property
    def text(self) -> str:
        """The variables as a shell sets them, and the remark."""
        text = ' '.join(f'{name}={value}' for name, value in self.variables)
        return f'{text}, {self.remark}' if self.remark else text


def visible_of(vendor: str, gpus: Sequence[GpuReading], environment: Mapping[str, str]) -> Visible:
    """Return which of the GPUs of a vendor, given by index, the environment leaves to this process."""
    return _READERS.get(vendor, _of_cuda)(gpus, environment)


def uuids_left(gpus: Sequence[Gpu], environment: Mapping[str, str]) -> frozenset[str]:
    """Return the UUIDs of the GPUs that the environment leaves, whole or in part, if it restricts any; else none."""
    by_vendor: dict[str, list[GpuReading]] = {}
    for gpu in gpus:
        parts = tuple(GpuReading(part) for part in gpu.mig_devices or ())
        by_vendor.setdefault(gpu.vendor, []).append(GpuReading(gpu, mig_devices=parts))
    left = [visible_of(vendor, found, environment) for vendor, found in by_vendor.items()]
    uuids = {device.uuid for found in left if found.variables for device in found.devices} - {None}
    whole = {gpu.uuid: {gpu.uuid, *(part.uuid for part in gpu.mig_devices or ())} for gpu in gpus}
    return frozenset(uuid for uuid, parts in whole.items() if uuid is not None and not uuids.isdisjoint(parts))


def _of_cuda(gpus: Sequence[GpuReading], environment: Mapping[str, str]) -> Visible:
    value = environment.get(VARIABLE)
    return Visible(visible(gpus, value), () if value is None else ((VARIABLE, value),))


def _of_rocm(gpus: Sequence[GpuReading], environment: Mapping[str, str]) -> Visible:
    applied = []
    left = list(gpus)
    rocr = environment.get(ROCR)
    if rocr is not None:  # even an empty one leaves none
        applied.append((ROCR, rocr))
        left = _named(rocr, lambda name: find(gpus, name))
    everything = left
    hip = HIP if environment.get(HIP) else VARIABLE
    for variable in (hip, OPENCL):
        value = environment.get(variable)
        if value:
            applied.append((variable, value))
            named = _named(value, lambda name: _at(everything, name))
            left = [gpu for gpu in left if gpu in named]
    return Visible(left, tuple(applied))


def _of_level_zero(gpus: Sequence[GpuReading], environment: Mapping[str, str]) -> Visible:
    mask = environment.get(LEVEL_ZERO)
    if not mask:
        return Visible(list(gpus))
    orders = [list(gpus)]
    if environment.get(LEVEL_ZERO_ORDER) != '1':
        orders.append(sorted(gpus, key=lambda gpu: gpu.gpu.is_integrated))
    hierarchy = environment.get(LEVEL_ZERO_TILES)
    are_tiles = {hierarchy in _TILES}
    if hierarchy is None and any(gpu.gpu.tiles > 1 for gpu in gpus):
        are_tiles = {False, True}
    readings = [_masked(in_order, mask, are_tiles=tiles) for in_order in orders for tiles in are_tiles]
    certain = [gpu for gpu in gpus if all(gpu in left for left in readings)]
    is_certain = not any(gpu in left and gpu not in certain for gpu in gpus for left in readings)
    return Visible(certain, ((LEVEL_ZERO, mask),), '' if is_certain else _UNCERTAIN)


def _masked(gpus: Sequence[GpuReading], mask: str, *, are_tiles: bool) -> list[GpuReading]:
    """Return the GPUs of which a mask leaves at least a part.

    :param gpus: In the order in which the driver reports them.
    :param are_tiles: The numbers are those of tiles: then the driver skips entries such as ``0.1``.
    """
    counted = [gpu for gpu in gpus for _ in range(gpu.gpu.tiles if are_tiles else 1)]
    left = []
    for entry in mask.split(','):
        number, dot, _ = entry.strip().partition('.')
        gpu = None if dot and are_tiles else _at(counted, number)
        if gpu is not None:
            left.append(gpu)
    return left


def _of_others(gpus: Sequence[GpuReading], environment: Mapping[str, str]) -> Visible:
    del environment
    return Visible(list(gpus))


_READERS: dict[str, Callable[[Sequence[GpuReading], Mapping[str, str]], Visible]] = {
    _AMD: _of_rocm,
    _INTEL: _of_level_zero,
    'drm': _of_others,
}


def _named(value: str, find_one: Callable[[str], GpuReading | None]) -> list[GpuReading]:
    """Return the GPUs that a list names, in its order and up to its first entry that names none."""
    found: list[GpuReading] = []
    for entry in value.split(','):
        gpu = find_one(entry.strip())
        if gpu is None:
            break
        if gpu not in found:
            found.append(gpu)
    return found


def _at(gpus: Sequence[GpuReading], name: str) -> GpuReading | None:
    """Return the GPU that HIP means: a place in what is left, or a UUID."""
    if name.isascii() and name.isdecimal():
        return gpus[int(name)] if len(name) < len(str(len(gpus))) + 1 and int(name) < len(gpus) else None
    return find(gpus, name)


class Settings(NamedTuple):
    """The variables with which a command sees the GPUs that were chosen for it, and nothing else of their vendors."""

    variables: dict[str, str | None]
    """None: to be removed."""
    remarks: tuple[str, ...] = ()
    """What is not certain, for people."""


def settings_for(chosen: Sequence[GpuReading], environment: Mapping[str, str], *, by_uuid: bool) -> Settings:
    """Return what to set for a command that is to use these GPUs.

    :param environment: What the command would get.
    :param by_uuid: Name NVIDIA's by their UUIDs; AMD's are always named so where ROCR knows a UUID of them.
    """
    variables: dict[str, str | None] = {}
    remarks: list[str] = []
    by_vendor: dict[str, list[GpuReading]] = {}
    for gpu in chosen:
        by_vendor.setdefault(gpu.gpu.vendor, []).append(gpu)
    amd, intel = by_vendor.pop(_AMD, []), by_vendor.pop(_INTEL, [])
    others = by_vendor.pop('drm', [])
    cuda = [gpu for gpus in by_vendor.values() for gpu in gpus]
    if amd:
        have_uuids = all(len(gpu.uuid or '') == _ROCR_UUID and (gpu.uuid or '').startswith('GPU-') for gpu in amd)
        variables[ROCR] = ','.join(str(gpu.uuid if have_uuids else gpu.number) for gpu in amd)
        # HIP counts what ROCR leaves, and takes CUDA's variable for its own where it has none.
        variables |= {HIP: ','.join(map(str, range(len(amd)))), OPENCL: None}
    if intel:
        variables |= {LEVEL_ZERO: ','.join(str(gpu.number) for gpu in intel), LEVEL_ZERO_ORDER: '1'}
        hierarchy = environment.get(LEVEL_ZERO_TILES)
        if hierarchy is None:
            variables[LEVEL_ZERO_TILES] = WHOLE_CARDS
        elif hierarchy != WHOLE_CARDS:
            remarks.append(
                f'{LEVEL_ZERO_TILES}={hierarchy}: where a GPU has several tiles, {LEVEL_ZERO} counts these, and may '
                'give other GPUs to the command'
            )
    if cuda:
        variables[VARIABLE] = ','.join(str(gpu.uuid if by_uuid else gpu.number) for gpu in cuda)
        variables[ORDER_VARIABLE] = PCI_ORDER
    if others:
        remarks.append(f'no variable restricts a command to {", ".join(gpu.label for gpu in others)}')
    return Settings(variables, tuple(remarks))
