"""The brands of GPUs that a run can be restricted to: what ``--gb`` and ``gpu_brand`` accept."""

from __future__ import annotations

from gpu_tracker.gpus import BACKENDS, open_drm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpu_tracker.gpus import GpuBackend

    Opener = Callable[[], GpuBackend | None]

_DRM = 'drm'
_PARTS_OF_DRM = ('amd', 'intel')
"""Vendors that DRM drivers serve and that are brands of their own."""


def brands(backends: Mapping[str, Opener] = BACKENDS) -> tuple[str, ...]:
    """Return what is accepted: ``drm`` is all that DRM drivers serve, ``amd`` and ``intel`` parts of it."""
    return tuple(name for key in backends for name in ((*_PARTS_OF_DRM, key) if key == _DRM else (key,)))


def opener_of(brand: str, backends: Mapping[str, Opener] = BACKENDS) -> Opener:
    """Return what opens the GPUs of a brand."""
    if brand in _PARTS_OF_DRM:
        return lambda: open_drm(frozenset({brand}))
    return backends[brand]


def serves(brand: str, vendor: str) -> bool:
    """Return whether the GPUs of a vendor are among those of a brand."""
    return brand in {vendor, _DRM} if vendor in {_DRM, *_PARTS_OF_DRM} else brand == vendor
