"""What the kernel's reports of processes that end add to the figures, and cost: switched on and off in turn."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
from typing import TYPE_CHECKING

from benchmarks.arithmetic import median_of
from benchmarks.environments import CHECKOUT
from benchmarks.peers import OURS
from benchmarks.running import PROGRAMS, fresh_folder
from benchmarks.tables import DASH, Table, number
from benchmarks.timing import timed

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.environments import Environment
    from benchmarks.results import Results
    from benchmarks.session import Session

PART = 'taskstats'
MAKE = 'make -j8, 100 small C files'
CHILDREN = {
    '5,000 children, waited for': 'waited for',
    '5,000 children, ignored': 'ignored',
    '5,000 children, double-forked': 'double-forked',
}
LARGE = 'a child of 64 MiB beside 200 MB'
ON, OFF = 'on', 'off'
ROWS = (MAKE, *CHILDREN, LARGE)

_FILES = 100
_CHILDREN = 5000
_QUICK_CHILDREN = 500
_MILLISECONDS = 1
_LARGE = 64
_KEPT = 200
_ROUNDS = 10
_QUICK_ROUNDS = 2
_LONGEST = 300
_SOURCE = 'int f{0}(int x) {{ int y = 0; for (int i = 0; i < x; i++) y += i ^ {0}; return y; }}\n'
_MICRO = 1e6
_MANY = 1000
"""Ends from which on what they cost can be told from what a run costs more or less than another."""


def measure(session: Session) -> None:
    """Measure each row with the reports and without."""
    environment = session.environments[OURS.name]
    rounds = session.rounds(_ROUNDS, _QUICK_ROUNDS)
    with fresh_folder() as folder:
        children = folder / 'ended_children'
        subprocess.run(['cc', '-O1', '-w', '-o', children, CHECKOUT / 'benchmarks' / 'ended_children.c'], check=True)
        _write_sources(folder / 'make')
        count = str(_QUICK_CHILDREN if session.quick else _CHILDREN)
        commands = {MAKE: (0, [str(shutil.which('make')), '-s', '-B', '-j8', '-C', str(folder / 'make')])}
        commands |= {row: (0, [str(children), how, count, str(_MILLISECONDS), '0']) for row, how in CHILDREN.items()}
        commands[LARGE] = (_KEPT, [str(children), 'waited for', '1', str(_MILLISECONDS), str(_LARGE)])
        for row, (kept, words) in commands.items():
            ways = {way: functools.partial(_run, environment, way, kept, words) for way in (ON, OFF)}
            session.take_turns(PART, row, rounds, ways)


def _write_sources(folder: Path) -> None:
    folder.mkdir()
    for index in range(_FILES):
        (folder / f'f{index}.c').write_text(_SOURCE.format(index))
    objects = ' '.join(f'f{index}.o' for index in range(_FILES))
    (folder / 'Makefile').write_text(f'all: {objects}\n%.o: %.c\n\tcc -O1 -c -o $@ $<\n')


def _run(environment: Environment, way: str, kept: int, words: list[str]) -> dict[str, float]:
    variables = {**environment.variables(), 'GPU_TRACKER_TASKSTATS': way}
    with fresh_folder() as folder:
        program = [environment.python, str(PROGRAMS / 'ended.py'), str(kept), *words]
        done = timed(program, folder, variables, _LONGEST)
    found: dict[str, float] = json.loads(done.output.splitlines()[-1])
    true = max(found['waited for'], found['known'])
    return {
        'cpu': found['measured'] / true,
        'peak': found['peak'],
        'sampler': found['sampler'],
        'seconds': found['seconds'],
        'ends': found['ends'],
    }


def ended_table(results: Results) -> Table:
    """Return the table: CPU time and peak with the reports and without, and what a process costs."""
    rows = []
    for row in ROWS:
        for way in (ON, OFF):
            found = {
                kind: results.rounds(PART, row, way, kind) for kind in ('cpu', 'peak', 'sampler', 'seconds', 'ends')
            }
            cpu, peak, sampler, seconds, ends = (median_of(found[kind]) for kind in found)
            if cpu is None or peak is None or sampler is None or seconds is None or ends is None:
                continue
            others = results.rounds(PART, row, OFF, 'sampler')
            more = [found['sampler'][turn] - others[turn] for turn in found['sampler'] if turn in others]
            each = (
                number(_MICRO * sorted(more)[len(more) // 2] / ends) if way == ON and more and ends >= _MANY else DASH
            )
            share = number(peak / (_LARGE << 20)) if row == LARGE else DASH
            rows.append(
                [
                    row,
                    way,
                    number(cpu),
                    share,
                    number(ends),
                    number(sampler),
                    each,
                    number(seconds),
                    str(len(found['cpu'])),
                ]
            )
    columns = [
        'command', 'reports', 'CPU time, measured / true', 'peak, measured / true', 'ends', 'sampler, CPU seconds',
        'CPU µs an end', 'seconds', 'rounds',
    ]  # fmt: skip
    text = (
        'True is what wait4 reports of the command, or the children of themselves, where that is more. The peak is '
        'that of the child. An end costs what the sampler uses more than in the same round without reports, '
        'and is left out where few have ended.'
    )
    return Table('taskstats: processes that the kernel reports at their end', columns, rows, text)
