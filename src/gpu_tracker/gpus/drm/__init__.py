"""GPUs of AMD, Intel and every other vendor whose driver is one of the kernel's DRM drivers, without a library.

What processes have and do is in ``/proc/PID/fdinfo`` (fdinfo.py), what a whole GPU has and does in sysfs (sensors.py).
"""

from __future__ import annotations

from gpu_tracker.gpus.drm.backend import DrmBackend


def open_backend(vendors: frozenset[str] | None = None, root: str = '') -> DrmBackend | None:
    """Return the GPUs that DRM drivers serve; None where this machine has none.

    A GPU that NVIDIA's own driver serves has a DRM node too, and is left out: NVML reads it.

    :param vendors: Only the GPUs of these, each ``amd``, ``intel`` or ``drm`` (every other driver, such as nouveau);
        None: all.
    :param root: The folder with ``sys``, ``proc`` and ``usr/share`` in it.
    """
    backend = DrmBackend(f'{root}/sys', f'{root}/proc', f'{root}/usr/share', vendors)
    return backend if backend.gpus() else None
