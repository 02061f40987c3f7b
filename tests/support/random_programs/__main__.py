"""Runs random programs and prints which figures are wrong: ``python -m support.random_programs --help``."""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from typing import TYPE_CHECKING

from support.random_programs.expect import bounds, compared
from support.random_programs.generate import generate
from support.random_programs.outcomes import outcomes
from support.random_programs.run import INTERVAL, run
from support.random_programs.script import PROCESS
from support.random_programs.stage import build

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.random_programs.outcomes import Outcome

_NEAR = 0.98
_BUSY_LOOP = 'import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    for _ in range(1_000_000): pass'
"""Ends soon after the process that started it."""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog='python -m support.random_programs', description=__doc__.partition(':')[0])
    parser.add_argument(
        'seeds', metavar='SEED', type=int, nargs='*', help='print all about the programs of these seeds'
    )
    parser.add_argument('--interval', type=float, default=INTERVAL, help='seconds between two samples [%(default)s]')
    parser.add_argument(
        '--repeat', metavar='N', type=int, help='run each program N times and print its violations only'
    )
    parser.add_argument('--beside', metavar='N', type=int, default=0, help='busy loops beside half of the repetitions')
    parser.add_argument('--fresh', metavar='N', type=int, default=0, help='add N programs from a random seed on')
    parser.add_argument(
        '--at-a-time', metavar='N', type=int, help='programs that run at the same time [one for each core]'
    )
    parser.add_argument(
        '--pause', metavar='SECONDS', type=float,
        help='a hold lasts for a random part of these, not for four samples',
    )  # fmt: skip
    parser.add_argument('--as-user', action='store_true', help='track commands as an ordinary user without rights')
    return parser.parse_args()


def _print_all(seed: int, actor: str, interval: float) -> None:
    """Print a program and each figure beside its bounds."""
    program = generate(seed)
    print(program)
    found = run(program, actor, interval)
    for hold, union in enumerate(found.unions):
        print(f'union of frames at hold {hold}:', {group: f'{size:,}' for group, size in union.items()})
    for bound in bounds(found):
        print('    ' if bound.holds else 'NOT ', bound, sep='')


def _print_violations(arguments: argparse.Namespace, seeds: list[int], actor: str) -> None:
    """Print each violation when it is seen, and at the end how many of the runs of each seed have some."""
    wrong: Counter[int] = Counter()
    marks = _Marks()
    options = {'pause': arguments.pause, 'as_user': arguments.as_user}
    if arguments.as_user:
        seeds = [seed for seed in seeds if generate(seed).way != PROCESS]
    repeat = arguments.repeat or 1
    beside = repeat // 2 if arguments.beside else 0
    for number in range(repeat):
        loops = arguments.beside if number >= repeat - beside else 0
        with _busy_loops(loops):
            for found in outcomes(seeds, actor, arguments.interval, arguments.at_a_time, **options):
                marks.add(found)
                if found.violations:
                    wrong[found.seed] += 1
                    print(f'run {number + 1}, beside {loops} busy loops', found, sep='\n', flush=True)
        print(f'{number + 1} of {repeat} repetitions, {wrong.total()} runs with violations', flush=True)
    print(marks)
    for seed in seeds if arguments.repeat else ():
        print(f'seed {seed}: {wrong[seed]} of {repeat} runs with violations')


class _Marks:
    """How many figures are marked as lower bounds, and how many of these are below 0.98 of the truth."""

    def __init__(self) -> None:
        self._runs = 0
        self._marked: Counter[str] = Counter()
        self._low: Counter[str] = Counter()

    def add(self, found: Outcome) -> None:
        """Count those of one run."""
        if found.run is None:
            return
        self._runs += 1
        for name, value, low, path in compared(found.run):
            if path in found.run.marked:
                self._marked[name] += 1
                self._low[name] += value < _NEAR * low

    def __str__(self) -> str:
        """Return a line for each kind of figure."""
        lines = [
            f'{name}: {count / self._runs:.0%} marked, {self._low[name] / self._runs:.0%} too low'
            for name, count in sorted(self._marked.items())
        ]
        return '\n'.join([f'{self._runs} programs were measured', *lines])


@contextlib.contextmanager
def _busy_loops(count: int) -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, '-c', _BUSY_LOOP]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def main() -> None:
    """Run the command."""
    arguments = _arguments()
    with tempfile.TemporaryDirectory() as folder:
        actor = build(folder)
        os.chmod(folder, 0o755)  # noqa: S103 - another user performs the programs
        if arguments.repeat is None and not arguments.fresh:
            for seed in arguments.seeds:
                _print_all(seed, actor, arguments.interval)
            return
        first = random.randrange(1 << 32)  # noqa: S311 - a seed
        _print_violations(arguments, [*arguments.seeds, *range(first, first + arguments.fresh)], actor)


if __name__ == '__main__':
    main()
