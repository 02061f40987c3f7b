"""The names of the groups that this process makes, by which those of trackers that were killed are known."""

from __future__ import annotations

import os
import re

_PREFIX = 'gpu-tracker-run-'
_NAME = re.compile(rf'{_PREFIX}(\d+)-(\d+)-(\d+)')
_START_FIELD = 19
"""Of ``/proc/PID/stat``, counted from the field after the name in parentheses: proc_pid_stat(5)."""


def own_name(proc: str = '/proc') -> str:
    """Return a name that says whose group it is: pid, start in clock ticks after boot, and PID namespace."""
    return f'{_PREFIX}{os.getpid()}-{_start_of("self", proc) or 0}-{_namespace(proc)}'


def is_of_run(folder: str, proc: str = '/proc') -> bool:
    """Return whether a group has such a name, and is still to be removed by the process that has made it."""
    name = os.path.basename(folder)
    return _NAME.fullmatch(name) is not None and not is_abandoned(name, proc)


def is_abandoned(name: str, proc: str = '/proc') -> bool:
    """Return whether a group has such a name, and the process that has made it is no more."""
    found = _NAME.fullmatch(name)
    if found is None or int(found[3]) != _namespace(proc):
        return False  # it is numbered elsewhere
    return _start_of(found[1], proc) != int(found[2]) and not _is_hidden(int(found[1]), proc)


def _is_hidden(pid: int, proc: str) -> bool:
    """Return whether there is a process with that pid of which ``/proc`` shows nothing (hidepid)."""
    if os.path.exists(f'{proc}/{pid}'):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it is there
    return True


def _start_of(pid: str, proc: str) -> int | None:
    """Return when a process was started; None where there is none."""
    try:
        with open(f'{proc}/{pid}/stat', 'rb') as file:
            line = file.read()
    except OSError:
        return None
    return int(line[line.rindex(b')') + 2 :].split()[_START_FIELD])


def _namespace(proc: str) -> int:
    try:
        return os.stat(f'{proc}/self/ns/pid').st_ino
    except OSError:
        return 0
