"""How often each property is violated: a table by sampling interval, and a comparison with documented rates."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from support.random_programs.outcomes import Outcome

ANY = 'any property'
"""The row of the programs with at least one violation."""
CHANCE = 0.001
"""How probable it may be at most that a property with its documented rate is reported."""


def most_violations(programs: int, rate: float) -> int:
    """Return the most violations that chance explains at a rate: more have a probability below ``CHANCE``."""
    remaining = 1.0
    for violations in range(programs):
        remaining -= math.comb(programs, violations) * rate**violations * (1 - rate) ** (programs - violations)
        if remaining < CHANCE:
            return violations
    return programs


def counts(outcomes: Sequence[Outcome]) -> dict[str, tuple[int, int]]:
    """Return the violations of each property, and the programs of which it was checked."""
    checked = Counter(name for outcome in outcomes for name in outcome.properties)
    violated = Counter(name for outcome in outcomes for name in outcome.violations)
    found = {name: (violated[name], programs) for name, programs in sorted(checked.items())}
    return {**found, ANY: (sum(bool(outcome.violations) for outcome in outcomes), len(outcomes))}


def table(outcomes: Sequence[Outcome]) -> str:
    """Return violations / programs and their rate: a row for each property, a column for each interval."""
    intervals = sorted({outcome.interval for outcome in outcomes})
    columns = [counts([each for each in outcomes if each.interval == interval]) for interval in intervals]
    columns.append(counts(outcomes))
    names = list(columns[-1])
    cells = [
        ['property', *names],
        *(
            [title, *(_cell(*column.get(name, (0, 0))) for name in names)]
            for title, column in zip([*(f'{interval:g} s' for interval in intervals), 'all'], columns, strict=True)
        ),
    ]
    widths = [max(map(len, column)) for column in cells]
    lines = [
        '  '.join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in zip(*cells, strict=True)
    ]
    return '\n'.join(lines)


def above(outcomes: Sequence[Outcome], documented: Mapping[str, float], otherwise: float) -> list[str]:
    """Return the properties that are violated more often than documented.

    :param otherwise: The rate of the properties without a documented one.
    """
    return [
        f'{name}: {violations} / {programs} = {violations / programs:.2%}, documented {rate:.2%}: '
        f'up to {most_violations(programs, rate)} by chance'
        for name, (violations, programs) in counts(outcomes).items()
        if violations > most_violations(programs, rate := documented.get(name, otherwise))
    ]


def _cell(violations: int, programs: int) -> str:
    return f'{violations} / {programs} = {violations / programs:.2%}' if programs else '-'
