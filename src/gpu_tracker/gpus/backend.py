"""What every reader of GPUs offers, of any vendor, once its driver has been opened."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from gpu_tracker.gpus.model import Gpu, GpuActivity, GpuProcess, GpuReading, Unseen

    class RunGpus(Protocol):
        """The opened GPUs that a run reads, of one vendor or of several.

        No method raises because of one GPU: what cannot be read is None, and ``take_messages`` returns the reason, once
        for each cause. Any call may hang as long as the driver does.
        """

        @property
        def compute_files(self) -> frozenset[str]:
            """The device files that a process has open if it computes, and not if it only reads figures."""

        def gpus(self) -> tuple[Gpu, ...]:
            """Return all GPUs that the driver knows, by index, including ones that it cannot open."""

        def follow(self, members: frozenset[int]) -> None:
            """Name the processes that the run tracks, before each reading.

            A backend that reads each process of the machine may list these alone from now on. If the driver keeps
            utilization samples, a reading also has members that came and went since the reading before.
            """

        def read(self, uuid: str) -> GpuReading:
            """Read one GPU; its utilization samples and percentages are since the last reading of it."""

        def processes(self, uuid: str) -> list[GpuProcess] | None:
            """Return the processes on one GPU, None if the driver does not list them."""

        def unseen(self, uuid: str) -> Unseen:
            """Return who may be on one GPU without being in the last list of its processes."""

        def utilization(self, uuid: str) -> float | None:
            """Return the percent that the driver reports of now."""

        def peak_memory(self, uuid: str, pid: int) -> int | None:
            """Return the bytes of a process' own peak on one GPU, None if the driver keeps no account of it."""

        def energy(self, uuid: str) -> float | None:
            """Return the joules that a whole GPU has used since its driver was loaded."""

        def activity(self, uuid: str) -> list[GpuActivity]:
            """Return how busy the parts of one GPU were since the last call, for each of its MIG GPU instances."""

        def take_messages(self) -> list[tuple[str, str]]:
            """Return new messages: ('info' or 'warning', text)."""

        def close(self) -> None:
            """Let go of the driver."""

    class GpuBackend(RunGpus, Protocol):
        """A driver, or several that are read in the same way, opened."""

        def survey(self, *, with_load: bool = True, with_sensors: bool = True) -> list[GpuReading]:
            """Read all GPUs and MIG devices once, in PCI bus order.

            Without load there are neither sensors nor utilization, and processes only if the memory is unknown; without
            sensors there is no temperature, clock, power or health. Whether a GPU can be read depends on neither.
            """

        def watch_errors(self) -> None:
            """Count the errors that the driver reports, from now on, for ``GpuReading.health`` of each survey."""

        def watch_activity(self) -> None:
            """Read how busy the parts of GPUs are, from now on, for ``GpuReading.activity`` of each survey."""

        def details(self) -> list[Gpu]:
            """Return what all GPUs and MIG devices are, in PCI bus order."""


OF_DRM = frozenset({'amd', 'intel', 'drm'})
"""The vendors whose GPUs are served by DRM drivers: their processes are found in ``/proc``, so the IDs are certain."""
