"""The fleet in a few figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.fleet.hosts.host import UP
from gpu_tracker.fleet.hosts.nvgpu import KINDS, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpu_tracker.fleet.hosts.host import HostState
    from gpu_tracker.fleet.hosts.report import GpuReport

_SUREST_FIRST = ('in_use', 'unseen', 'free', 'unknown')


class Totals(NamedTuple):
    """Whole GPUs are counted, each UUID once; those of hosts without a present reading are unknown."""

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

    @property
    def known(self) -> int | None:
        """The GPUs whose state is known; None: no host has told its GPUs yet."""
        return None if self.gpus is None or self.unknown is None else self.gpus - self.unknown

    @property
    def memory_used_percent(self) -> float | None:
        """The share of the memory that is in use; None: it is not known of any GPU."""
        if not self.memory_total_bytes or self.memory_used_bytes is None:
            return None
        return min(100.0, 100 * self.memory_used_bytes / self.memory_total_bytes)


def totals_of(hosts: Iterable[HostState]) -> Totals:
    """Add the hosts up."""
    count = up = total = used = measured = 0
    seen: dict[object, _Seen] = {}
    is_told = False
    for host in hosts:
        count += 1
        up += host.state == UP
        is_told = is_told or (host.report is not None and host.report.gpus is not None)
        _see(host, seen)
    kinds = dict.fromkeys(KINDS, 0)
    busy: list[float] = []
    for kind, gpu, is_of_now in seen.values():
        kinds[kind] += 1
        if not is_of_now:
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
        gpus=len(seen) if is_known else None,
        **{kind: number if is_known else None for kind, number in kinds.items()},
        memory_total_bytes=total if measured else None,
        memory_used_bytes=used if measured else None,
        utilization_percent=sum(busy) / len(busy) if busy else None,
    )


class _Seen(NamedTuple):
    """A GPU as one host reports it."""

    kind: str
    gpu: GpuReport
    is_of_now: bool


def _see(host: HostState, seen: dict[object, _Seen]) -> None:
    """Add the GPUs of a host; of one that several hosts report stays what promises least.

    So one that somebody sees in use is not called free, and one that somebody can read is not called unknown.
    """
    gpus = (None if host.report is None else host.report.gpus) or ()
    for gpu in gpus:
        entry = _Seen(kind_of(gpu, host), gpu, host.state == UP)
        key = gpu.uuid or object()  # what has no name is nothing else's
        before = seen.get(key)
        if before is None or _SUREST_FIRST.index(entry.kind) < _SUREST_FIRST.index(before.kind):
            seen[key] = entry
