"""The vendors of GPUs: what ``--gb`` accepts, and what a vendor is called."""

from __future__ import annotations

from types import MappingProxyType

from gpu_tracker.gpus import BACKENDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpu_tracker.gpus import GpuBackend

    Opener = Callable[[], GpuBackend | None]

OF_DRM = ('amd', 'intel')
"""Vendors whose GPUs the DRM drivers serve and which are a brand of their own."""

TITLES: Mapping[str, str] = MappingProxyType({'nvidia': 'NVIDIA', 'amd': 'AMD', 'intel': 'Intel', 'drm': 'DRM'})
"""Vendor -> how people write it."""


def brands(backends: Mapping[str, Opener] = BACKENDS) -> tuple[str, ...]:
    """Return what ``--gb`` accepts: vendors, and ``drm`` for all that DRM drivers serve."""
    return tuple(name for key in backends for name in ((*OF_DRM, key) if key == 'drm' else (key,)))


def opener_of(brand: str, backends: Mapping[str, Opener] = BACKENDS) -> Opener:
    """Return what opens the GPUs of a brand."""
    if brand not in OF_DRM:
        return backends[brand]

    def open_vendor() -> GpuBackend | None:
        from gpu_tracker.gpus import drm, has_render_nodes  # noqa: PLC0415 - most users leave the choice to us

        return drm.open_backend(frozenset({brand})) if has_render_nodes() else None

    return open_vendor


def title(vendor: str) -> str:
    """Return how people write a vendor."""
    return TITLES.get(vendor, vendor)
