"""The CPU time that the sampler needs while children that live briefly come and go."""

from __future__ import annotations

import functools
import json
import time
import uuid
from typing import TYPE_CHECKING

from benchmarks.children import OURS_BY_COMMAND, OURS_BY_LIBRARY, Way
from benchmarks.peers import OURS, Run
from benchmarks.processes import age, cpu_seconds, marked
from benchmarks.running import fresh_folder, output_of, started, wait_for_end
from benchmarks.session import FailedError
from benchmarks.short_children import CASES, ONE, Case, library_words, program_words

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.environments import Environment
    from benchmarks.session import Session

PART = 'children-cost'
IDLE = Case(0, ONE, 1.0)
ROWS = (IDLE, *CASES)

_SAMPLER = b'gpu-tracker-sampler'
"""The word in the sampler's command line by which other samplers know it too."""
_SHELL = b'/bin/sh'
_WINDOW, _QUICK_WINDOW = 60, 10
_ROUNDS = 3
_QUICK_ROUNDS = 1
_QUICK_LIVES = (0, 0.1, 1.0)
_START = 1.0
"""Seconds after the sampler's start that are apart."""
_SPARE = 2.0
"""Seconds for which the children go on, at least, after the window."""
_LONGEST_START = 10
_LOOK = 0.01


def measure(session: Session) -> None:
    """Measure ours by its command in each case, and by its library too where the interval is that of the idle tree."""
    environment = session.environments[OURS.name]
    window = _QUICK_WINDOW if session.quick else _WINDOW
    for case in ROWS:
        if session.wants(case.row) and (not session.quick or (case.life in _QUICK_LIVES and case.interval == 1)):
            ways = [OURS_BY_COMMAND, OURS_BY_LIBRARY] if case.interval == IDLE.interval else [OURS_BY_COMMAND]
            measures: dict[str, Callable[[], dict[str, float]]] = {
                way.name: functools.partial(cost_of, way, environment, case, window) for way in ways
            }
            session.take_turns(PART, case.row, session.rounds(_ROUNDS, _QUICK_ROUNDS), measures)


def cost_of(way: Way, environment: Environment, case: Case, window: float) -> dict[str, float]:
    """Return what the sampler uses of a core in a window that begins a second after its start, and what before that.

    ``own share`` is the same by the sampler's own record, until its end.
    """
    mark = uuid.uuid4().hex
    with fresh_folder() as folder:
        result = folder / 'result'
        seconds = _START + window + _SPARE
        planned = Run(program_words(case, '-', seconds=seconds), case.interval, folder)
        command = (
            library_words(environment, case, '-', str(result), seconds=seconds)
            if way.library
            else way.peer.command(environment, planned)
        )
        with started(command, folder, environment.variables(), mark) as process:
            sampler = _sampler(mark)
            time.sleep(max(0, _START - (age(sampler) or 0)))
            before, begun = cpu_seconds(sampler), time.monotonic()
            time.sleep(window)
            after, ended = cpu_seconds(sampler), time.monotonic()
            wait_for_end(process)
            over = time.monotonic()
        if before is None or after is None:
            raise FailedError('its sampler has ended while the program runs')
        if way.library:
            own = json.loads(result.read_text())['sampler']
        else:
            own = way.peer.report(planned, output_of(folder)).sampler_seconds
    costs = {'share': (after - before) / (ended - begun), 'start': before}
    return costs if own is None else costs | {'own share': (own - before) / (over - begun)}


def _sampler(mark: str) -> int:
    """Return the sampler among the processes of a run as soon as it is there."""
    deadline = time.monotonic() + _LONGEST_START
    while time.monotonic() < deadline:
        for pid in marked(mark):
            try:
                with open(f'/proc/{pid}/cmdline', 'rb') as file:
                    words = file.read().split(b'\0')
            except OSError:
                continue  # it has ended
            if _SAMPLER in words and words[0] != _SHELL:
                return pid
        time.sleep(_LOOK)
    raise FailedError('no sampler was started')
