"""The sections, keys and lines of a configuration file, and problems with them.

Values are those of the standard configparser, so that existing files mean what they always did. It stops at the first
line that it cannot read, though, and knows no line of a value: a scan beforehand finds all such lines at once, and
leaves to configparser only what it can read.
"""

from __future__ import annotations

import configparser
import re
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.system.terminal_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FOR_ALL = 'DEFAULT'
"""The section whose keys configparser gives to all others."""

_LONGEST_QUOTE = 60


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
    return repr(text if len(text) <= _LONGEST_QUOTE else f'{text[:_LONGEST_QUOTE]}...')


_COMMENT = ('#', ';')
_HEADER = configparser.ConfigParser.SECTCRE


class Section(NamedTuple):
    """A section of the file."""

    name: str
    line: int
    values: Mapping[str, str]
    """Key -> value, those of ``[DEFAULT]`` included."""
    lines: Mapping[str, int]
    """Key -> line, of the keys that stand in the section itself."""
    inherited: Mapping[str, int]
    """The same of ``[DEFAULT]``."""

    def line_of(self, key: str) -> int:
        """Return the line of a key; where it is absent, that of the section."""
        return self.lines.get(key, self.inherited.get(key, self.line))


class Document(NamedTuple):
    """A whole file."""

    sections: Mapping[str, Section]
    """Name -> section in the file's order, ``[DEFAULT]`` included where there is one."""
    errors: tuple[Problem, ...]
    """Lines that cannot be read, and what is there twice."""
    warnings: tuple[Problem, ...]


def read_document(text: str) -> Document:
    """Return what a text says, and every line of it that is wrong."""
    scan = _Scan()
    scan.read(text.replace('\r\n', '\n').replace('\r', '\n').split('\n'))
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.read_string('\n'.join(scan.kept))
    inherited = scan.keys.get(FOR_ALL, {})
    sections = {
        name: Section(name, line, dict(parser[name]), scan.keys[name], {} if name == FOR_ALL else inherited)
        for name, line in scan.headers.items()
    }
    return Document(sections, tuple(scan.errors), tuple(scan.warnings))


class _Scan:
    """Follows configparser's rules over the lines of a file, which are those of the format."""

    def __init__(self) -> None:
        self.errors: list[Problem] = []
        self.warnings: list[Problem] = []
        self.kept: list[str] = []
        """The lines, with a comment in the place of each that configparser could not read."""
        self.headers: dict[str, int] = {}
        self.keys: dict[str, dict[str, int]] = {}
        self._section: str | None = None
        self._key: str | None = None
        self._indent = 0
        self._here: dict[str, int] = {}
        """Keys since the last header, which may be a second one of the same name."""

    def read(self, lines: Iterable[str]) -> None:
        for number, line in enumerate(lines, 1):
            words = line.strip()
            is_readable = not words or words.startswith(_COMMENT) or self._line(number, line, words)
            self.kept.append(line if is_readable else '#')

    def _line(self, number: int, line: str, words: str) -> bool:
        """Take in a line, and return whether configparser can."""
        if '\0' in line:
            return self._error(number, 'holds a NUL character, as no text does')
        indent = len(line) - len(line.lstrip())
        if self._key is not None and indent > self._indent:
            return True  # continues the value
        header = _HEADER.match(words)
        if header is not None:
            self._indent = indent
            self._header(number, header['header'], words[header.end() :].strip())
            return True
        if self._section is None:
            return self._error(number, f'{quoted(words)} stands before the first [section]')
        key, value = _key_and_value(words)
        if not key or value is None:
            return self._error(number, f'{quoted(words)} is neither a [section] nor key=value')
        self._indent = indent
        self._one_key(number, key)
        return True

    def _header(self, number: int, name: str, rest: str) -> None:
        self._section, self._key, self._here = name, None, {}
        if name in self.headers:
            self._error(number, f'stands in the file twice, first in line {self.headers[name]}')
        self.headers.setdefault(name, number)
        self.keys.setdefault(name, {})
        if rest and not rest.startswith(_COMMENT):
            text = f'{quoted(rest)} after the bracket is not read: it goes on a line of its own'
            self.warnings.append(Problem(number, name, text))

    def _one_key(self, number: int, key: str) -> None:
        self._key = key
        if key in self._here:
            self._error(number, f'{key}: stands in the section twice, first in line {self._here[key]}')
        self._here.setdefault(key, number)
        self.keys[self._section or ''][key] = number

    def _error(self, number: int, text: str) -> bool:
        self.errors.append(Problem(number, self._section, text))
        return False


def _key_and_value(words: str) -> tuple[str, str | None]:
    """Return the key of a line, and its value; None where it has neither ``=`` nor ``:``, or is half a header."""
    if words.startswith('['):
        return words, None
    ends = [place for place in (words.find('='), words.find(':')) if place >= 0]
    if not ends:
        return words, None
    return words[: min(ends)].rstrip().lower(), words[min(ends) + 1 :]


_REFERENCE = re.compile(r'%%|%\(([^)]+)\)s')
_DEEPEST = 10
"""References that lead to each other, as MAX_INTERPOLATION_DEPTH of configparser."""
_MOST_CHARACTERS = 20_000
"""Few lines that refer to each other make any length."""


def referred_to(text: str) -> tuple[str, ...]:
    """Return the keys that a value refers to, each once."""
    return tuple(dict.fromkeys(mark[1].lower() for mark in _REFERENCE.finditer(text) if mark[1] is not None))


class ValueUnusableError(ValueError):
    """A value cannot be used; the text says why and does not name the key."""


class Interpolation:
    """The values of one section with what they refer to in place.

    :param values: Key -> value as written, those of ``[DEFAULT]`` included.
    """

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values
        self._whole: dict[str, str] = {}
        self._path: list[str] = []

    def get(self, key: str) -> str | None:
        """Return the value of a key, None where it is absent.

        :raises ValueUnusableError: if it refers to itself, through too many others, or becomes too long.
        """
        if key not in self._values:
            return None
        if key not in self._whole:
            self._path.append(key)
            try:
                self._whole[key] = self._replaced(self._values[key])
            finally:
                self._path.pop()
        return self._whole[key]

    def _replaced(self, written: str) -> str:
        pieces, length, done = [], 0, 0
        for mark in _REFERENCE.finditer(written):
            piece = self._meaning(mark)
            pieces += [written[done : mark.start()], piece]
            done = mark.end()
            length += len(piece)
            if length > _MOST_CHARACTERS:
                raise ValueUnusableError('is too long after its %(...)s references are replaced')
        return ''.join([*pieces, written[done:]])

    def _meaning(self, mark: re.Match[str]) -> str:
        if mark[1] is None:
            return '%'
        key = mark[1].lower()
        if key in self._path:
            raise ValueUnusableError(f'%({key})s refers to itself')
        if len(self._path) > _DEEPEST and key in self._values:
            raise ValueUnusableError(f'has more than {_DEEPEST} nested references, ending at %({key})s')
        value = self.get(key)
        return mark[0] if value is None else value
