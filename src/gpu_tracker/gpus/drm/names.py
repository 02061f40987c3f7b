"""Names of products, from the lists that libdrm and pciutils install."""

from __future__ import annotations

import re

_AMDGPU_IDS = ('libdrm/amdgpu.ids', '../../opt/amdgpu/share/libdrm/amdgpu.ids')
"""A line for each product of AMD: device, revision, name. The second is that of ROCm's containers."""
_PCI_IDS = ('hwdata/pci.ids', 'misc/pci.ids')
"""Where distributions put the list of all PCI devices, pci.ids(5)."""
_AMD = '1002'
_MAKERS = {'1002': 'AMD', '8086': 'Intel', '10de': 'NVIDIA'}


def product_name(share: str, vendor: str, device: str, revision: str | None) -> str | None:
    """Return the name of a PCI device; None where no list has it.

    :param share: The folder ``/usr/share``.
    :param vendor: Four hexadecimal digits, in small letters, as ``device``.
    :param revision: As sysfs has it, such as ``0xc1``; one chip is sold under several names.
    """
    if not vendor or not device:
        return None
    if vendor == _AMD and revision:
        for name in _AMDGPU_IDS:
            found = _of_amd(f'{share}/{name}', device, revision.lower().removeprefix('0x'))
            if found:
                return found
    for name in _PCI_IDS:
        found = _of_pci(f'{share}/{name}', vendor, device)
        if found:
            maker = _MAKERS.get(vendor, '')
            return found if found.startswith(maker) else f'{maker} {found}'
    return None


def _of_amd(path: str, device: str, revision: str) -> str | None:
    for line in _lines(path):
        words = [word.strip() for word in line.split(',', 2)]
        if len(words) == 3 and words[0].lower() == device and words[1].lower() == revision:  # noqa: PLR2004
            return words[2]
    return None


def _of_pci(path: str, vendor: str, device: str) -> str | None:
    """Return what a chip is sold as, where the list has that in brackets, else the chip's own name."""
    is_vendor = False
    for line in _lines(path):
        if line.startswith('\t'):
            if is_vendor and line.startswith(f'\t{device} '):
                name = line.split(maxsplit=1)[1].strip()
                sold_as = re.search(r'\[(.+)\]', name)
                return sold_as[1] if sold_as else name
        elif line.strip() and not line.startswith('#'):
            is_vendor = line.startswith(f'{vendor} ')
    return None


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding='utf-8', errors='replace') as file:
            return file.readlines()
    except OSError:  # not installed
        return []
