"""Why no GPU driver is at work, as far as the kernel's files tell: for the texts of errors alone."""

from __future__ import annotations

import os

from gpu_tracker.errors import see
from gpu_tracker.vendors import title

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_NVIDIA = 'nvidia'
NVIDIA_MODULE = '/proc/driver/nvidia/version'
"""What NVIDIA's kernel module shows; containers see it as well, whether or not they were given the GPUs."""


def why_no_driver(brands: Sequence[str] | None = None, root: str = '') -> str:
    """Return why this machine has no GPU that can be read, and what to do: a clause, and a sentence behind it.

    :param brands: Those that were asked for; None: any.
    :param root: The folder with ``proc`` in it, instead of ``/``.
    """
    if (brands is None or _NVIDIA in brands) and os.path.exists(f'{root}{NVIDIA_MODULE}'):
        return (
            "NVIDIA's kernel module is loaded, but the library libnvidia-ml.so.1 or the GPU devices are "
            'missing. In a container, use docker run --gpus all, or in Kubernetes a limit on nvidia.com/gpu. On a '
            f"machine, install the driver's package. {see('driver-library')}"
        )
    which = 'no GPU driver' if brands is None else f'no driver of {" or ".join(map(title, brands))} GPUs'
    return f'{which} is installed or loaded on this machine. {see("no-gpu-driver")}'
