"""The GPUs that DRM drivers serve, found in ``/sys/class/drm``."""

from __future__ import annotations

import os

from gpu_tracker.gpus.drm.names import product_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_RENDER = 'renderD'
"""How the node of a GPU begins that programs compute and draw on; what only has a screen has none."""

NO_GPUS = frozenset({'nvidia', 'vgem', 'vkms', 'virtio-pci', 'virtio_gpu', 'vmwgfx'})
"""Drivers with such a node that report neither memory nor time of anybody; NVIDIA's own GPUs are read through NVML."""

_VENDORS = {'1002': 'amd', '8086': 'intel'}
"""IDs of PCI vendors that have a name here; all others are ``drm``."""
OTHER = 'drm'

_AMDGPU = 'amdgpu'
_WITH_ENGINES = frozenset({'adreno', 'amdgpu', 'etnaviv', 'i915', 'msm', 'panfrost', 'panthor', 'v3d', 'xe'})
"""Drivers that write how long engines have worked for each client."""
_PARTITION = 'current_compute_partition'
"""How a server's card of AMD is divided: SPX is one part, CPX as many as there are."""
_UNDIVIDED = (None, 'SPX', 'UNKNOWN')
_INTEL = frozenset({'i915', 'xe'})
_TILE = 'tile'
_MEMORY_OF_TILE = 'physical_vram_size_bytes'
"""In the folder of each tile of a card of xe; an integrated GPU has a tile, and no such file (xe_tile_sysfs.c)."""
_MEMORY_OF_CARD = 'lmem_total_bytes'
"""In the folder of the card: the i915 that Intel publishes for servers."""
_ONLY_OF_INTEGRATED = b'vddnb'
"""The label of a voltage that amdgpu has for integrated GPUs only (hwmon_attributes_visible in amdgpu_pm.c)."""


class Device:
    """A GPU, as sysfs describes it.

    :ivar key: The PCI address, or the driver's name where it is no PCI device: what the files of fdinfo call it.
    :ivar path: Its folder in sysfs.
    :ivar card: The folder of its card below ``/sys/class/drm``, None where it has none.
    :ivar hwmon: The folder of its sensors, None where it has none.
    :ivar tiles: Of how many parts it consists that a driver shows by themselves: xe's cards for servers have two.
    :ivar uuid: ``GPU-`` and ``unique_id`` where the driver knows one, as ROCm has it, else the vendor and the PCI
        address, or the name of what is no PCI device.
    :ivar is_integrated: Whether it works in the system's memory.
    :ivar has_engines: Whether its driver is known to write how long engines have worked for a client.
    :ivar memory_files: Those that say how much memory of its own a card of Intel has: together, that of all its tiles.
    """

    def __init__(self, path: str, card: str | None, about: dict[str, str], share: str) -> None:
        self.path = path
        self.card = card
        self.driver = about.get('DRIVER', '')
        self.pci_bus_id = about.get('PCI_SLOT_NAME')
        vendor, _, device = about.get('PCI_ID', '').lower().partition(':')
        self.vendor = _VENDORS.get(vendor, OTHER) if self.pci_bus_id else OTHER
        self.key = self.pci_bus_id or self.driver
        self.hwmon = _hwmon(path)
        self.number = 0
        unique = _text(f'{path}/unique_id')
        self.uuid = f'GPU-{unique}' if unique else f'{self.vendor}-{self.pci_bus_id or os.path.basename(path)}'
        self.name = _text(f'{path}/product_name') or product_name(share, vendor, device, _text(f'{path}/revision'))
        if self.name is None:
            self.name = f'{self._maker()} GPU 0x{device}' if device else f'{self.driver} GPU'
        mode = _text(f'{path}/{_PARTITION}')
        if mode not in _UNDIVIDED:
            self.name = f'{self.name} ({mode})'
        self.has_engines = self.driver in _WITH_ENGINES
        tiles = [name for name in _names(path) if name.startswith(_TILE) and name[len(_TILE) :].isdecimal()]
        self.tiles = max(1, len(tiles))
        self.memory_files = self._files_of_memory(tiles)
        self.is_integrated = self._works_in_system_memory()

    def _files_of_memory(self, tiles: list[str]) -> list[str]:
        files = [file for name in tiles if os.path.exists(file := f'{self.path}/{name}/{_MEMORY_OF_TILE}')]
        whole = f'{self.card}/{_MEMORY_OF_CARD}'
        return files or ([whole] if self.card is not None and os.path.exists(whole) else [])

    def _maker(self) -> str:
        return {'amd': 'AMD', 'intel': 'Intel'}.get(self.vendor, self.driver)

    def _works_in_system_memory(self) -> bool:
        if self.driver == _AMDGPU:
            return self.hwmon is not None and _content(f'{self.hwmon}/in1_label').strip() == _ONLY_OF_INTEGRATED
        if self.pci_bus_id is None:  # part of a chip with processors, such as a Raspberry Pi's
            return True
        # Processors have their GPU on bus 0, and so may a virtual machine have cards. But i915 and xe have sensors of
        # cards only (i915_hwmon.c, xe_hwmon.c), which a part of a card that a machine was given may lack.
        is_on_bus_0 = self.pci_bus_id.split(':')[1] == '00'
        return self.driver in _INTEL and is_on_bus_0 and self.hwmon is None and not self.memory_files

    def note_own_memory(self) -> None:
        """Take in that a client names memory of the GPU itself, as Intel's drivers do of cards alone."""
        if self.driver in _INTEL:
            self.is_integrated = False


