"""GPU vendors: what a driver is asked goes through a backend, and nothing else touches a driver.

Another vendor is one folder here with ``open_backend()``, and one line in BACKENDS. Importing this package imports no
vendor's library: the openers do.
"""

from __future__ import annotations

from gpu_tracker.errors import GpuError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Protocol

    from gpu_tracker.gpus.model import Gpu, GpuMonitor, GpuProcess, GpuReading

    class GpuBackend(Protocol):
        """The driver of one vendor, opened.

        No method raises because of one GPU: what cannot be read is None, and ``take_messages`` says why, once for each
        cause. Any call may hang as long as the driver does.
        """

        @property
        def compute_files(self) -> frozenset[str]:
            """The device files that a process has open while it computes, and no program that only reads figures."""

        def gpus(self) -> tuple[Gpu, ...]:
            """Return all GPUs that the driver knows of, by index, those that it cannot open included."""

        def read(self, uuid: str) -> GpuReading:
            """Read one GPU; its utilization samples are those since the last reading of it."""

        def processes(self, uuid: str) -> list[GpuProcess] | None:
            """Return the processes on one GPU, None where the driver does not list them."""

        def utilization(self, uuid: str) -> float | None:
            """Return the percent that the driver reports of now, None where it does not."""

        def peak_memory(self, uuid: str, pid: int) -> int | None:
            """Return the bytes of a process' own peak on one GPU, None where the driver keeps no account of it."""

        def energy(self, uuid: str) -> float | None:
            """Return the joules that a whole GPU has used since its driver was loaded; None where it has no counter."""

        def survey(self, *, with_load: bool = True, with_sensors: bool = True) -> list[GpuReading]:
            """Read all GPUs and MIG devices once, in PCI bus order.

            Without load neither sensors nor utilization are asked, and processes only where the memory is unknown;
            without sensors temperature, clock and power are left out. Whether a GPU can be read depends on neither.
            """

        def watch_errors(self) -> None:
            """Count the errors that the driver reports, from now on, for ``GpuReading.health`` of each survey."""

        def details(self) -> list[Gpu]:
            """Return what all GPUs and MIG devices are, in PCI bus order."""

        def monitors(self, interval: float) -> tuple[GpuMonitor, ...]:
            """Return what reads each GPU every ``interval`` seconds, in PCI bus order, lost GPUs included.

            Threads may read several GPUs at the same time.
            """

        def take_messages(self) -> list[tuple[str, str]]:
            """Return what is to be reported and was not taken yet: ('info' or 'warning', text)."""

        def close(self) -> None:
            """Let go of the driver."""


def _opener(module: str) -> Callable[[], GpuBackend | None]:
    """Return what imports a vendor's folder and opens its driver, both when it is called."""

    def open_backend() -> GpuBackend | None:
        from importlib import import_module  # noqa: PLC0415 - only where there is a driver to open

        opened: GpuBackend | None = import_module(module).open_backend()
        return opened

    return open_backend


BACKENDS: dict[str, Callable[[], GpuBackend | None]] = {'nvidia': _opener('gpu_tracker.gpus.nvidia')}
"""Vendor -> the function that opens its driver, returning None where the machine has no such driver. It raises
:class:`~gpu_tracker.errors.GpuError` where the driver is there and does not work."""


def open_first(
    vendor: str | None = None,
    report: Callable[[str], None] = lambda _: None,
    backends: Mapping[str, Callable[[], GpuBackend | None]] = BACKENDS,
) -> GpuBackend | None:
    """Open the driver of a vendor; None: the first driver in the table that this machine has.

    :param report: Takes what is wrong with the driver of another vendor, where one works.
    :param backends: The table.
    :returns: None where the machine has no such driver.
    :raises gpu_tracker.errors.GpuError: A driver is there and does not work, and no other is there.
    """
    problem: GpuError | None = None
    for name, opener in backends.items():
        if vendor in {None, name}:
            try:
                backend = opener()
            except GpuError as error:
                problem = problem or error
                continue
            if backend is not None:
                if problem is not None:
                    report(str(problem))
                return backend
    if problem is not None:
        raise problem
    return None
