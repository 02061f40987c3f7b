"""A machine with processes, clocks and restarts of a test's making, and claims on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.gpus.claims.liveness import Circumstances

if TYPE_CHECKING:
    from gpu_tracker.gpus.claims.folder import ClaimFolder, HeldClaim


class Machine:
    """What there is to know of a machine, to be changed by the test."""

    def __init__(self) -> None:
        self.clock = 100.0
        self.started = 1_700_000_000.0
        self.boot_id: str | None = 'boot-1'
        self.host = 'node7'
        self.machine = 'a1b2c3d4'
        self.pid_namespace = 4026531836
        self.processes = {7: 70.0, 8: 80.0}

    def moment(self) -> Circumstances:
        """Return it as it is now."""
        return Circumstances(
            clock=self.clock,
            time=self.started + self.clock,
            boot_id=self.boot_id,
            host=self.host,
            machine=self.machine,
            pid_namespace=self.pid_namespace,
            start_of=self.processes.get,
            lives=lambda pid, start: pid in self.processes and start in (None, self.processes[pid]),
        )

    def restart(self, boot_id: str = 'boot-2') -> None:
        """Start it anew; what ran, and the clock, are for the test to change."""
        self.boot_id = boot_id
        self.started += 1000


def claim(
    folder: ClaimFolder, *uuids: str, process: int | None = 7, seconds: float | None = None, command: str | None = None
) -> HeldClaim:
    """Claim these GPUs, for a process, for a time or both."""
    held = folder.claim(lambda _: uuids, process_id=process, seconds=seconds, command=command)
    assert held is not None
    return held


def claimed(folder: ClaimFolder) -> list[tuple[str, ...]]:
    """Return the GPUs of each claim that holds."""
    return [claim.uuids for claim in folder.claims()]
