"""The GPUs that a program sees, and the order in which CUDA numbers them.

Read off NVIDIA's CUDA Programming Guide (environment variables) and MIG User Guide (CUDA device enumeration). Whatever
these leave open is None here: a figure without a GPU is better than one of the wrong GPU.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.cuda_probe.devices.environment import Environment
from gpu_tracker.gpus.visible_devices import ORDER_VARIABLE, PCI_ORDER, UUID_PREFIXES, VARIABLE, place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpu_tracker.cuda_probe.devices.environment import EnvironmentChange
    from gpu_tracker.cuda_probe.devices.host_gpus import HostGpu, HostGpus, PhysicalGpu

_INDEX = re.compile(r'\+?([0-9]{1,9})(?![0-9xX])')
"""CUDA takes the number that an entry begins with: ``1gpu2`` is 1. Of hexadecimal ones nothing is known."""

_OLD_MIG_NAME = re.compile(r'MIG-(GPU-[^/]+)/([0-9]{1,9})/([0-9]{1,9})', re.ASCII)
"""GPU, GPU instance and compute instance, as drivers before R470 named MIG devices; newer ones take it too."""


class GpuAccess(NamedTuple):
    """What a process can open of the machine's GPUs."""

    gpus: frozenset[int] | None = None
    """The N of the device files ``/dev/nvidiaN``; None: not known."""
    instances: frozenset[tuple[int, int, int]] | None = None
    """MIG devices, each as the N of its GPU, GPU instance and compute instance; None: not known."""


def numbered(gpus: Sequence[HostGpu], access: GpuAccess, variables: Mapping[str, str]) -> tuple[PhysicalGpu, ...]:
    """Return the devices 0, 1, ... of a program as far as it is known for sure which they are.

    :param gpus: All GPUs of the machine, in PCI bus order.
    :param variables: CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER where they were set when it first called CUDA.
    """
    there = _accessible(gpus, access)
    in_order = None if there is None else _in_order(there, variables.get(ORDER_VARIABLE))
    value = variables.get(VARIABLE)
    if value is None:
        return _all_shown(in_order or ())
    return _shown(value, gpus if there is None else there, in_order)


def _accessible(gpus: Sequence[HostGpu], access: GpuAccess) -> list[HostGpu] | None:
    """Return the GPUs that CUDA finds; None where that is not known."""
    if access.gpus is None:
        # Who computes has a GPU, and so has the only one.
        there = list(gpus) if len(gpus) == 1 else None
    elif any(found.gpu.minor is None for found in gpus) and len(gpus) > 1:
        there = None
    else:
        there = [found for found in gpus if found.gpu.minor in access.gpus or found.gpu.minor is None]
    if there is None or access.instances is None:
        return there
    return [found._replace(parts=_open_parts(found, access.instances)) for found in there]


def _open_parts(found: HostGpu, instances: frozenset[tuple[int, int, int]]) -> tuple[PhysicalGpu, ...] | None:
    if found.parts is None:
        return None
    return tuple(part for part in found.parts if (part.minor, part.gpu_instance, part.compute_instance) in instances)


def _in_order(gpus: Sequence[HostGpu], order: str | None) -> Sequence[HostGpu] | None:
    """Return the GPUs as CUDA counts them; None where that is not known.

    By default the fastest comes first, by a rule that is not documented; GPUs that are alike stand in PCI bus order.
    """
    if any(found.gpu.uuid is None for found in gpus):
        return None  # it is lost: whether CUDA counts it is not known
    models = {(found.gpu.model, found.gpu.cores) for found in gpus}
    is_known = order == PCI_ORDER or len(gpus) <= 1 or (len(models) == 1 and gpus[0].gpu.model is not None)
    return gpus if is_known else None


def _all_shown(gpus: Sequence[HostGpu]) -> tuple[PhysicalGpu, ...]:
    """Return what CUDA shows without the variable: all GPUs, or one MIG device, the first of several in some order."""
    if all(found.parts is None for found in gpus):
        return tuple(found.gpu for found in gpus)
    devices = [device for found in gpus for device in (found.parts if found.parts is not None else (found.gpu,))]
    return tuple(devices) if len(devices) == 1 else ()


