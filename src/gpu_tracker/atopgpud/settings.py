"""What the daemon is told."""

from __future__ import annotations

from typing import NamedTuple


class Settings(NamedTuple):
    """The daemon's settings."""

    host: str = '127.0.0.1'
    """A name or an address of this machine, where version 1 of the protocol is spoken."""
    port: int = 59123
    """0: any that is free."""
    socket_name: str = 'atopgpud_nvidia'
    """Of the kernel's own, without its leading null byte: where versions 1 and 2 are spoken."""
    interval: float = 1.0
    """Seconds between two readings."""
    enable_accounting: bool = False
    """Switch accounting mode of the GPUs on."""
