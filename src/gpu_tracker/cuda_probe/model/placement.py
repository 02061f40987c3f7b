"""Which physical GPU a process' own number stands for, as far as that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.model.window import Capacity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


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
        """Take note that the process has ended."""
        self._known.pop((process, device), None)