def devices(sys: str, share: str, vendors: frozenset[str] | None = None) -> list[Device]:
    """Return the GPUs in PCI bus order, those that are no PCI devices last.

    :param sys: The folder of sysfs(5).
    :param share: The folder ``/usr/share``, for names of products.
    :param vendors: Only those of these: ``amd``, ``intel`` and ``drm``, which are all others. None: all.
    """
    folder = f'{sys}/class/drm'
    cards: dict[str, str] = {}
    paths: dict[str, dict[str, str]] = {}
    for name in _names(folder):
        if name.startswith(_RENDER) or (name.startswith('card') and name[4:].isdecimal()):
            path = os.path.realpath(f'{folder}/{name}/device')
            if name.startswith(_RENDER):
                paths[path] = _about(f'{path}/uevent')
            else:
                cards[path] = f'{folder}/{name}'
    found = [
        Device(path, cards.get(path), about, share)
        for path, about in paths.items()
        if about.get('DRIVER', '') not in NO_GPUS | {''}
    ]
    return _numbered(device for device in found if vendors is None or device.vendor in vendors)


def _numbered(found: Iterable[Device]) -> list[Device]:
    """Return GPUs in order, having counted those of each vendor."""
    in_order = sorted(found, key=lambda device: (device.pci_bus_id is None, device.pci_bus_id or '', device.path))
    counts: dict[str, int] = {}
    for device in in_order:
        device.number = counts.get(device.vendor, 0)
        counts[device.vendor] = device.number + 1
    return in_order


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:  # another system than Linux, or a kernel without DRM
        return []


def _about(path: str) -> dict[str, str]:
    """Return what a file ``uevent`` says."""
    lines = _content(path).decode(errors='replace').splitlines()
    return {name: value for name, _, value in (line.partition('=') for line in lines)}


def _hwmon(path: str) -> str | None:
    """Return the folder of the sensors that have the most to say: some drivers have more than one."""
    folder = f'{path}/hwmon'
    found = [f'{folder}/{name}' for name in _names(folder)]
    return max(found, key=lambda name: len(_names(name)), default=None)


def _text(path: str) -> str | None:
    return _content(path).decode(errors='replace').strip() or None


def _content(path: str) -> bytes:
    try:
        with open(path, 'rb') as file:
            return file.read()
    except OSError:  # this driver has no such file, or it is root's
        return b''
