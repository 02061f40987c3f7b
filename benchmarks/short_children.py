"""Children that live briefly and grow to their end: the programs that have them, and how large they truly get."""

from __future__ import annotations

import functools
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.compiling import compiled
from benchmarks.processes import memory
from benchmarks.running import PROGRAMS
from benchmarks.session import FailedError
from benchmarks.truth import union_of_frames

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.environments import Environment

INTERVALS = (0.1, 1.0, 10.0)
LIVES = (0.03, 0.1, 0.3, 1.0, 3.0)
ONE, EIGHT = 1, 8
HOW = {ONE: 'one after the other', EIGHT: 'eight at once'}

_SOURCE = Path(__file__).resolve().parent / 'short_children.c'
_TRACKED = str(PROGRAMS / 'tracked_children.py')
_KILO = 1024
_RATES = {ONE: 500_000, EIGHT: 100_000}
"""Kilobytes by which each child may grow in a second: as much as two cores do with time to spare."""
_MOST = {ONE: 150_000, EIGHT: 50_000}
"""Kilobytes of each child."""
_HELD_LIFE = 0.3
_LONGEST_HOLD = 30


@dataclass(frozen=True)
class Case:
    """What runs, and how it is sampled.

    :ivar life: Seconds that each child lives; 0: there are no children, only a process that sleeps.
    :ivar count: The number of children that are there at once.
    :ivar interval: Seconds between two samples.
    """

    life: float
    count: int
    interval: float

    @property
    def children(self) -> str:
        """How the tables name the children."""
        return f'{self.life:g} s, {HOW[self.count]}' if self.life else 'none, a process that sleeps'

    @property
    def row(self) -> str:
        """The row of the figures."""
        return f'{self.children}, --st={self.interval:g}'

    @property
    def kilobytes(self) -> int:
        """By how much each child grows."""
        return min(_MOST[self.count], round(_RATES[self.count] * self.life))


CASES = tuple(Case(life, count, interval) for interval in INTERVALS for count in HOW for life in LIVES)


def program_words(case: Case, notes: str, *, delay: float = 0, seconds: float = 0) -> list[str]:
    """Return the command that has children, after a delay, for so many seconds; with 0 seconds only once.

    :param notes: The file into which they write how large they are.
    """
    count = case.count if case.life else 0
    words = [f'{delay:.4f}', f'{case.life:g}', str(case.kilobytes), str(count), f'{seconds:g}', notes]
    return [_program(), 'run', *words]


def library_words(
    environment: Environment, case: Case, notes: str, result: str, *, delay: float = 0, seconds: float = 0
) -> list[str]:
    """Return the same for a Python program that has the library of an environment track it while its children live.

    Without seconds one child is the program's own; otherwise the command of :func:`program_words` is.

    :param result: The file into which the program writes what the library has measured.
    """
    if case.count == ONE and not seconds:
        words = [_program(), 'grow', f'{case.life:g}', str(case.kilobytes), notes]
    else:
        words = program_words(case, notes, seconds=seconds)
    return [environment.python, _TRACKED, f'{case.interval:g}', f'{delay:.4f}', result, *words]


@functools.cache
def _program() -> str:
    return str(compiled('short_children', [_SOURCE]))


@dataclass(frozen=True)
class Shared:
    """What the processes of a run have in common, in bytes: by how much their sizes add up to more than their union."""

    descendants: int
    combined: int


def shared_bytes(environment: Environment, count: int, *, library: bool) -> Shared:
    """Return what the processes have in common, by the page frames of processes that hold still.

    Those are pages of their programs and of the C library, as many however large they grow.

    :param environment: Where the library is, if one is to be used.
    :raises FailedError: where page frames cannot be seen, or where the program fails.
    """
    if os.geteuid() != 0:
        raise FailedError('the truth needs root')
    case = Case(_HELD_LIFE, count, 0)
    words = library_words(environment, case, '-', os.devnull) if library else program_words(case, '-')
    with subprocess.Popen(
        words,
        env=environment.variables(SHORT_CHILDREN_HOLD='1'),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout is not None  # noqa: S101 - for the type checker
        pids = [int(pid) for pid in program.stdout.readline().split()]
        if len(pids) < count + 1:
            raise FailedError('the children were not started')
        combined = pids if library else pids[:-1]  # main is the last one
        shared = Shared(_in_common(combined[:-1]), _in_common(combined))
        program.communicate('\n', _LONGEST_HOLD)
    return shared


def _in_common(pids: Sequence[int]) -> int:
    sizes = [memory(pid) for pid in pids]
    return sum(size.resident for size in sizes if size is not None) - union_of_frames(pids)


def true_sizes(notes: str, count: int, shared: Shared, main: float | None) -> dict[str, float]:
    """Return how large the groups truly were at their largest, and how long the children lived.

    All children are largest in the end, at the same time, so the sum of their own high-water marks counts, less what
    they have in common.

    :param notes: What the processes have written.
    :param main: What is resident in the program around the command; None: the command is that program.
    :raises FailedError: where not all children have written something.
    """
    words = [line.split() for line in notes.splitlines()]
    marks = [int(line[1]) * _KILO for line in words if line[0] == 'child']
    lives = [float(line[2]) for line in words if line[0] == 'child']
    starter = sum(int(line[1]) * _KILO for line in words if line[0] == 'starter')
    if len(marks) != count:
        raise FailedError(f'{len(marks)} of {count} children have grown')
    everything = sum(marks) + starter + (main or 0) - shared.combined
    descendants = (sum(marks) if main is None else sum(marks) + starter) - shared.descendants
    return {
        'true descendants': float(descendants),
        'true combined': float(max(everything, descendants)),  # marks are a few pages inexact
        'life': max(lives),
    }


def sizes_of_library(result: Mapping[str, float | None]) -> tuple[dict[str, float], float]:
    """Return what a library has measured, as far as it knows, and what was resident in its program."""
    return measured_sizes(result['descendants'], result['combined']), float(result['main'] or 0)


def measured_sizes(descendants: float | None, combined: float | None) -> dict[str, float]:
    """Return what a tool has measured by the names that figures have; what it does not know is left out."""
    sizes = {'measured descendants': descendants, 'measured combined': combined}
    return {name: float(size) for name, size in sizes.items() if size is not None}
