"""A claim: GPUs that are reserved for a process, for a time, or for both."""

from __future__ import annotations

from typing import NamedTuple


class Claim(NamedTuple):
    """A claim on GPUs or MIG devices; void when its process has ended, its time is up or the machine was restarted."""

    uuids: tuple[str, ...]
    user_id: int
    """The owner of the file that the claim stands in."""
    process_id: int | None
    """None: no process holds it, only its time ends it."""
    process_start: float | None
    """When the process started, in the kernel's own count: with the ID it tells a process from a later one."""
    pid_namespace: int | None
    """What numbers the process: its ID means nothing elsewhere. None: the system has no such namespaces."""
    boot_id: str
    made: float
    """Seconds since 1970."""
    expires: float | None
    """Seconds since 1970 as the clock now stands; None: when its process ends."""
    command: str | None
    """What the GPUs were claimed for."""
    in_another_container: bool = False
    """The ID of its process is one of another container's, or of the machine's where this process is in a container:
    it means nothing here."""
