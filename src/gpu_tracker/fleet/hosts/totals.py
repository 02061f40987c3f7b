"""The fleet in a few figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.fleet.hosts.host import UP
from gpu_tracker.fleet.status import CLAIMED, FREE, IN_USE, IN_USE_UNSEEN, SPLIT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpu_tracker.fleet.hosts.host import HostState
    from gpu_tracker.fleet.hosts.report import GpuReport

_KINDS = {FREE: 'free', IN_USE: 'in_use', CLAIMED: 'in_use', IN_USE_UNSEEN: 'unseen'}
_BEST_FIRST = ('free', 'in_use', 'unseen', 'unknown')


class Totals(NamedTuple):
    """Whole GPUs are counted; those of hosts that do not tell of now are unknown."""

    hosts: int
    hosts_up: int
    gpus: int
    free: int
    in_use: int
    """Those that somebody has claimed included."""
    unseen: int
    """In use by processes that cannot be looked up."""
    unknown: int
    """On hosts that are down or stale, or not readable."""
    memory_total_bytes: int | None
    """Of the GPUs whose memory in use is known too; None: of none."""
    memory_used_bytes: int | None
    utilization_percent: float | None
    """The mean over all GPUs that tell theirs; None: none does."""


def totals_of(hosts: Iterable[HostState]) -> Totals:
    """Add the hosts up."""
    count = up = total = used = measured = 0
    kinds = dict.fromkeys(_BEST_FIRST, 0)
    busy: list[float] = []
    for host in hosts:
        count += 1
        up += host.state == UP
        gpus = (host.report.gpus if host.report is not None else None) or ()
        if host.state != UP:
            kinds['unknown'] += len(gpus)
            continue
        for gpu in gpus:
            kinds[_kind(gpu)] += 1
            if gpu.memory_total_bytes is not None and gpu.memory_used_bytes is not None:
                measured += 1
                total += gpu.memory_total_bytes
                used += gpu.memory_used_bytes
            if gpu.utilization_percent is not None:
                busy.append(gpu.utilization_percent)
    return Totals(
        hosts=count,
        hosts_up=up,
        gpus=sum(kinds.values()),
        **kinds,
        memory_total_bytes=total if measured else None,
        memory_used_bytes=used if measured else None,
        utilization_percent=sum(busy) / len(busy) if busy else None,
    )


def _kind(gpu: GpuReport) -> str:
    """Return how a GPU counts; one that is split into MIG devices is as good as the best of them."""
    if gpu.status == SPLIT and gpu.mig_devices:
        return min((_kind(part) for part in gpu.mig_devices), key=_BEST_FIRST.index)
    return _KINDS.get(gpu.status, 'unknown')
