"""What others need of a probe, and how they get one that looks already."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_tracker.cuda_probe.report import CudaReport


class FollowingProbe(Protocol):
    """What is asked of :class:`gpu_tracker.cuda_probe.session.Probe`."""

    def open(self) -> None:
        """Make ready; raise GpuTrackerError, saying in one sentence what is missing, where that is in vain."""

    def follow(self, pid: int) -> None:
        """Look at a process, what it has started, and all that these start from now on."""

    def start(self) -> None:
        """Begin to collect, in a thread."""

    def report(self) -> CudaReport:
        """Return what was seen until now."""

    def close(self) -> None:
        """Detach from everything, which may take seconds."""


def opened(make_probe: Callable[[], FollowingProbe], pid: int | None = None) -> FollowingProbe:
    """Return a probe that collects.

    :param pid: A process to follow, with its descendants; None: none yet.
    :raises gpu_tracker.errors.GpuTrackerError: The probe is not available; nothing stays open.
    """
    probe = make_probe()
    try:
        probe.open()
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):  # it has ended already, and has nothing to tell
                probe.follow(pid)
        probe.start()
    except BaseException:
        probe.close()
        raise
    return probe
