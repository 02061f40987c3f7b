"""Conditions on which a comparison fails, such as ``max_ram.combined > +5 %``: read, and checked.

A condition is a figure's name, ``>`` or ``<``, and a limit. A limit with a sign and in percent is one of the change
from the first group to another; any other is one that every run of the other groups has to keep.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.errors import ParameterError
from gpu_tracker.figures import AT_LEAST
from gpu_tracker.recording.comparing import quantities, run_values
from gpu_tracker.recording.comparing.compared import Finding
from gpu_tracker.units import text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpu_tracker.recording.comparing.compared import ComparedFigure, GroupValues
    from gpu_tracker.recording.comparing.run_values import Name

_ACCEPTED = (
    "a figure's name, > or <, and a limit, such as 'max_ram.combined > +5 %', 'compute_time < -5 %' or "
    "'regions.load.ram > 2 GB'"
)
_CHANGE = re.compile(r'([+-])\s*([0-9]{1,10}(?:\.[0-9]{0,10})?)\s*%', re.ASCII)
_QUOTED = re.compile(r""" "((?:[^"\\]|\\.)*)" | '((?:[^'\\]|\\.)*)' """, re.VERBOSE | re.DOTALL)
_ESCAPED = re.compile(r'\\(.)', re.DOTALL)
_LONGEST = 1000
_MOST_GUESSED = 10_000
"""Most names to search for a similar name. More names would take minutes."""


class Condition(NamedTuple):
    """A condition that was read.

    :ivar expression: As it was given.
    :ivar name: The parts of the figure's whole name.
    :ivar is_upper: The sign is ``>``.
    :ivar limit: The limit as it was given.
    :ivar ratio: The limit as a ratio, where it is one of a change.
    """

    expression: str
    name: Name
    is_upper: bool
    limit: str
    ratio: float | None


def parse(expression: str) -> Condition:
    """Return what a condition says.

    :raises ParameterError: where it is none, or where no run can have its figure; the nearest names are in the text.
    """
    sign, words, limit = _split(expression)
    name = run_values.canonical(words)
    if not run_values.is_possible(name):
        raise ParameterError(
            'expression', expression, f'a condition with the name of a figure of the report{_nearest_names(words)}'
        )
    change = _CHANGE.fullmatch(limit)
    ratio = None if change is None else 1 + float(change[1] + change[2]) / 100
    if ratio is not None and ratio < 0:
        raise ParameterError('expression', expression, 'a condition with a change of -100 % or more')
    unit = run_values.unit_of(name)
    if change is None and quantities.limit_of(limit, unit) is None:
        accepted = f'a condition whose limit is {quantities.ACCEPTED[unit]}, or a change with its sign, such as +5 %'
        raise ParameterError('expression', expression, accepted)
    return Condition(expression, name, sign == '>', limit, ratio)


def _split(expression: str) -> tuple[str, Name, str]:
    """Return the sign, the parts of the name, of which each may stand in quotes, and the limit."""
    words: list[tuple[str, bool]] = []
    position = 0
    while len(expression) <= _LONGEST:
        quoted = _QUOTED.match(expression, position + _blanks(expression, position))
        if quoted is not None:
            words.append((_ESCAPED.sub(r'\1', quoted[1] if quoted[1] is not None else quoted[2]), True))
            position = quoted.end() + _blanks(expression, quoted.end())
        else:
            end = next((at for at in range(position, len(expression)) if expression[at] in '.<>'), len(expression))
            words.append((expression[position:end].strip(), False))
            position = end
        if position == len(expression) or expression[position] != '.':
            break
        position += 1
    sign, limit = expression[position : position + 1], expression[position + 1 :].strip()
    if sign and limit.startswith(('=', '<', '>')):
        raise ParameterError('expression', expression[:_LONGEST], 'a condition with the operator > or <')
    has_open_quote = any(word.startswith(('"', "'")) for word, was_quoted in words if not was_quoted)
    if sign not in {'<', '>'} or has_open_quote or any(not word for word, _ in words) or not limit:
        raise ParameterError('expression', expression[:_LONGEST], _ACCEPTED)
    return sign, tuple(word for word, _ in words), limit


def _blanks(text: str, position: int) -> int:
    return len(text) - position - len(text[position:].lstrip())


def _nearest_names(words: Name) -> str:
    """Return `` such as …`` with the names that look most like the one that was given."""
    if words[0] == run_values.REGIONS and len(words) > 1:
        figures = [*run_values.REGION_FIGURES, *(f'io.{name}' for name in run_values.IO_FIGURES)]
        region = words[1:-1] or words[1:]
        near = difflib.get_close_matches(words[-1], figures, 3, 0.4) or figures[:3]
        return _such_as([run_values.written((run_values.REGIONS, '.'.join(region), name)) for name in near])
    known = [*map(run_values.written, run_values.result_units()), *run_values.short_names()]
    return _such_as(difflib.get_close_matches('.'.join(words), known, 3, 0.4))


def _such_as(names: Sequence[str]) -> str:
    return f', such as {", ".join(names)}' if names else ', such as max_ram.combined or compute_time'


