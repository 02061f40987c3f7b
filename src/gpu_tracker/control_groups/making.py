"""Making a control group, putting processes into it, ending all that is in it, and removing it without a trace.

A process that gets another session, another parent and another environment stays in its group. ``cgroup.kill`` ends all
of one at once (version 2, Linux 5.14); elsewhere its processes are ended one by one until none is left. cgroups(7);
kernel documentation, admin-guide/cgroup-v2.
"""

from __future__ import annotations

import os
import signal
import time

from gpu_tracker.control_groups.places import text_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_PAUSE = 0.01
_LONGEST_END = 2.0
"""Seconds: a process that was killed may have gigabytes to give back before it is gone."""
_PROCESSES = 'cgroup.procs'
_KILL = 'cgroup.kill'


def enter(folder: str, pid: int) -> None:
    """Put a process into a group, with all its threads.

    :raises OSError: It has ended, or that is not permitted.
    """
    write(f'{folder}/{_PROCESSES}', str(pid))


def write(path: str, text: str) -> None:
    """Write into a file of a group. With one call: what it does not take is an error of that call.

    :raises OSError: The file is not there, or does not take it.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def can_be_killed(folder: str) -> bool:
    """Return whether a group can be ended at once."""
    return os.path.exists(f'{folder}/{_KILL}')


def kill(folder: str, timeout: float = _LONGEST_END, spares: Callable[[int], bool] = lambda _: False) -> None:
    """Send SIGKILL to all that is in a group and below it, and to what is forked meanwhile.

    :param timeout: Seconds in which that is to be done where it goes one by one: what forks all the time may be faster.
    :param spares: Whether the process with a pid is left alone; from when on it is not, all are ended at once.
    """
    eventually(lambda: _kill_at_once(folder, spares) or not _kill_once(folder, spares), timeout)


def processes_in(folder: str) -> list[int]:
    """Return the processes in a group and below it, by pid; 0 stands for one that this process cannot see."""
    found: list[int] = []
    for each, _, _ in os.walk(folder):
        found += own_processes(each)
    return found


def own_processes(folder: str) -> list[int]:
    """Return the processes in a group itself, by pid; 0 as above."""
    return [int(pid) for pid in (text_in(folder, _PROCESSES) or '').split()]


def remove(folder: str, timeout: float = _LONGEST_END) -> bool:
    """Remove a group and those below it, as soon as nothing is in them; return whether they are gone.

    :param timeout: Seconds to wait for that, at most.
    """
    return eventually(lambda: _try_to_remove(folder), timeout)


def is_empty(folder: str) -> bool:
    """Return whether no process is in a group and below it, as far as that can be known."""
    events = text_in(folder, 'cgroup.events')
    if events is not None:
        return 'populated 0' in events.splitlines()
    return os.path.exists(f'{folder}/{_PROCESSES}') and not processes_in(folder)


def eventually(condition: Callable[[], bool], timeout: float) -> bool:
    """Return whether a condition holds, after so many seconds at most."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_PAUSE)
    return True


def _kill_at_once(folder: str, spares: Callable[[int], bool]) -> bool:
    """Send SIGKILL to all that is in a group, where none of that is spared; return whether the kernel has done it."""
    if not can_be_killed(folder) or any(map(spares, processes_in(folder))):
        return False
    try:
        write(f'{folder}/{_KILL}', '1')
    except OSError:
        return False  # it has been removed
    return True


def _kill_once(folder: str, spares: Callable[[int], bool]) -> bool:
    """Send SIGKILL to what is in a group; return whether anything was that can have forked meanwhile."""
    is_any = False
    for pid in processes_in(folder):
        try:
            if pid and not spares(pid):
                os.kill(pid, signal.SIGKILL)
                is_any = True
        except (ProcessLookupError, PermissionError):
            pass  # it has ended, or is another user's: what is left keeps the group from being removed
    return is_any


def _try_to_remove(folder: str) -> bool:
    for each, _, _ in os.walk(folder, topdown=False):
        try:
            os.rmdir(each)
        except OSError:
            pass  # a process in it has not quite ended yet
    return not os.path.exists(folder)