def _shown(value: str, gpus: Sequence[HostGpu], in_order: Sequence[HostGpu] | None) -> tuple[PhysicalGpu, ...]:
    """Return what the variable's list names, up to the first entry that names no GPU or is not understood."""
    entries = [entry.strip() for entry in value.split(',')]
    if entries[0].startswith(UUID_PREFIXES):
        named = [_by_uuid(entry, gpus) for entry in entries]
    else:
        indices = _indices(entries)
        if len(set(indices)) < len(indices):
            return ()  # a GPU that is named twice makes none visible
        named = [_by_index(index, in_order or ()) for index in indices]
    shown: list[PhysicalGpu] = []
    for device in named:
        if device is None:
            break
        shown.append(device)
    is_mixed = len({device.mig is None for device in shown}) > 1  # then CUDA leaves the whole GPUs out
    return () if is_mixed or len(set(shown)) < len(shown) else tuple(shown)


def _indices(entries: Sequence[str]) -> list[int]:
    """Return the numbers up to the first entry that is none; a negative one is none."""
    found = []
    for entry in entries:
        index = _INDEX.match(entry)
        if index is None:
            break
        found.append(int(index.group(1)))
    return found


def _by_index(index: int, in_order: Sequence[HostGpu]) -> PhysicalGpu | None:
    """Return the GPU of an index; how those in MIG mode are counted is not documented, so none behind one is known."""
    if index >= len(in_order) or any(found.parts is not None for found in in_order[:index]):
        return None
    return _as_used(in_order[index])


def _by_uuid(name: str, gpus: Sequence[HostGpu]) -> PhysicalGpu | None:
    old = _OLD_MIG_NAME.fullmatch(name)
    if old is not None:
        gpu, gpu_instance, compute_instance = old.groups()
        place = place_of([found.gpu.uuid for found in gpus], gpu)
        parts = () if place is None else gpus[place].parts or ()
        wanted = (int(gpu_instance), int(compute_instance))
        return next((part for part in parts if (part.gpu_instance, part.compute_instance) == wanted), None)
    if not name.startswith(UUID_PREFIXES):
        return None
    named = [(found.gpu.uuid, _as_used(found)) for found in gpus]
    named += [(part.uuid, part) for found in gpus for part in found.parts or ()]
    place = place_of([uuid for uuid, _ in named], name)
    return None if place is None else named[place][1]


def _as_used(found: HostGpu) -> PhysicalGpu | None:
    """Return what computes where a whole GPU is named: of several MIG devices it is not known which."""
    if found.parts is None:
        return found.gpu
    return found.parts[0] if len(found.parts) == 1 else None


_MOST_READS = 20
"""A read takes about a millisecond, and of some processes it never becomes known."""


class Visibility:
    """Which GPUs one program run sees, and as which of its devices.

    CUDA reads the variables once, at the first call; so they count as they were then.

    :param host: The GPUs of this machine.
    :param initial: The variables that the program was started with; None: not known.
    :param access: Returns what the process can open now; see ``access.AccessReader``.
    """

    def __init__(self, host: HostGpus, initial: Mapping[str, str] | None, access: Callable[[], GpuAccess]) -> None:
        self._host = host
        self._environment = Environment(initial)
        self._access_reader = access
        self._access = GpuAccess()
        self._reads = 0
        self._first_call: int | None = None

    def set_gpus(self, host: HostGpus) -> None:
        """Set the GPUs of this machine, where the driver has reported them late."""
        self._host = host

    def changed(self, change: EnvironmentChange) -> None:
        """Record a change of its variables, in any order; what is later than a CUDA call does not count."""
        if self._first_call is None or change.time <= self._first_call:
            self._environment.change(change)

    def called(self, time: int) -> None:
        """Record a CUDA call; the first is the one with the earliest time.

        What the process can open is read now, so this is best called while the process lives.

        :param time: Nanoseconds of the monotonic clock.
        """
        self._first_call = time if self._first_call is None else min(time, self._first_call)
        self._read_access()

    def any_gpu(self) -> PhysicalGpu | None:
        """Return the GPU that all calls go to; None where there may be more than one, or it is not known."""
        physical = self._host.physical
        return physical[0] if len(physical) == 1 else None

    def gpu_of(self, ordinal: int) -> PhysicalGpu | None:
        """Return the GPU that cudaSetDevice calls so; None where it is not known for sure."""
        if self._first_call is None:
            return None
        variables = self._environment.at(self._first_call)
        if variables is None:
            return None
        self._read_access()
        devices = numbered(self._host.gpus, self._access, variables)
        return devices[ordinal] if 0 <= ordinal < len(devices) else None

    def _read_access(self) -> None:
        """Read what the process can open until that is known: it may be seen only by the files that its calls open."""
        if self._access.gpus is None and self._reads < _MOST_READS:
            self._reads += 1
            self._access = self._access_reader()
