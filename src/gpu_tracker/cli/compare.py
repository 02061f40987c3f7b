"""``gpu-tracker compare``: what runs of one version of a program used, and what runs of another one did."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gpu_tracker.cli import options, output
from gpu_tracker.errors import ParameterError
from gpu_tracker.recording.comparing.comparison import compare
from gpu_tracker.recording.comparing.comparison_text import as_summary, as_text
from gpu_tracker.recording.comparing.conditions import parse
from gpu_tracker.system.terminal_text import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_tracker.recording.comparing.compared import Finding
    from gpu_tracker.recording.comparing.comparison import Comparison

TEXT = """
Compares recordings of two or more groups of runs; each group with the first one.

Usage:
  gpu-tracker compare [options] [--fail-if=<condition>]... [<group>...]

A group is NAME=FILE[,FILE...]; NAME=FILE can be given again for more files of a group,
as a file has to be that has a comma in its name.

  gpu-tracker compare old=a.db,b.db,c.db new=d.db,e.db,f.db

Options:
  -f --format=<format>  text, json, or summary: the main figures. [default: text]
  --json                The same as --format=json.
  --fail-if=<condition>
                        Exit with 1 where the condition applies or cannot be known, and
                        print a line that says why. It can be given several times.
  --salvage             Read files that were cut off or damaged as far as they go.
  -o --output=<file>    Write to this file; - is standard output, the default.
  -h --help             Print this text.
  -v --version          Print the version.

A condition is a figure, > or <, and a limit:
  max_ram.combined > +5 %       it grew by more than 5 % since the first group; with
                                two or more runs in both, only if that is no chance
  compute_time > 90 s           it is above that in a run of any group but the first
  regions."my step".ram > 2 GB  the figure of a region
All figures are in what --format=json prints. With one run in a group there is no
interval: any change beyond the limit counts. A lower bound (marked in the text)
counts as it was read.
"""

_CONDITION_APPLIES = 1


def run(values: options.Values) -> int:
    """Compare what ``values`` name, and return the exit code."""
    shown_as = options.chosen_format(values, options.FORMATS)
    conditions = [_condition(str(given)) for given in _list(values['--fail-if'])]
    groups = groups_of(_list(values['<group>']))
    path = options.output_path(values)
    if path is not None and _is_one_of(path, groups):
        raise ParameterError('--output', path, 'a file that is none of the recordings')
    destination = output.Destination(path)
    destination.check(path)
    written = False
    try:
        comparison = compare(groups, salvage=bool(values['--salvage']))
        findings = [comparison.check(condition) for condition in conditions]
        written = destination.write(_report(comparison, findings, shown_as))
    finally:
        if not written:
            destination.forget()
    failed = [finding for finding in findings if not finding.passed]
    for finding in failed:
        output.complain(printable(f'{finding.expression}: {finding.text}'))
    if not written:
        return output.FAILURE
    return _CONDITION_APPLIES if failed else 0


def _list(value: object) -> list[str]:
    return list(value) if isinstance(value, list) else []


def _condition(given: str) -> str:
    """Return a condition that can be read; reading no recording before is what makes a mistake cheap."""
    try:
        parse(given)
    except ParameterError as error:
        raise options.of_option(error, '--fail-if', given) from error
    return given


def groups_of(words: Sequence[str]) -> dict[str, list[str]]:
    """Return the files of each group, in the order of the words ``NAME=FILE[,FILE...]``."""
    groups: dict[str, list[str]] = {}
    for word in words:
        name, equals, files = word.partition('=')
        if not name or not equals or not files:
            example = '' if equals else f', such as old={word}'
            raise options.UsageError(f'{word!r} is no group: NAME=FILE[,FILE...] was expected{example}')
        parts = files.split(',')
        # A comma may be a part of a file's name; a group of files that are all there is what is written mostly.
        whole = len(parts) > 1 and os.path.lexists(files) and not all(map(os.path.lexists, parts))
        found = [files] if whole else parts
        if '' in found:
            raise options.UsageError(f'{word!r} has a comma without a file before or after it')
        groups.setdefault(name, []).extend(found)
    if len(groups) < 2:  # noqa: PLR2004 - to compare
        raise options.UsageError('two groups were expected: gpu-tracker compare old=a.db,b.db new=c.db,d.db')
    return groups


def _is_one_of(path: str, groups: Mapping[str, Sequence[str]]) -> bool:
    try:
        return any(os.path.samefile(path, file) for files in groups.values() for file in files if os.path.exists(file))
    except OSError:
        return False  # the path is new


def _report(comparison: Comparison, findings: Sequence[Finding], shown_as: str) -> str:
    if shown_as != 'json':
        return as_summary(comparison, findings) if shown_as == 'summary' else as_text(comparison, findings)
    import json  # noqa: PLC0415 - the text does without
    from dataclasses import asdict  # noqa: PLC0415 - as above

    return json.dumps({**comparison.to_dict(), 'conditions': [asdict(finding) for finding in findings]}, indent=1)
