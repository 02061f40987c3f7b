"""Where the processes of a GPU together use more than it has, all are scaled down by the same factor."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.model.window import Capacity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpu_tracker.cuda_probe.model.window import DeviceUse


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
