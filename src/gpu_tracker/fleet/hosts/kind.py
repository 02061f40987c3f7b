"""As what a GPU counts where the fleet is added up: the one definition for the dashboard and for Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.fleet.hosts.host import UP
from gpu_tracker.gpus.constraints import CLAIMED, FREE, IN_USE, IN_USE_UNSEEN, SPLIT

if TYPE_CHECKING:
    from gpu_tracker.fleet.hosts.host import HostState
    from gpu_tracker.fleet.hosts.report import GpuReport

KINDS = ('free', 'in_use', 'unseen', 'unknown')
"""The best first."""

_OF_STATUS = {FREE: 'free', IN_USE: 'in_use', CLAIMED: 'in_use', IN_USE_UNSEEN: 'unseen'}


def kind_of(gpu: GpuReport, host: HostState) -> str:
    """Return one of KINDS: unknown on a host that does not tell of now, and else by the GPU's status.

    A GPU that is split into MIG devices is as good as the best of them.
    """
    return _by_status(gpu) if host.state == UP else 'unknown'


def _by_status(gpu: GpuReport) -> str:
    if gpu.status == SPLIT and gpu.mig_devices:
        return min((_by_status(part) for part in gpu.mig_devices), key=KINDS.index)
    return _OF_STATUS.get(gpu.status, 'unknown')
