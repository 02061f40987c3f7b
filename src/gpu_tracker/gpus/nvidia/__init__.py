"""NVIDIA GPUs through NVML, with its quirks; nothing outside this folder imports pynvml.

Facts without another source are from nvml.h.
"""

from __future__ import annotations

import os
import sys

from gpu_tracker.errors import GpuError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpu_tracker.gpus.nvidia.backend import NvidiaBackend

COMPUTE_FILES = frozenset({'/dev/nvidia-uvm'})
"""The device file that CUDA opens; NVML alone does not."""
_DEVICE = '/dev/nvidiactl'
"""The device file without which no program can use any of the GPUs."""


def open_backend() -> NvidiaBackend | None:
    """Open the NVIDIA driver; None where this machine has none, or has it installed and not loaded.

    :raises gpu_tracker.errors.GpuError: The driver is there and does not work, or programs may use it and its library
        is not here, or nvidia-ml-py is hidden by the package that is called pynvml.
    """
    if not _has_library():
        if not os.path.exists(_DEVICE):
            return None
        from gpu_tracker.gpus.absence import NVIDIA_MODULE  # noqa: PLC0415 - not where there is no such GPU

        if os.path.exists(NVIDIA_MODULE):
            from gpu_tracker.gpus.nvidia.errors import explain_missing_library  # noqa: PLC0415 - only for this failure

            raise GpuError(*explain_missing_library())
        return None
    try:
        from gpu_tracker.gpus.nvidia import backend  # noqa: PLC0415 - imports pynvml: 35 ms
    except AttributeError as error:
        pynvml = sys.modules.get('pynvml')
        if error.obj is not pynvml:
            raise
        from gpu_tracker.gpus.nvidia.errors import explain_foreign_pynvml  # noqa: PLC0415 - only for this failure

        raise GpuError(*explain_foreign_pynvml(getattr(pynvml, '__file__', None))) from error
    return backend.open_backend(COMPUTE_FILES)


def _has_library() -> bool:
    """Return whether the driver's library can be loaded; on other systems than Linux pynvml itself has to find out.

    Loading it costs 0.1 ms where it is missing; importing pynvml first would cost 35 ms.
    """
    if sys.platform != 'linux':
        return True
    # The package ctypes would cost 5 ms and 1 MB, which a machine without GPUs need not spend.
    import _ctypes  # noqa: PLC0415 - Linux only

    try:
        _ctypes.dlopen('libnvidia-ml.so.1', 0)
    except OSError:  # not installed, or not loadable: built for another machine, or parts of it are missing
        return False
    return True
