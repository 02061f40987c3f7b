"""One thing that is wrong with a configuration file, or odd."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_CHARACTERS = 60


class Problem(NamedTuple):
    """What is wrong, and where."""

    line: int | None
    """Counted from 1; None: the file as a whole."""
    section: str | None
    """The section's name without brackets."""
    text: str

    def describe(self, path: str) -> str:
        """Return it for people: ``gpu_mon.conf:12: [process-0] cmd: is missing``."""
        place = path if self.line is None else f'{path}:{self.line}'
        section = '' if self.section is None else f'[{self.section}] '
        return printable(f'{place}: {section}{self.text}')


def sorted_by_line(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return problems in the order of their lines, those of the whole file first."""
    return tuple(sorted(problems, key=lambda problem: problem.line or 0))


def quoted(text: str) -> str:
    """Return a piece of the file as it stands in a message: in quotes, and not longer than a line."""
    return repr(text if len(text) <= _MOST_CHARACTERS else f'{text[:_MOST_CHARACTERS]}...')
