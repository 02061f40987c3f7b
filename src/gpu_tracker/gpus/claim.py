"""A claim: GPUs that are reserved for a process, for a time, or for both; and its words for people."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.system.terminal_text import printable
from gpu_tracker.system.users import user_name

if TYPE_CHECKING:
    from collections.abc import Callable


class Claim(NamedTuple):
    """A claim on GPUs or MIG devices; void when its process has ended, its time is up or the machine was restarted."""

    uuids: tuple[str, ...]
    user_id: int
    """The owner of the file that the claim stands in."""
    process_id: int | None
    """None: no process holds it, only its time ends it."""
    made: float
    """Seconds since 1970."""
    expires: float | None
    """Seconds since 1970 as the clock now stands; None: when its process ends."""
    command: str | None
    """What the GPUs were claimed for."""
    in_another_container: bool = False
    """The ID of its process means nothing here: this process is in another container, or outside of it."""


_MINUTE = 60
_HOUR = 60 * _MINUTE


def describe(claim: Claim, now: float, name_of: Callable[[int], str] = user_name) -> str:
    """Return who has claimed, for what and how long: ``claimed by ann (pid 4242, python train.py) for another 58 s``.

    :param now: Seconds since 1970.
    :param name_of: Returns the name of the user with an ID.
    """
    purpose = []
    if claim.process_id is not None:
        purpose.append(f'pid {claim.process_id}' + (' in another container' if claim.in_another_container else ''))
    if claim.command is not None:
        purpose.append(printable(claim.command))
    text = f'claimed by {printable(name_of(claim.user_id))}' + (f' ({", ".join(purpose)})' if purpose else '')
    return text if claim.expires is None else f'{text} for another {remaining(claim.expires - now)}'


def remaining(seconds: float) -> str:
    """Return a time to wait, rounded up: ``58 s``, ``12 min``, ``5 h``."""
    for length, unit in ((1, 's'), (_MINUTE, 'min')):
        if seconds <= 2 * _MINUTE * length:
            return f'{max(0, math.ceil(seconds / length))} {unit}'
    return f'{math.ceil(seconds / _HOUR)} h'
