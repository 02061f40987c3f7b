"""The fleet in a few figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.fleet.hosts.host import UP
from gpu_tracker.fleet.hosts.kind import KINDS, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpu_tracker.fleet.hosts.host import HostState


class Totals(NamedTuple):
    """Whole GPUs are counted, each UUID once; those of hosts that do not tell of now are unknown."""

    hosts: int
    hosts_up: int
    gpus: int | None
    """None, here and below: there are hosts, and none of them has told its GPUs yet."""
    free: int | None
    in_use: int | None
    """Those that somebody has claimed included."""
    unseen: int | None
    """In use by processes that cannot be looked up."""
    unknown: int | None
    """On hosts that are down or stale, or not readable."""
    memory_total_bytes: int | None
    """Of the GPUs whose memory in use is known too; None: of none."""
    memory_used_bytes: int | None
    utilization_percent: float | None
    """The mean over all GPUs that tell theirs; None: none does."""


def totals_of(hosts: Iterable[HostState]) -> Totals:
    """Add the hosts up."""
    count = up = total = used = measured = 0
    kinds = dict.fromkeys(KINDS, 0)
    is_told = False
    busy: list[float] = []
    counted: set[str] = set()
    # Those that are up come first: a GPU that is reached in two ways is known where one of them works.
    for host in sorted(hosts, key=lambda host: host.state != UP):
        count += 1
        up += host.state == UP
        if host.report is None or host.report.gpus is None:
            continue
        is_told = True
        for gpu in host.report.gpus:
            if gpu.uuid in counted:
                continue
            if gpu.uuid is not None:
                counted.add(gpu.uuid)
            kinds[kind_of(gpu, host)] += 1
            if host.state != UP:
                continue
            if gpu.memory_total_bytes is not None and gpu.memory_used_bytes is not None:
                measured += 1
                total += gpu.memory_total_bytes
                used += gpu.memory_used_bytes
            if gpu.utilization_percent is not None:
                busy.append(gpu.utilization_percent)
    is_known = is_told or not count
    return Totals(
        hosts=count,
        hosts_up=up,
        gpus=sum(kinds.values()) if is_known else None,
        **{kind: number if is_known else None for kind, number in kinds.items()},
        memory_total_bytes=total if measured else None,
        memory_used_bytes=used if measured else None,
        utilization_percent=sum(busy) / len(busy) if busy else None,
    )
