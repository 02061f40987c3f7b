"""The vendors of GPUs: their names, and the names and the order of their GPUs in lists of all vendors."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_UNNAMED = ('', 'nvidia')
"""The vendor whose GPUs are named by their numbers alone, so that nothing that was written for these has to change."""
_OTHERS = ('amd', 'intel')
_TITLES = {'nvidia': 'NVIDIA', 'amd': 'AMD', 'intel': 'Intel', 'drm': 'DRM'}


def title(vendor: str) -> str:
    """Return how people write a vendor."""
    return _TITLES.get(vendor, vendor)


def none_of(brands: Iterable[str]) -> str:
    """Return how people are told that a machine has no GPU of these brands."""
    return f'this machine has no GPU of {" or ".join(map(title, brands))}'


def numbered(vendor: str, number: str) -> str:
    """Return what names a GPU among those of all vendors, where each vendor counts its own: ``0``, ``amd:0``."""
    return number if vendor in _UNNAMED else f'{vendor}:{number}'


def label(vendor: str, number: int) -> str:
    """Return what people call a GPU: ``GPU 0``, ``AMD GPU 0``."""
    return f'GPU {number}' if vendor in _UNNAMED else f'{title(vendor)} GPU {number}'


def vendor_order(vendor: str) -> tuple[int, str]:
    """Return what vendors are sorted by in lists of GPUs: NVIDIA, AMD, Intel, and then all others."""
    if vendor in _UNNAMED:
        return 0, ''
    return (1 + _OTHERS.index(vendor) if vendor in _OTHERS else 1 + len(_OTHERS)), vendor
