"""What an agent is told to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gpu_tracker.fleet.config.cluster import Cluster


class Settings(NamedTuple):
    """Settings of an agent, checked."""

    cluster: Cluster
    """The hosts of ``/cluster_status``, in order; where there are none, there is no page either."""
    interval: float
    """Seconds between two looks at the GPUs."""
    export_processes: bool = False
    """Whether metrics tell the memory of each process."""
    export_users: bool = False
    """Whether metrics tell the names of users."""
    probes: tuple[str, ...] = ()
    """Names of entry points whose metrics are wanted too; these tell of processes one by one."""
