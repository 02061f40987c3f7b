"""A comparison as Markdown, for the summary of a job in CI: the verdict, some figures, conditions and notes."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from gpu_tracker.recording.comparing.comparison_text import (
    WORDS,
    cells,
    conditions,
    figures_of,
    filled,
    notes,
    pairs_of,
)
from gpu_tracker.system.terminal_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpu_tracker.recording.comparing.compared import ComparedFigure, Finding
    from gpu_tracker.recording.comparing.comparison import Comparison
    from gpu_tracker.recording.comparing.comparison_text import Pair

MOST_ROWS = 8
"""Rows of a table, and notes."""
_MARKUP = re.compile(r'[\\`*\[\]<|~#&]|(?<!\w)_|_(?!\w)')


def as_markdown(comparison: Comparison, findings: Sequence[Finding] = ()) -> str:
    """Return the verdict, at most eight figures of each group, what was found of the conditions, and the notes."""
    deciding = figures_of(findings)
    pairs = list(pairs_of(comparison))
    blocks = [[_verdict(pairs, findings)]]
    for pair in pairs:
        chosen = _most_important(pair, deciding)
        blocks += [[_escaped(pair.heading)], _table([pair.titles, *map(cells, chosen)]) if chosen else []]
        changed = [figure for figure in pair.without_repetitions().figures if figure.has_changed]
        more = len(changed) - sum(figure in changed for figure in chosen)
        blocks.append([f'{more:,} more changed: gpu-tracker compare shows them.'] if more else [])
    blocks.append([*_entries(conditions(findings)), *_entries(notes(comparison))])
    return '\n\n'.join('\n'.join(block) for block in blocks if block)


def _verdict(pairs: Iterable[Pair], findings: Sequence[Finding]) -> str:
    failed = [finding.expression for finding in findings if not finding.passed]
    if findings:
        shown = failed or [finding.expression for finding in findings]
        return f'**{"Failed" if failed else "Passed"}: {_escaped(", ".join(shown))}**'
    changes = [figure.has_changed for pair in pairs for figure in pair.figures]
    return f'**Changed: {sum(changes):,} of {len(changes):,} figures**' if any(changes) else '**No clear change**'


def _most_important(pair: Pair, deciding: set[str]) -> list[ComparedFigure]:
    """Return the figures that decide, changed ones and main ones, as many as there is room for; changed ones first."""
    main = {figure.name for figure in pair.main().figures}

    def importance(figure: ComparedFigure) -> tuple[bool, bool, bool, float]:
        change = math.inf if figure.ratio is None else abs(math.log(figure.ratio))
        return figure.name not in deciding, not figure.has_changed, figure.name not in main, -change

    shown = pair.changed_and(deciding | main)
    chosen = sorted(shown.figures, key=importance)[:MOST_ROWS]
    return sorted(chosen, key=lambda figure: not figure.has_changed)


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    columns = filled(rows)
    ruler = ['---' if index in WORDS else '---:' for index in columns]
    titles, *others = ([_escaped(row[index]) for index in columns] for row in rows)
    return [f'| {" | ".join(row)} |' for row in (titles, ruler, *others)]


def _entries(lines: Iterable[str]) -> list[str]:
    found = [f'- {_escaped(line)}' for line in lines]
    more = len(found) - MOST_ROWS
    return [*found[:MOST_ROWS], f'- and {more:,} more'] if more > 0 else found


def _escaped(text: str) -> str:
    """Return a text in which nothing is read as markup."""
    return _MARKUP.sub(r'\\\g<0>', printable(text))
