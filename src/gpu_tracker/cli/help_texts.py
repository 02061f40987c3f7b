"""The help texts of all commands as data for completions and manual pages."""

from __future__ import annotations

import re
from importlib import import_module
from typing import NamedTuple

from gpu_tracker.cli import COMMANDS, DEFAULT_COMMAND

_MEANING = re.compile(r'^  (?P<form>\S.*?)(?:  +(?P<text>\S.*))?$')
"""A line of a list: a name and, after two blanks, its explanation."""
OPTION_LISTS = {'Options', 'More options'}
NEW_LINE = '\n'


class HelpOption(NamedTuple):
    """An option as its help has it.

    :ivar names: All its names, the usual long one last.
    :ivar value: Placeholder of its value, without brackets; empty: it takes none.
    :ivar text: Its explanation.
    """

    names: tuple[str, ...]
    value: str
    text: str


class HelpText(NamedTuple):
    """The help of one command.

    :ivar name: The command; empty: the one without a name, which tracks.
    :ivar summary: What it does, the first sentence.
    :ivar blocks: The parts of the text in their order: a heading, which may be empty, and its lines.
    :ivar options: Its options.
    """

    name: str
    summary: str
    blocks: list[tuple[str, list[str]]]
    options: list[HelpOption]


def help_of(name: str) -> HelpText:
    """Return the help of the command ``name``, empty for the one without a name."""
    text: str = import_module(f'gpu_tracker.cli.{COMMANDS[name] if name else DEFAULT_COMMAND}').TEXT
    blocks = blocks_of(text)
    return HelpText(name, _first_sentence(' '.join(blocks[0][1])), blocks, options_of(blocks))


def blocks_of(text: str) -> list[tuple[str, list[str]]]:
    """Return the parts of a help text: each with its heading, empty if it has none, and its lines."""
    return [_block(part) for part in text.strip('\n').split('\n\n')]


def meanings_of(lines: list[str]) -> list[tuple[str, str]]:
    """Return the entries of a list in a help text: what is explained, and its explanation.

    An explanation is one line, but for what is indented below it: these lines stay lines.
    """
    entries: list[tuple[str, str]] = []
    column: int | None = None
    for line in lines:
        found = _MEANING.match(line)
        if found is not None and not line.startswith('   '):
            entries.append((found['form'], found['text'] or ''))
            column = found.start('text') if found['text'] else None
        elif entries:
            form, text = entries[-1]
            indent = len(line) - len(line.lstrip())
            column = indent if column is None else min(column, indent)
            entries[-1] = (form, f'{text}{" " if indent == column else NEW_LINE}{line.strip()}'.strip())
    return entries


def _block(part: str) -> tuple[str, list[str]]:
    lines = part.split('\n')
    if len(lines) > 1 and lines[0].endswith(':') and not lines[0].startswith(' ') and lines[1].startswith('  '):
        return lines[0].removesuffix(':'), lines[1:]
    return '', lines


def options_of(blocks: list[tuple[str, list[str]]]) -> list[HelpOption]:
    """Return the options that the lines below ``Options:`` and ``More options:`` explain."""
    found = []
    for form, text in meanings_of([line for heading, lines in blocks if heading in OPTION_LISTS for line in lines]):
        words = form.replace(',', ' ').replace('=', ' ').split()
        names = tuple(word for word in words if word.startswith('-'))
        value = next((word.strip('<>') for word in words if not word.startswith('-')), '')
        found.append(HelpOption(names, value, text))
    return found


def _first_sentence(text: str) -> str:
    return re.split(r'(?<=[.:;])\s', text, maxsplit=1)[0].rstrip('.:;')
