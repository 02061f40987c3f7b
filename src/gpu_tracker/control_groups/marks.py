"""The names of the groups that this process makes, by which those of trackers that were killed are known."""

from __future__ import annotations

import os

_PREFIX = 'gpu-tracker-run-'
_PARTS = 3
_START_FIELD = 19
"""Of ``/proc/PID/stat``, counted from the field after the name in parentheses: proc_pid_stat(5)."""


def own_name(proc: str = '/proc') -> str:
    """Return a name that says whose group it is: pid, start in clock ticks after boot, and PID namespace."""
    return f'{_PREFIX}{os.getpid()}-{_start_of("self", proc) or 0}-{_namespace(proc)}'


def is_of_run(folder: str, proc: str = '/proc') -> bool:
    """Return whether a group has such a name, and is still to be removed by the process that has made it."""
    name = os.path.basename(folder)
    return bool(_parts_of(name)) and not is_abandoned(name, proc)


def is_abandoned(name: str, proc: str = '/proc') -> bool:
    """Return whether a group has such a name, and the process that has made it is no more."""
    parts = _parts_of(name)
    if not parts or int(parts[2]) != _namespace(proc):
        return False  # it is numbered elsewhere
    return _start_of(parts[0], proc) != int(parts[1]) and not _is_hidden(int(parts[0]), proc)


def _parts_of(name: str) -> list[str]:
    """Return pid, start and PID namespace in a name; nothing if it is another one.

    Without the module re, which costs every sampler 1 MB.
    """
    parts = name.removeprefix(_PREFIX).split('-')
    is_ours = name.startswith(_PREFIX) and len(parts) == _PARTS
    return parts if is_ours and all(part.isascii() and part.isdecimal() for part in parts) else []


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
