"""How soon the opening of a device is noticed, in the ways that there are, and what that costs."""

from __future__ import annotations

import errno
import functools
import os
import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.idle_monitors import make_device
from benchmarks.idle_watchers import FANOTIFY, FANOTIFY_FID, INOTIFY, SCAN, RefusedError, watcher
from benchmarks.peers import OURS
from benchmarks.processes import cpu_seconds
from benchmarks.running import fresh_folder
from benchmarks.session import FailedError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.environments import Environment
    from benchmarks.session import Session

ROW, RIGHTS = 'noticing', 'rights'

_FULL = (1, 7)
_ROUNDS = 5
_NANO = 1e-9
_PAUSE = 0.005
"""Seconds between two openings: the watcher is asleep again."""


@dataclass(frozen=True)
class Way:
    """How one is told.

    :ivar name: As the tables call it.
    :ivar kind: As the watcher calls it.
    :ivar openings: In a round.
    :ivar interval: Seconds between two looks; None: it is told, and does not look.
    :ivar quiet: Seconds before the first opening, in which nothing happens.
    :ivar device: What is opened; None: a plain file.
    """

    name: str
    kind: str
    openings: int = 200
    interval: float | None = None
    quiet: float = 3
    device: tuple[int, int] | None = _FULL


WAYS = (
    Way('inotify', INOTIFY),
    Way('fanotify', FANOTIFY),
    Way('fanotify, with file handles', FANOTIFY_FID),
    Way('all descriptors each second', SCAN, 4, 1, device=None),  # somebody else may have /dev/full open
)
QUICK_OPENINGS = 10


def measure(session: Session, part: str, ways: Sequence[Way]) -> None:
    """Measure all ways in turn."""
    environment = session.environments[OURS.name]
    most = QUICK_OPENINGS if session.quick else max(way.openings for way in ways)
    with fresh_folder() as folder:
        folder.chmod(0o755)  # for nobody
        rights, measures = {}, {}
        for way in ways:
            device = folder / way.kind
            make_device(device, way.device)
            rights[way.name] = functools.partial(_rights, environment, way, device)
            measures[way.name] = functools.partial(_noticed, environment, way, device, most)
        session.take_turns(part, RIGHTS, 1, rights)
        session.take_turns(part, ROW, session.rounds(_ROUNDS), measures)


def _noticed(environment: Environment, way: Way, device: Path, most: int) -> dict[str, float]:
    interval, openings = way.interval or 0, min(way.openings, most)
    with watcher(environment, way.kind, [str(device)], interval=interval) as watching:
        quiet_before = _cpu(watching.pid)
        time.sleep(way.quiet)
        before = _cpu(watching.pid)
        seconds = []
        for number in range(openings):
            time.sleep(_PAUSE + interval + (number + 0.5) / openings * interval)
            begun = time.monotonic_ns()
            handle = os.open(device, os.O_RDONLY)
            try:
                seconds.append((watching.told_at() - begun) * _NANO)
            finally:
                os.close(handle)
        used = (_cpu(watching.pid) - before) / openings
    figures = {'median': median(seconds), 'smallest': min(seconds), 'largest': max(seconds)}
    figures['quiet'] = (before - quiet_before) / way.quiet
    return figures if way.interval else figures | {'cpu': used}


def _rights(environment: Environment, way: Way, device: Path) -> dict[str, float]:
    """Return the number of the error that a user gets who is not root; 0 where there is none."""
    try:
        with watcher(environment, way.kind, [str(device)], as_nobody=os.geteuid() == 0):
            return {'refused': 0.0}
    except RefusedError as error:
        return {'refused': float(error.number)}


def refusal_in_words(number: float) -> str:
    """Return what a table says."""
    return 'yes' if number == 0 else f'no: {errno.errorcode.get(int(number), number)}'


def _cpu(pid: int) -> float:
    used = cpu_seconds(pid)
    if used is None:
        raise FailedError('has ended')
    return used
