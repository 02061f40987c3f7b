"""What makes a GPU busy whose users cannot be seen: its memory and its utilization, where thresholds are set."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from gpu_tracker.gpus.model import GpuReading
    from gpu_tracker.idle.config.settings import GpuSection

_MEGABYTE = 1e6
_GIGABYTE = 1e9


def load_of(
    state: GpuReading, section: GpuSection, ours: Collection[int], *, ended: Collection[int] = (), is_certain: bool
) -> str | None:
    """Return in words what reaches its threshold, None where nothing does or it is unknown.

    :param ours: The processes of ours that are on the GPU.
    :param ended: Processes that were listed on it and are no more: what they had is nobody's.
    :param is_certain: Whether the driver's list tells all of ours: not in a container, where it may leave them out, or
        tell of no memory.
    """
    found = []
    if section.busy_memory is not None:
        memory = _memory_of_others(state, ours, ended, is_certain=is_certain)
        if memory is not None and memory >= section.busy_memory:
            found.append(f'{_size(memory)} of memory in use by others')
    threshold, utilization = section.busy_utilization, state.utilization
    if threshold is not None and utilization is not None and utilization >= threshold and not ours and not ended:
        found.append(f'utilization {utilization:.0f} %')
    return ' and '.join(found) or None


def _memory_of_others(
    state: GpuReading, ours: Collection[int], ended: Collection[int], *, is_certain: bool
) -> int | None:
    """Return the bytes in use without those of our processes; None where either is unknown."""
    if state.memory_used is None or not (ours or ended):
        return state.memory_used
    if state.processes is None:
        return None
    known = 0
    listed = set()
    for entry in state.processes:
        if entry.pid in ours or entry.pid in ended:
            if entry.memory is None or not (entry.memory or is_certain):
                return None
            known += entry.memory
            listed.add(entry.pid)
    if not (is_certain or listed.issuperset(ours)):
        return None
    return max(0, state.memory_used - known)


def _size(memory: int) -> str:
    return f'{memory / _GIGABYTE:.1f} GB' if memory >= _GIGABYTE else f'{memory / _MEGABYTE:.0f} MB'
