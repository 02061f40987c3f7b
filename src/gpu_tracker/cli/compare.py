"""``gpu-tracker compare``: the use of runs of two or more versions of a program."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gpu_tracker.cli import options, output
from gpu_tracker.cli.recordings import file_of, last_two
from gpu_tracker.errors import ParameterError
from gpu_tracker.recording.comparing.comparison import compare
from gpu_tracker.recording.comparing.comparison_markdown import as_markdown
from gpu_tracker.recording.comparing.comparison_text import as_summary, as_text
from gpu_tracker.recording.comparing.conditions import parse
from gpu_tracker.system.terminal_text import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_tracker.recording.comparing.compared import Finding
    from gpu_tracker.recording.comparing.comparison import Comparison

TEXT = """
Compares two or more groups of recordings, each group with the first one.

Usage:
  gpu-tracker compare [options] [--fail-if=<condition>]... [<group>...]

A group is FILE or NAME=FILE[,FILE...]. To add more files to a group, repeat its NAME.
Write a file with a comma in its name alone. Instead of FILE, you can write the number
or ID of a kept run. Without groups, the last two runs are compared.

  gpu-tracker compare a.db b.db
  gpu-tracker compare old=a.db,b.db,c.db new=d.db,e.db,f.db

Options:
  -f --format=<format>  Print the comparison as text, json, markdown (the verdict
                        and at most eight rows) or summary (only the main figures).
                        [default: text]
  --json                The same as --format=json.
  --all                 Also show figures that have not changed.
  --fail-if=<condition>  Exit with code 1 and print the reason if this condition is
                        true or cannot be checked. You can repeat this option.
  --salvage             Read damaged or truncated files as far as possible.
  -o --output=<file>    Write to this file instead of standard output.
  -h --help             Print this text.
  -v --version          Print the version.

A condition is a figure, > or <, and a limit:
  max_ram.combined > +5 %       the peak RAM is over 5 % above the first group's
  compute_time > 90 s           a run outside the first group took more than 90 s
  regions."my step".ram > 2 GB  a figure of a region
--format=json lists all figures. If both groups have two or more runs, a change counts
only if it is statistically significant (95 %); otherwise any change past the limit
counts. A lower bound, marked in the text, counts like an exact figure.
"""

_FORMATS = ('text', 'json', 'summary', 'markdown')
_CONDITION_APPLIES = 1


def run(values: options.Values) -> int:
    """Compare the groups in ``values``, and return the exit code."""
    shown_as = options.chosen_format(values, _FORMATS)
    conditions = [_condition(str(given)) for given in _list(values['--fail-if'])]
    words = _list(values['<group>']) or last_two()
    groups = {name: list(map(file_of, files)) for name, files in groups_of(words).items()}
    if len(groups) < 2:  # noqa: PLR2004 - to compare
        raise options.UsageError(
            'compare needs two groups of recordings with different names, as in: gpu-tracker compare a.db b.db'
        )
    path = options.output_path(values)
    if path is not None and _is_one_of(path, groups):
        raise ParameterError('--output', path, 'a file other than the compared recordings')
    destination = output.Destination(path)
    destination.check(path)
    written = False
    try:
        comparison = compare(groups, salvage=bool(values['--salvage']))
        findings = [comparison.check(condition) for condition in conditions]
        written = destination.write(_report(comparison, findings, shown_as, shows_all=bool(values['--all'])))
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
    """Return the parsed condition. This happens before recordings are read, so mistakes are found at once."""
    try:
        parse(given)
    except ParameterError as error:
        raise options.of_option(error, '--fail-if', given) from error
    return given


def groups_of(words: Sequence[str]) -> dict[str, list[str]]:
    """Return the files of each group, in the order of the words: ``NAME=FILE[,FILE...]``, or a file as a group."""
    are_files = ['=' not in word or os.path.lexists(word) for word in words]
    names = [_stem(word) if is_file else word.partition('=')[0] for word, is_file in zip(words, are_files, strict=True)]
    groups: dict[str, list[str]] = {}
    for word, is_file, name in zip(words, are_files, names, strict=True):
        if is_file:
            groups.setdefault(name if names.count(name) == 1 else word, []).append(word)
        else:
            groups.setdefault(name, []).extend(_files_of(word))
    return groups


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


def _files_of(word: str) -> list[str]:
    """Return the files of ``NAME=FILE[,FILE...]``."""
    name, _, files = word.partition('=')
    if not name or not files:
        raise options.UsageError(f'{word!r} is not a group of recordings: write FILE or NAME=FILE[,FILE...]')
    parts = files.split(',')
    # A comma may be a part of a file's name; a group of files that are all there is what is written mostly.
    whole = len(parts) > 1 and os.path.lexists(files) and not all(map(os.path.lexists, parts))
    found = [files] if whole else parts
    if '' in found:
        raise options.UsageError(f'{word!r} has no file name before or after a comma')
    return found


def _is_one_of(path: str, groups: Mapping[str, Sequence[str]]) -> bool:
    try:
        return any(os.path.samefile(path, file) for files in groups.values() for file in files if os.path.exists(file))
    except OSError:
        return False  # the path is new


def _report(comparison: Comparison, findings: Sequence[Finding], shown_as: str, *, shows_all: bool) -> str:
    if shown_as == 'summary':
        return as_summary(comparison, findings)
    if shown_as == 'markdown':
        return as_markdown(comparison, findings)
    if shown_as == 'text':
        return as_text(comparison, findings, shows_all=shows_all)
    import json  # noqa: PLC0415 - the text does without
    from dataclasses import asdict  # noqa: PLC0415 - as above

    return json.dumps({**comparison.to_dict(), 'conditions': [asdict(finding) for finding in findings]}, indent=1)
