"""The physical GPUs that processes use: their cores and memory, and the scaling where processes together use more."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.model.window import Capacity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gpu_tracker.cuda_probe.model.window import DeviceUse


class Placement:
    """Asks as long as it is not known, and remembers the answer.

    :param placed: Returns the key of the physical GPU of a process and its own number of a GPU; None: not known.
    :param capacities: What each has, by key.
    """

    def __init__(self, placed: Callable[[int, int], str | None], capacities: Mapping[str, Capacity]) -> None:
        self._placed = placed
        self._capacities = capacities
        self._known: dict[tuple[int, int], str] = {}

    def gpu(self, process: int, device: int) -> str | None:
        """Return the key of the physical GPU; None where it is not known."""
        key = process, device
        gpu = self._known.get(key)
        if gpu is None:
            gpu = self._placed(process, device)
            if gpu is not None:
                self._known[key] = gpu
        return gpu

    def capacity(self, gpu: str | None) -> Capacity:
        """Return what a physical GPU has."""
        return Capacity() if gpu is None else self._capacities.get(gpu, Capacity())

    def cores(self, process: int, device: int) -> int | None:
        """Return the CUDA cores of the GPU; None where they are not known."""
        return self.capacity(self.gpu(process, device)).cores

    def forget(self, process: int, device: int) -> None:
        """Record that the process has ended."""
        self._known.pop((process, device), None)


def normalised(uses: Iterable[DeviceUse], capacities: Mapping[str, Capacity]) -> tuple[DeviceUse, ...]:
    """Return the uses with their normalised figures, in the same order.

    A GPU that is not known, or of which it is not known what it has, leaves memory without a normalised figure, and
    cores without any.
    """
    uses = tuple(uses)
    cores: defaultdict[str, float] = defaultdict(float)
    memory: defaultdict[str, int] = defaultdict(int)
    for use in uses:
        if use.gpu is not None:
            cores[use.gpu] += use.used_cores or 0.0
            memory[use.gpu] += use.memory_current
    return tuple(
        _normalised(use, capacities.get(use.gpu, Capacity()), cores[use.gpu], memory[use.gpu])
        if use.gpu is not None
        else use
        for use in uses
    )


def _normalised(use: DeviceUse, capacity: Capacity, cores: float, memory: int) -> DeviceUse:
    """Return a use of a GPU whose processes together use so many cores and bytes."""
    if capacity.cores is not None and use.used_cores is not None and cores > capacity.cores:
        use = use._replace(used_cores_normalised=use.used_cores * capacity.cores / cores)
    if capacity.memory is None:
        return use
    together = max(memory, capacity.memory, 1)
    return use._replace(
        memory_current_normalised=use.memory_current * capacity.memory // together,
        memory_max_normalised=use.memory_max * capacity.memory // together,
    )
