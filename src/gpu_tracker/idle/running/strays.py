"""Strays: processes of programs whose monitor and guardian were killed together. Nobody else would ever end them."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.background import in_thread
from gpu_tracker.gpus.process_ids import IDLE_GUARDIAN
from gpu_tracker.idle.running.program_groups import empty_groups, group_of, mark_by_group
from gpu_tracker.idle.running.program_orphans import VARIABLE, pid_namespace
from gpu_tracker.processes import descendants, process_exists

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Mapping

    from gpu_tracker.idle.running.program_groups import ProgramGroup
    from gpu_tracker.processes.process import Process

GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL: what the program was given is known to nobody any more."""

_MARK = re.compile(rb'(?:\A|\0)%s=(\d+)-(\d+)-[0-9a-f]{16}(?:\0|\Z)' % VARIABLE.encode())


class Stray(NamedTuple):
    """A process that a monitor has left which is no more."""

    process: Process
    name: str
    """Of the process."""
    user: int
    """Whose it is."""
    group: ProgramGroup | None = None
    """The control group of its program; None: it has none."""


def remove_groups() -> None:
    """Remove the control groups in which monitors that are no more have left nothing."""
    for of_monitor, group in empty_groups():
        pid, namespace, _ = of_monitor.split('-')
        if int(namespace) == pid_namespace() and not process_exists(int(pid)):
            group.remove()


def find_strays() -> list[Stray]:
    """Return them; those of other users where this process may read their environment."""
    everybody = {process.pid: process for process in descendants.all_processes()}
    own = _own_line(everybody)
    found = []
    for process in everybody.values():
        monitor = None if process.ended or process.pid in own else _monitor_of(process.pid)
        if monitor is not None and _is_stray(process, monitor, everybody):
            try:
                with open(f'/proc/{process.pid}/comm', encoding='utf-8', errors='replace') as file:
                    name = file.read().rstrip('\n')
                owner = os.stat(f'/proc/{process.pid}').st_uid
                found.append(Stray(process, name, owner, group_of(process.pid)))
            except OSError:
                pass  # it has ended meanwhile
    return found


async def end_strays(log: logging.Logger, name_of: Callable[[int], str], grace: float = GRACE) -> None:
    """End those of this user, and name those of others, which only they or root's own hand may end.

    Where this is cancelled they have no time left.
    """
    own = []
    for stray in await in_thread(find_strays):  # it reads a file of each process, and some may hang
        words = f'{stray.name} (pid {stray.process.pid}), left by a killed idle monitor'
        if stray.user == os.geteuid():
            log.warning('ending %s', words)
            own.append(stray)
        else:
            log.warning('%s, belongs to %s and keeps running', words, name_of(stray.user))
    try:
        await in_thread(remove_groups)
        if not own:
            return
        for stray in own:
            descendants.send(stray.process, signal.SIGTERM, signal.SIGCONT)
        await asyncio.sleep(grace)
    finally:
        for stray in own:
            descendants.send(stray.process, signal.SIGKILL)
        for group in {stray.group.folder: stray.group for stray in own if stray.group is not None}.values():
            group.kill()  # with what was forked meanwhile
            group.remove()


def _own_line(everybody: Mapping[int, Process]) -> set[int]:
    """Return this process and those above it, as the shell in which somebody has started it."""
    line: set[int] = set()
    pid = os.getpid()
    while pid in everybody and pid not in line:
        line.add(pid)
        pid = everybody[pid].parent
    return line


def _monitor_of(pid: int) -> int | None:
    """Return the pid of the monitor that has started a process, or what it descends from.

    None: none has, or one that is numbered elsewhere than both are here. The monitor of a machine cannot be seen in a
    container that its program has made, and its number means nobody, or somebody else, there.
    """
    try:
        with open(f'/proc/{pid}/environ', 'rb') as file:
            mark = _MARK.search(file.read())
    except OSError:
        mark = None
    found = mark_by_group(pid) if mark is None else (int(mark[1]), int(mark[2]))
    here = pid_namespace()
    if found is None or not here or {found[1], pid_namespace(pid)} != {here}:
        return None
    return found[0]


def _is_stray(process: Process, monitor: int, everybody: Mapping[int, Process]) -> bool:
    alive = everybody.get(monitor)
    if alive is None and process_exists(monitor):
        return False  # it is hidden (hidepid)
    # A process with the monitor's number that was started later than the program is another one.
    if alive is not None and not alive.ended and alive.start <= process.start:
        return False
    return not _has_guardian(process, everybody)


def _has_guardian(process: Process, everybody: Mapping[int, Process]) -> bool:
    """Return whether it is a guardian or below one, which ends it if its monitor has ended."""
    seen: set[int] = set()
    above: Process | None = process
    while above is not None and above.pid not in seen:
        if above.raw[above.raw.index(b'(') + 1 : above.raw.rindex(b')')] == IDLE_GUARDIAN:
            return True
        seen.add(above.pid)
        above = everybody.get(above.parent)
    return False
