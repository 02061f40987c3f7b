"""Completions of the command line for shells: a module a shell makes its script from what can stand on the line."""

from __future__ import annotations

from typing import NamedTuple

FILES, FOLDERS, PROCESSES, PROGRAM = 'files', 'folders', 'processes', 'program'


class Choice(NamedTuple):
    """An option, or a word in a place of its own.

    :ivar names: All names of the option.
    :ivar takes_value: Whether a value follows.
    :ivar values: What the value can be: words, or one of :data:`FILES`, :data:`FOLDERS` and :data:`PROCESSES`; empty:
        it cannot be completed.
    :ivar several: Whether several of the words can stand there, with commas between them.
    :ivar text: What it is for, in some words.
    """

    names: tuple[str, ...]
    takes_value: bool
    values: tuple[str, ...] | str
    several: bool
    text: str


class Line(NamedTuple):
    """What can stand on the line of one command.

    :ivar name: The command; empty: the one without a name.
    :ivar text: What it is for.
    :ivar options: Its options.
    :ivar words: What can stand behind it: words, :data:`FILES`, or :data:`PROGRAM` with its arguments; empty: nothing.
    """

    name: str
    text: str
    options: list[Choice]
    words: tuple[str, ...] | str
