"""What is to be looked at: a command to start, or a process that runs already."""

from __future__ import annotations

import os

from gpu_tracker.cli import command_words, options
from gpu_tracker.errors import ParameterError

CHOICES = 'give a command with -e, after --, or a process with --pid'

_PROCESS_ID = 'a positive whole number'


def shortened(before: list[str], after: list[str] | None) -> list[str]:
    """Return the arguments for docopt, whose matching of many thousand takes seconds: of a command, its first word.

    :param before: What stands in front of ``--``.
    :param after: What stands behind it; None: there is none.
    """
    return before if after is None else [*before, '--', *after[:1]]


def check_choice(text: str, before: list[str], after: list[str] | None) -> None:
    """Raise UsageError where not exactly one thing was given, before anything else that docopt finds.

    :param text: The docopt text of the command.
    """
    given, stray = options.given_and_stray(text, before)
    chosen = [name for name in ('-e', '--pid') if name in given] + ([] if after is None else ['--'])
    if len(chosen) > 1:
        raise options.UsageError(f'{" and ".join(chosen)} do not go together: {CHOICES}')
    if stray:
        raise options.UsageError(f'unexpected argument {stray[0]!r}: {CHOICES}')
    if not chosen or after == []:
        raise options.UsageError(CHOICES)


def words(command: str | None, after: list[str] | None) -> list[str]:
    """Return the words of the command to start.

    :param command: What ``-e`` was given; None: the command stands after ``--``.
    :raises UsageError: It is empty.
    """
    if command is None:
        found = after or []
        empty = not found or not found[0]
    else:
        found = command_words.words_to_start(command, os.get_exec_path())
        empty = not command.strip()
    if empty:
        raise options.UsageError(f'the command is empty: {CHOICES}')
    return found


def process_id(given: str) -> int:
    """Return the process ID that ``--pid`` was given; raise ParameterError where it is none."""
    value = options.number('--pid', int, given, _PROCESS_ID)
    if value < 1:
        raise ParameterError('--pid', given, _PROCESS_ID)
    return value
