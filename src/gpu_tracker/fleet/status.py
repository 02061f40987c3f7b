"""What the state of a GPU is called: it is free exactly where ``gpu-tracker available`` would give it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.fleet.wish import ANY, CLAIMED, IN_USE, SPLIT, UNREADABLE, obstacle

if TYPE_CHECKING:
    from gpu_tracker.fleet.gpu import Gpu

__all__ = ['CLAIMED', 'FREE', 'IN_USE', 'IN_USE_UNSEEN', 'SPLIT', 'UNKNOWN', 'UNREADABLE', 'status_of']

FREE = 'free'
IN_USE_UNSEEN = 'in_use_unseen'
"""In use, by processes that cannot be looked up from here or are not even listed."""
UNKNOWN = 'unknown'
"""Not in use, but the claims could not be read."""

_MOST = 0.5
"""The share of the memory in use that is more than what a driver and its contexts take beside the processes."""


def status_of(gpu: Gpu) -> str:
    """Return one of FREE, IN_USE, IN_USE_UNSEEN, CLAIMED, UNKNOWN, SPLIT and UNREADABLE."""
    found = obstacle(gpu, ANY)
    if found is None:
        return FREE if gpu.is_claim_known else UNKNOWN
    return IN_USE_UNSEEN if found.kind == IN_USE and not _is_use_seen(gpu) else found.kind


def _is_use_seen(gpu: Gpu) -> bool:
    """Tell whether all processes that are listed can be looked up, and whether they account for what is in use."""
    if not gpu.processes or not all(process.is_seen for process in gpu.processes):
        return False
    sizes = [process.memory for process in gpu.processes if process.memory is not None]
    if len(sizes) < len(gpu.processes) or gpu.state.memory_used is None:
        return True
    return sum(sizes) >= _MOST * gpu.state.memory_used
