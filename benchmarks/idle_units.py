"""How much of an idle GPU a program gets that ends by itself after each unit of its work, and is started again."""

from __future__ import annotations

import contextlib
import functools
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.idle_monitors import configuration, make_devices_of_nobody, monitor, nothing_left, with_mark
from benchmarks.peers import OURS
from benchmarks.running import PROGRAMS, fresh_folder
from benchmarks.session import FailedError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.environments import Environment
    from benchmarks.session import Session

ROW = 'units of work'
UNITS = (2, 10, 60, 120, 299)
"""Seconds that a unit takes."""

_QUICK_UNITS = (2, 10)
_INTERVAL = 1
_ROUNDS = 1
_LEAST_WINDOW = 90
_UNITS_IN_WINDOW = 2.5
_LONGEST_START = 60.0
_PAUSE = 0.1


@dataclass(frozen=True)
class _Watched:
    """A monitor with one program.

    :ivar unit: Seconds of one unit.
    :ivar window: So many seconds from its first begin are measured.
    :ivar log: When each unit has begun and ended, a line each.
    """

    unit: float
    window: float
    log: Path

    def share(self) -> float:
        """Return the part of the window in which a unit ran.

        :raises FailedError: None has begun.
        """
        times = [float(line) for line in self.log.read_text().split()] if self.log.exists() else []
        if not times:
            raise FailedError(f'no unit of {self.unit} s has begun')
        end = times[0] + self.window
        times += [end] * (len(times) % 2)
        return (
            sum(max(min(done, end) - min(begun, end), 0.0) for begun, done in zip(times[::2], times[1::2], strict=True))
            / self.window
        )


def measure(
    session: Session, part: str, units: Sequence[float] | None = None, least_window: float = _LEAST_WINDOW
) -> None:
    """Measure all units at the same time, each with a monitor of its own.

    :param units: Seconds of each; None: those that this session has time for.
    :param least_window: So many seconds are measured at least.
    """
    if units is None:
        units = _QUICK_UNITS if session.quick else UNITS
    ask = functools.partial(_shares, session.environments[OURS.name], units, least_window)
    session.take_turns(part, ROW, session.rounds(_ROUNDS), {OURS.name: ask})


def _shares(environment: Environment, units: Sequence[float], least_window: float) -> dict[str, float]:
    """Return the part of its window in which a program of each unit ran, by the unit's seconds."""
    with contextlib.ExitStack() as stack:
        watched = [_watch(stack, environment, unit, max(least_window, unit * _UNITS_IN_WINDOW)) for unit in units]
        deadline = time.monotonic() + _LONGEST_START
        while not all(one.log.exists() for one in watched) and time.monotonic() < deadline:
            time.sleep(_PAUSE)
        time.sleep(max(one.window for one in watched))
        return {f'{one.unit:g}': one.share() for one in watched}


def _watch(stack: contextlib.ExitStack, environment: Environment, unit: float, window: float) -> _Watched:
    folder, mark = stack.enter_context(fresh_folder()), uuid.uuid4().hex
    stack.enter_context(nothing_left(mark))
    make_devices_of_nobody(folder, 1)
    log = folder / 'units'
    command = with_mark(mark, environment.python, '-I', str(PROGRAMS / 'unit_of_work.py'), str(unit), str(log))
    stack.enter_context(monitor(environment, folder, configuration(_INTERVAL, [command]), uuid.uuid4().hex))
    return _Watched(unit, window, log)
