"""The machine at one moment, as a process sees it that asks which claims hold."""

from __future__ import annotations

import binascii
import os
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.fleet.claims import process

if TYPE_CHECKING:
    from collections.abc import Callable


class Moment(NamedTuple):
    """What it takes to tell whether a claim holds."""

    clock: float
    """Seconds on a clock that nobody sets and that runs on while the machine sleeps."""
    time: float
    """Seconds since 1970."""
    boot_id: str | None
    """Another one each time the machine starts; None where it cannot be told."""
    host: str
    """The machine's name."""
    machine: str
    """What tells it from others of that name; empty where nothing does."""
    pid_namespace: int | None
    start_of: Callable[[int], float | None] = process.start_of
    lives: Callable[[int, float | None], bool] = process.lives


def now() -> Moment:
    """Return the present moment."""
    return Moment(_clock(), time.time(), boot_id(), _host(), machine(), process.pid_namespace())


def boot_id(proc: str = '/proc') -> str | None:
    """Return what is another one each time that the machine starts, random(4); None where it cannot be told."""
    if sys.platform != 'linux':
        import psutil  # noqa: PLC0415 - not on Linux, where it costs 30 ms and is not needed

        return f'{psutil.boot_time():.0f}'
    try:
        with open(f'{proc}/sys/kernel/random/boot_id', encoding='utf-8') as file:
            return file.read().strip() or None
    except (OSError, ValueError):
        return None


def machine(file: str = '/etc/machine-id') -> str:
    """Return what another machine of the same name has not; empty where there is no machine-id(5).

    That page asks not to show the ID itself to others, so this is a checksum that it cannot be computed from.
    """
    try:
        with open(file, 'rb') as opened:
            known = opened.read(256).strip()
    except OSError:
        return ''
    return f'{binascii.crc32(known):08x}' if known else ''


def _clock() -> float:
    if sys.platform == 'linux':
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


def _host() -> str:
    return os.uname().nodename if hasattr(os, 'uname') else ''
