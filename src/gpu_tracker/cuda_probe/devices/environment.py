"""The variables of a program that decide which GPUs CUDA shows it, and their changes.

``/proc/PID/environ`` shows what a program was started with. What a running process has now stands where ``environ``
points, environ(7), which is read from its memory; that takes the rights that reading ``/proc/PID/environ`` takes.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.cuda_probe.binaries.elf64 import SHT_DYNSYM, SHT_SYMTAB, Elf
from gpu_tracker.cuda_probe.binaries.region import NotReadableError, OpenFile, mappings_of
from gpu_tracker.gpus.visible_devices import ORDER_VARIABLE, VARIABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_tracker.cuda_probe.binaries.region import MappedPart

NAMES = (VARIABLE, ORDER_VARIABLE)
_POINTER = struct.Struct('=Q')
_SYMBOLS = {'environ', '__environ'}
_C_LIBRARIES = ('libc.so', 'libc-', 'ld-musl')
_LOADERS = ('ld-', 'ld64')
_MOST_VARIABLES = 4096
_LONGEST = 4096
_OF_GPUS = ('/dev/nvidia', '/dev/dxg')


class EnvironmentChange(NamedTuple):
    """A call of setenv, putenv or unsetenv by a process."""

    process: int
    """The number of the program run."""
    time: int
    """Nanoseconds of the monotonic clock."""
    name: str
    value: str | None
    """None: it was removed."""


class Environment:
    """Those variables of one program run, at any time of it.

    :param initial: What it was started with; None: that is not known.
    """

    def __init__(self, initial: Mapping[str, str] | None) -> None:
        self._initial = initial
        self._changes: list[EnvironmentChange] = []

    def change(self, change: EnvironmentChange) -> None:
        """Record a change; they may come in any order."""
        if change.name in NAMES:
            self._changes.append(change)

    def at(self, time: int) -> dict[str, str] | None:
        """Return the variables that were set at a time; None where one of them is not known.

        :param time: Nanoseconds of the monotonic clock.
        """
        changed = {
            change.name: change.value
            for change in sorted(self._changes, key=lambda change: change.time)
            if change.time <= time
        }
        if self._initial is None and len(changed) < len(NAMES):
            return None
        values = {name: changed.get(name, (self._initial or {}).get(name)) for name in NAMES}
        return {name: value for name, value in values.items() if value is not None}


def initial_variables(pid: int, proc: str = '/proc') -> dict[str, str] | None:
    """Return those variables that a process' program was started with.

    None where they cannot be read, and where the program has written its title over them, as setproctitle does.
    """
    try:
        with open(f'{proc}/{pid}/environ', 'rb') as file:
            content = file.read()
    except OSError:  # it has ended, or is somebody else's
        return None
    if content and not content.endswith(b'\0'):
        return None
    entries = content.removesuffix(b'\0').split(b'\0') if content else []
    if any(b'=' not in entry for entry in entries):
        return None
    variables: dict[str, str] = {}
    for entry in entries:
        name, _, value = entry.partition(b'=')
        variables.setdefault(os.fsdecode(name), os.fsdecode(value))  # getenv(3) finds the first of two
    return {name: variables[name] for name in NAMES if name in variables}


def running_variables(pid: int, proc: str = '/proc') -> dict[str, str] | None:
    """Return the variables that CUDA has read, or will read, in a process that runs; None where that is not known."""
    initial, current = initial_variables(pid, proc), current_variables(pid, proc)
    if current is None and not _has_c_library(pid, proc):
        current = initial  # it has just been started
    return variables_of_cuda(initial, current, may_have_begun=may_have_begun(pid, proc))


def variables_of_cuda(
    initial: Mapping[str, str] | None, current: Mapping[str, str] | None, *, may_have_begun: bool
) -> dict[str, str] | None:
    """Return the variables that CUDA has read, or will read; None: not known.

    :param initial: What the program was started with; None: not known.
    :param current: What it has now; None: not known.
    :param may_have_begun: Whether it may have called CUDA already, which then was before or after a change.
    """
    if current is None or (may_have_begun and current != initial):
        return None
    return dict(current)


def current_variables(pid: int, proc: str = '/proc') -> dict[str, str] | None:
    """Return the variables that a process has now; None where they are not to be found or not to be read."""
    try:
        with open(f'{proc}/{pid}/mem', 'rb', buffering=0) as memory:
            address = _environ_of(pid, proc)
            return None if address is None else _variables(memory.fileno(), address)
    except (OSError, NotReadableError, struct.error):  # it has ended, is somebody else's, or is changing them just now
        return None


def _environ_of(pid: int, proc: str) -> int | None:
    """Return the address of the pointer: in a program that uses it itself that is the program's own copy."""
    program = os.readlink(f'{proc}/{pid}/exe')
    beginnings = [part for part in mappings_of(proc, pid) if part.offset == 0 and part.path and not part.deleted]
    libraries = [part for part in beginnings if os.path.basename(part.path or '').startswith(_C_LIBRARIES)]
    for part in (*(part for part in beginnings if part.path == program), *libraries):
        address = _symbol_address(part, part.reached_through(f'{proc}/{pid}'))
        if address is not None:
            return address
    return None


def _symbol_address(part: MappedPart, path: str) -> int | None:
    elf = Elf(OpenFile(path))
    first = min((segment for segment in elf.segments() if segment.offset == 0), default=None)
    for kind in (SHT_DYNSYM, SHT_SYMTAB):
        for table in elf.of_kind(kind):
            for _, symbol in elf.symbols_named(table, _SYMBOLS):
                if symbol.section:
                    return part.start + symbol.value - (0 if first is None else first.address)
    return None


def _variables(memory: int, address: int) -> dict[str, str]:
    [array] = _POINTER.unpack(os.pread(memory, _POINTER.size, address))
    found: dict[str, str] = {}
    for number in range(_MOST_VARIABLES if array else 0):
        [text_at] = _POINTER.unpack(os.pread(memory, _POINTER.size, array + number * _POINTER.size))
        if not text_at:
            break
        text = os.pread(memory, _LONGEST, text_at).partition(b'\0')[0]
        name, equals, value = text.partition(b'=')
        if equals and os.fsdecode(name) in NAMES:
            found.setdefault(os.fsdecode(name), os.fsdecode(value))
    return found


def _has_c_library(pid: int, proc: str) -> bool:
    """Return whether a process has what variables are set with; a static program counts as having it."""
    try:
        names = {os.path.basename(part.path) for part in mappings_of(proc, pid) if part.path}
    except OSError:  # it has ended, or is somebody else's
        return True
    is_dynamic = any(name.startswith(_LOADERS) for name in names)
    return not is_dynamic or any(name.startswith(_C_LIBRARIES) for name in names)


def may_have_begun(pid: int, proc: str = '/proc') -> bool:
    """Return whether the process holds a file of a GPU driver open, as CUDA does from its first call on."""
    try:
        for name in os.listdir(f'{proc}/{pid}/fd'):
            try:
                if os.readlink(f'{proc}/{pid}/fd/{name}').startswith(_OF_GPUS):
                    return True
            except FileNotFoundError:  # closed meanwhile
                continue
    except OSError:  # it has ended, or is somebody else's
        return True
    return False
