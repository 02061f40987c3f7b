"""GPU vendors: what a driver is asked goes through a backend, and nothing else touches a driver.

Another vendor is one module or folder here that has an opener, and one line in BACKENDS. Importing this package imports
no vendor's library: the openers do.
"""

from __future__ import annotations

import sys

from gpu_tracker.errors import GpuError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from gpu_tracker.gpus.reading import Device, DeviceReading, ProcessMemory
    from gpu_tracker.gpus.state import DeviceDetails, DeviceState, GpuMonitor

    class GpuBackend(Protocol):
        """The driver of one vendor, opened.

        No method raises because of one GPU: what cannot be read is None, and ``take_messages`` says why, once for each
        cause. Any call may hang as long as the driver does.
        """

        def devices(self) -> tuple[Device, ...]:
            """Return all GPUs that the driver knows of, by index, those that it cannot open included."""

        def read(self, uuid: str) -> DeviceReading:
            """Look at one GPU; its utilization samples are those since the last look at it."""

        def processes(self, uuid: str) -> list[ProcessMemory] | None:
            """Return the processes on one GPU, None where the driver does not list them."""

        def utilization(self, uuid: str) -> float | None:
            """Return the percent that the driver reports of now, None where it does not."""

        def peak_memory(self, uuid: str, pid: int) -> int | None:
            """Return the bytes of a process' own peak on one GPU, None where the driver keeps no account of it."""

        def energy(self, uuid: str) -> float | None:
            """Return the joules that a whole GPU has used since its driver was loaded; None where it has no counter."""

        def survey(self, *, with_load: bool = True, with_sensors: bool = True) -> list[DeviceState]:
            """Look at all GPUs and MIG devices once, in PCI bus order.

            Without load neither sensors nor utilization are asked, and processes only where the memory is unknown;
            without sensors temperature, clock and power are left out. Whether a GPU can be read depends on neither.
            """

        def details(self) -> list[DeviceDetails]:
            """Return what all GPUs and MIG devices are, in PCI bus order."""

        def monitors(self, interval: float) -> tuple[GpuMonitor, ...]:
            """Return what looks at each GPU every ``interval`` seconds, in PCI bus order, lost GPUs included.

            Threads may look at several GPUs at the same time.
            """

        def take_messages(self) -> list[tuple[str, str]]:
            """Return what is to be told and was not taken yet: ('info' or 'warning', text)."""

        def close(self) -> None:
            """Let go of the driver."""


def open_nvidia() -> GpuBackend | None:
    """Open the NVIDIA driver; None where this machine has none, or has it installed and not loaded.

    :raises gpu_tracker.errors.GpuError: The driver is there and does not work, or nvidia-ml-py is hidden by the package
        that is called pynvml.
    """
    from gpu_tracker.gpus.nvidia import library  # noqa: PLC0415 - importing this package imports no vendor's module

    if not library.is_there():
        return None
    try:
        from gpu_tracker.gpus.nvidia import backend  # noqa: PLC0415 - imports pynvml: 35 ms
    except AttributeError as error:
        pynvml = sys.modules.get('pynvml')
        if error.obj is not pynvml:
            raise
        from gpu_tracker.gpus.nvidia.errors import explain_foreign_pynvml  # noqa: PLC0415 - only for this failure

        raise GpuError(*explain_foreign_pynvml(getattr(pynvml, '__file__', None))) from error
    return backend.open_backend()


BACKENDS: dict[str, Callable[[], GpuBackend | None]] = {'nvidia': open_nvidia}
"""Brand of GPU -> the function that opens its driver, returning None where the machine has no such driver."""
