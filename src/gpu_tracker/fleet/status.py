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


def status_of(gpu: Gpu) -> str:
    """Return one of FREE, IN_USE, IN_USE_UNSEEN, CLAIMED, UNKNOWN, SPLIT and UNREADABLE."""
    found = obstacle(gpu, ANY)
    if found is None:
        return FREE if gpu.is_claim_known else UNKNOWN
    all_seen = bool(gpu.processes) and all(process.is_seen for process in gpu.processes or ())
    return IN_USE_UNSEEN if found.kind == IN_USE and not all_seen else found.kind
