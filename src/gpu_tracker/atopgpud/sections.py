"""What one client is told of each GPU. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.atopgpud.counters import GpuCounters, ProcessCounters

UNKNOWN = -1
"""What stands for a percentage that is not known, also for a cumulative one."""


class Section(NamedTuple):
    """What one client is told of one GPU."""

    gpu: GpuCounters
    offsets: tuple[int, int] = (0, 0)
    """What is taken off the two cumulative percentages, see :func:`offsets_after`."""
    ended: Sequence[ProcessCounters] = ()
    """Processes that have ended, and that this client has not been told of."""


def offsets_after(section: Section) -> tuple[int, int]:
    """Return the offsets for the next answer to a client that has been told this section.

    A client takes the difference to the figure before, also where that was -1: all that had been counted until then
    would seem to be the work of one interval. So from then on as much is taken off that the difference is right.
    """
    gpu = section.gpu
    busy, memory_busy = section.offsets
    return (
        _offset_after(busy, gpu.busy_total, is_known=gpu.busy_now is not None),
        _offset_after(memory_busy, gpu.memory_busy_total, is_known=gpu.memory_busy_now is not None),
    )


def _offset_after(offset: int, total: int, *, is_known: bool) -> int:
    if not is_known:
        return total - UNKNOWN
    # Where nothing has been counted since, 0 was told for -1, which would have meant unknown; 0 is what counts then.
    return min(offset, total)
