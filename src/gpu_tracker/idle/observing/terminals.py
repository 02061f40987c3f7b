"""Who works at a terminal.

Looked at are pseudo-terminals (``pts/N``: ssh, windows, tmux), virtual consoles (``ttyN``) and serial lines
(``ttySN``). A terminal is its owner's. The kernel notes when it was read from last, at most every 8 s.
"""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.idle.state import ActiveUser
from gpu_tracker.system.users import user_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from gpu_tracker.idle.config.idle_settings import Terminals

_CONSOLE = re.compile(r'tty(S?[0-9]+)')
_ALIAS = 'tty0'
"""Another name of the console in front, which has an own node and time."""
_ROOT = 0


def logged_in() -> frozenset[tuple[str, str]]:
    """Return the pairs of user and terminal, such as ``('root', 'tty1')``, of those who are logged in."""
    import psutil  # noqa: PLC0415 - seldom needed

    return frozenset((user.name, user.terminal or '') for user in psutil.users())


class _Future(NamedTuple):
    """A terminal whose time of use is in the future, as where the clock was wrong at boot."""

    used: float
    """That time."""
    seen_at: float
    """When it was seen first, in monotonic seconds: the terminal was used then at the latest."""


class TerminalUsers:
    """Lookup of who is active at terminals.

    :param folder: Where the terminals are.
    :param name_of: Returns at once the name of the user with an ID, or the ID as text.
    :param clock: Returns the time in seconds since 1970.
    :param monotonic: Returns the time in seconds, which nobody sets.
    :param sessions: Returns who is logged in where; asked only about consoles that are root's.
    :param stat: Returns a terminal's owner and times.
    """

    def __init__(
        self,
        folder: str = '/dev',
        *,
        name_of: Callable[[int], str] = user_name,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        sessions: Callable[[], Collection[tuple[str, str]]] = logged_in,
        stat: Callable[[str], os.stat_result] = os.stat,
    ) -> None:
        self._folder = folder
        self._name_of = name_of
        self._clock = clock
        self._monotonic = monotonic
        self._sessions = sessions
        self._stat = stat
        self._futures: dict[str, _Future] = {}

    def active(self, terminals: Terminals) -> tuple[ActiveUser, ...]:
        """Return the users who are active and do not stand on the whitelist, the latest first.

        :param terminals: Who does not count, and for how long a user counts who does nothing.
        """
        found: list[ActiveUser] = []
        at_consoles: Collection[tuple[str, str]] | None = None
        for terminal, (owner, idle) in self._seen().items():
            if idle >= terminals.idle_seconds:
                continue
            name = self._name_of(owner)
            if name in terminals.whitelist:
                continue
            if owner == _ROOT and not terminal.startswith('pts/'):
                # It is root's also where nobody is logged in: those who log in get it from getty(8).
                at_consoles = self._sessions() if at_consoles is None else at_consoles
                if not {(name, terminal), ('root', terminal)}.intersection(at_consoles):
                    continue
            found.append(ActiveUser(name, terminal, idle))
        return tuple(sorted(found, key=lambda user: (user.idle, user.terminal)))

    def _seen(self) -> dict[str, tuple[int, float]]:
        """Return the owner's ID of each terminal, and the seconds for which it was not used."""
        found: dict[str, tuple[int, float]] = {}
        futures: dict[str, _Future] = {}
        now, monotonic = self._clock(), self._monotonic()
        for terminal in _terminals(self._folder):
            try:
                node = self._stat(f'{self._folder}/{terminal}')
            except OSError:
                continue  # closed meanwhile
            idle = now - node.st_atime
            future = self._futures.get(terminal)
            if future is None or future.used != node.st_atime:
                future = _Future(node.st_atime, monotonic) if idle < 0 else None
            if future is not None:
                futures[terminal] = future
                idle = monotonic - future.seen_at
            found[terminal] = (node.st_uid, idle)
        self._futures = futures
        return found


def _terminals(folder: str) -> Iterator[str]:
    """Return what the terminals are called: digits only under pts, where ptmx is none."""
    for name in _listing(f'{folder}/pts'):
        if name.isdecimal():
            yield f'pts/{name}'
    for name in _listing(folder):
        if _CONSOLE.fullmatch(name) and name != _ALIAS:
            yield name


def _listing(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []  # as in a container without terminals
