"""The variables of a program that decide which GPUs CUDA shows it, and what it has changed of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.gpus.visible import ORDER_VARIABLE, VARIABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

NAMES = (VARIABLE, ORDER_VARIABLE)


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
        """Take note of a change; they may come in any order."""
        if change.name in NAMES:
            self._changes.append(change)

    def at(self, time: int) -> dict[str, str] | None:
        """Return the variables that were set at a time; None where one of them is not known.

        :param time: Nanoseconds of the monotonic clock.
        """
        changed = {change.name: change.value for change in sorted(self._changes, key=_when) if change.time <= time}
        if self._initial is None and len(changed) < len(NAMES):
            return None
        values = {name: changed.get(name, (self._initial or {}).get(name)) for name in NAMES if name not in changed}
        values |= changed
        return {name: value for name, value in values.items() if value is not None}


def read(pid: int, proc: str = '/proc') -> dict[str, str] | None:
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


def _when(change: EnvironmentChange) -> int:
    return change.time
