"""GPUs of AMD, Intel and every other vendor whose driver is one of the kernel's DRM drivers, without a library.

What processes have and do is in ``/proc/PID/fdinfo`` (fdinfo.py), what a whole GPU has and does in sysfs (sensors.py).
"""

from __future__ import annotations

import os

from gpu_tracker.gpus import DRM_ROOT, has_render_nodes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpu_tracker.gpus.drm.backend import DrmBackend


def open_backend(vendors: frozenset[str] | None = None, root: str | None = None) -> DrmBackend | None:
    """Return the GPUs that DRM drivers serve; None where this machine has none.

    A GPU that NVIDIA's own driver serves has a DRM node too, and is left out: NVML reads it.

    :param vendors: Only the GPUs of these, each ``amd``, ``intel`` or ``drm`` (every other driver, such as nouveau);
        None: all.
    :param root: The folder with ``sys``, ``proc`` and ``usr/share`` in it; None: see ``gpu_tracker.gpus.DRM_ROOT``.
    """
    root = os.environ.get(DRM_ROOT, '') if root is None else root
    if not has_render_nodes(root):
        return None
    from gpu_tracker.gpus.drm.backend import DrmBackend  # noqa: PLC0415 - only where there is a GPU

    backend = DrmBackend(f'{root}/sys', f'{root}/proc', f'{root}/usr/share', vendors)
    return backend if backend.gpus() else None