def check(expression: str, figures: Iterable[ComparedFigure], incomplete: Sequence[str]) -> Finding:
    """Return whether the condition ``expression`` applies to one of ``figures``.

    :param incomplete: The recordings that do not have all of their run.
    :raises ParameterError: where the expression cannot be understood.
    """
    condition = parse(expression)
    known = list(figures)
    name = run_values.written(condition.name)
    compared = [figure for figure in known if figure.name == name]
    if not compared and run_values.place_in(condition.name) is not None:
        found = (run_values.place_in(tuple(figure.name.split('.'))) for figure in known)
        places = [place for place in dict.fromkeys(found) if place is not None]
        used = f'GPU {", ".join(places)}' if places else 'no GPU'
        return Finding(expression, passed=False, text=f'{name} is not known: the runs used {used}')
    if not compared:
        names = {figure.name for figure in known}
        near = difflib.get_close_matches(name, names, 1) if len(names) <= _MOST_GUESSED else []
        hint = f'; there is {near[0]}' if near else ''
        return Finding(expression, passed=False, text=f'{name} is not known of any run{hint}')
    findings = [_check(condition, figure) for figure in compared]
    failed = [text for passed, text in findings if not passed]
    if failed:
        return Finding(expression, passed=False, text='; '.join(failed))
    if incomplete:
        more = f' and {len(incomplete) - 1} more' if len(incomplete) > 1 else ''
        text = f'{name} is not known for certain: the recording {incomplete[0]}{more} does not have all of its run'
        return Finding(expression, passed=False, text=text)
    return Finding(expression, passed=True, text='; '.join(text for _, text in findings))


def _check(condition: Condition, figure: ComparedFigure) -> tuple[bool, str]:
    return _check_each_run(condition, figure) if condition.ratio is None else _check_change(condition, figure)


def _check_each_run(condition: Condition, figure: ComparedFigure) -> tuple[bool, str]:
    """Check a limit that every run has to keep."""
    group, values = figure.other.group, figure.other.values
    known = [value for value in values if value is not None]
    limit = quantities.limit_of(condition.limit, figure.unit)
    if limit is None:  # of another unit than such a figure has: from a file that was made by hand
        return False, f'{figure.name} is measured in {figure.unit}, so {condition.limit} is no limit of it'
    if known:
        worst = max(known) if condition.is_upper else min(known)
        mark = AT_LEAST if figure.other.is_lower_bound else ''
        text = f'{figure.name} is {mark}{text_of(worst, figure.unit)} in {_one_of(group, len(values))}'
        if worst > limit if condition.is_upper else worst < limit:
            return False, f'{text}, {"more" if condition.is_upper else "less"} than {condition.limit}'
        if len(known) == len(values):
            word = 'not more' if condition.is_upper else 'not less'
            return True, f'{text}, {word} than {condition.limit}'
    return False, f'{figure.name} is unknown in {len(values) - len(known)} of {len(values)} runs of {group}'


def _one_of(group: str, runs: int) -> str:
    return group if runs == 1 else f'a run of {group}'


def _check_change(condition: Condition, figure: ComparedFigure) -> tuple[bool, str]:
    """Check a limit of the change."""
    if figure.ratio is None or condition.ratio is None:
        return False, f'the change of {figure.name} is not known: it is {figure.problem}'
    goes_beyond = figure.ratio > condition.ratio if condition.is_upper else figure.ratio < condition.ratio
    change = 'has not changed'
    if figure.ratio != 1:
        change = f'{"grew" if figure.ratio > 1 else "shrank"} by {quantities.change_text(figure.ratio)[1:]}'
    text = f'{figure.name} {change} (limit {condition.limit}): {_values_text(figure, figure.first, figure.other)}'
    if goes_beyond and _may_be_chance(condition, figure):
        return True, f'{text}; the runs differ so much that this may be chance: record more runs'
    if not goes_beyond and _may_go_beyond(condition, figure):
        return True, f'{text}; the runs differ so much that more than the limit is possible: record more runs'
    return not goes_beyond, text


def _may_go_beyond(condition: Condition, figure: ComparedFigure) -> bool:
    if figure.low is None or figure.high is None or condition.ratio is None:
        return False
    return figure.high > condition.ratio if condition.is_upper else figure.low < condition.ratio


def _may_be_chance(condition: Condition, figure: ComparedFigure) -> bool:
    """Return whether there may be no change at all; a limit that asks for a change is not kept by none."""
    if figure.low is None or figure.high is None or condition.ratio is None:
        return False
    if condition.is_upper:
        return condition.ratio >= 1 and figure.low <= 1
    return condition.ratio <= 1 and figure.high >= 1


def _values_text(figure: ComparedFigure, *groups: GroupValues) -> str:
    """Return the means of the groups, and the interval of the change."""
    means = [
        f'{AT_LEAST if group.is_lower_bound else ""}{text_of(group.mean, figure.unit)} in {group.group}'
        for group in groups
        if group.mean is not None
    ]
    text = f'from {" to ".join(means)}'
    if figure.low is None or figure.high is None:
        return text
    return f'{text}, 95 % interval {quantities.change_text(figure.low)} to {quantities.change_text(figure.high)}'
