"""The GPUs of several vendors, read as those of one driver."""

from __future__ import annotations

from gpu_tracker.errors import GpuError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpu_tracker.gpus import GpuBackend, RunGpus
    from gpu_tracker.gpus.model import Gpu, GpuProcess, GpuReading


def open_together(
    first: str,
    open_first: Callable[[], GpuBackend | None],
    others: Mapping[str, GpuBackend | GpuError],
    report: Callable[[str], None],
) -> RunGpus | None:
    """Open the first driver, and return it with the others as one backend.

    :param first: The name of a driver that is not open yet.
    :param others: What was opened, and why what was not could not be, by name.
    :param report: Takes why a driver does not work, where another one does.
    :raises GpuError: No driver works, and one is there.
    """
    found = dict(others)
    try:
        backend = open_first()
        if backend is not None:
            found = {first: backend, **found}
    except GpuError as error:
        found = {first: error, **found}
    errors = [error for error in found.values() if isinstance(error, GpuError)]
    backends = {name: backend for name, backend in found.items() if not isinstance(backend, GpuError)}
    if not backends:
        raise errors[0]
    for problem in errors:
        report(str(problem))
    return next(iter(backends.values())) if len(backends) == 1 else Together(backends)


class Together:
    """The drivers of several vendors; see ``gpu_tracker.gpus.RunGpus``."""

    def __init__(self, backends: Mapping[str, GpuBackend]) -> None:
        self._backends = dict(backends)
        self._owners: dict[str, GpuBackend] = {}

    @property
    def compute_files(self) -> frozenset[str]:
        """The device files of all vendors."""
        return frozenset().union(*(backend.compute_files for backend in self._backends.values()))

    def gpus(self) -> tuple[Gpu, ...]:
        """Return the GPUs of all vendors, one vendor after the other."""
        found: list[Gpu] = []
        for name, backend in self._backends.items():
            for gpu in backend.gpus():
                if gpu.uuid is not None:
                    self._owners[gpu.uuid] = backend
                found.append(gpu if gpu.vendor else gpu._replace(vendor=name))
        return tuple(found)

    def follow(self, members: frozenset[int]) -> None:
        """Say to all drivers which processes the run tracks."""
        for backend in self._backends.values():
            backend.follow(members)

    def read(self, uuid: str) -> GpuReading:
        """Read one GPU."""
        return self._owners[uuid].read(uuid)

    def processes(self, uuid: str) -> list[GpuProcess] | None:
        """Return the processes on one GPU."""
        return self._owners[uuid].processes(uuid)

    def utilization(self, uuid: str) -> float | None:
        """Return the percent that one GPU's driver reports of now."""
        return self._owners[uuid].utilization(uuid)

    def peak_memory(self, uuid: str, pid: int) -> int | None:
        """Return the bytes of a process' own peak on one GPU."""
        return self._owners[uuid].peak_memory(uuid, pid)

    def energy(self, uuid: str) -> float | None:
        """Return the joules that a whole GPU has used since its driver was loaded."""
        return self._owners[uuid].energy(uuid)

    def take_messages(self) -> list[tuple[str, str]]:
        """Return the messages of all drivers."""
        return [message for backend in self._backends.values() for message in backend.take_messages()]

    def close(self) -> None:
        """Let go of all drivers."""
        for backend in self._backends.values():
            backend.close()
