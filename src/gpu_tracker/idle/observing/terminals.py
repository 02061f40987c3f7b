"""Who works at a terminal.

Looked at are pseudo-terminals (``pts/N``: ssh, windows, tmux), virtual consoles (``ttyN``) and serial lines
(``ttySN``). A terminal is its owner's. The kernel notes when it was read from last, at most every 8 s.
"""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING

from gpu_tracker.idle.observation import ActiveUser
from gpu_tracker.users import user_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from gpu_tracker.idle.config.settings import Terminals

_CONSOLE = re.compile(r'tty(S?[0-9]+)')
_ALIAS = 'tty0'
"""Another name of the console in front, which has an own node and time."""
_ROOT = 0


def logged_in() -> frozenset[tuple[str, str]]:
    """Return the pairs of user and terminal, such as ``('root', 'tty1')``, of those who are logged in."""
    import psutil  # noqa: PLC0415 - seldom needed

    return frozenset((user.name, user.terminal or '') for user in psutil.users())


def active_users(
    terminals: Terminals,
    folder: str = '/dev',
    *,
    name_of: Callable[[int], str] = user_name,
    clock: Callable[[], float] = time.time,
    sessions: Callable[[], Collection[tuple[str, str]]] = logged_in,
    look: Callable[[str], os.stat_result] = os.stat,
) -> tuple[ActiveUser, ...]:
    """Return the users who are active at terminals and do not stand on the whitelist, the latest first.

    :param terminals: Who does not count, and for how long a user counts who does nothing.
    :param folder: Where the terminals are.
    :param name_of: Tells the name of the user with an ID, or the ID as text.
    :param clock: Tells the time in seconds since 1970.
    :param sessions: Tells who is logged in where; asked only about consoles that are root's.
    :param look: Tells a terminal's owner and times.
    """
    found: list[ActiveUser] = []
    names: dict[int, str] = {}
    known: Collection[tuple[str, str]] | None = None
    now = clock()
    for terminal in _terminals(folder):
        try:
            node = look(f'{folder}/{terminal}')
        except OSError:
            continue  # closed meanwhile
        idle = max(0.0, now - node.st_atime)  # a clock that was set back counts as now
        if idle >= terminals.idle_seconds:
            continue
        name = names.get(node.st_uid) or name_of(node.st_uid)
        names[node.st_uid] = name
        if name in terminals.whitelist:
            continue
        if node.st_uid == _ROOT and not terminal.startswith('pts/'):
            # It is root's also where nobody is logged in: those who log in get it from getty(8).
            known = sessions() if known is None else known
            if (name, terminal) not in known:
                continue
        found.append(ActiveUser(name, terminal, idle))
    return tuple(sorted(found, key=lambda user: (user.idle, user.terminal)))


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
