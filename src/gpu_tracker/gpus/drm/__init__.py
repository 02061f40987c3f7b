"""GPUs of AMD, Intel and every other vendor whose driver is one of the kernel's DRM drivers, without a library."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpu_tracker.gpus import GpuBackend


def open_backend(vendors: frozenset[str] | None = None) -> GpuBackend | None:
    """Open the DRM drivers; None where this machine has no GPU with one.

    A GPU that NVIDIA's own driver serves has a DRM node too, and is left out: NVML reads it.

    :param vendors: Only the GPUs of these, each ``amd``, ``intel`` or ``drm`` (every other driver, such as nouveau);
        None: all.
    """
    del vendors
    return None
