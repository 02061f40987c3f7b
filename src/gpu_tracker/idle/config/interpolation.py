"""Values that refer to others: ``%(dir)s/run.log``.

Existing files were read with configparser's interpolation, where ``%%`` is a percent sign and any other ``%`` was an
error. Here every other one is an ordinary character, so that ``50%`` needs no thought.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpu_tracker.idle.config.values import ValueUnusableError

if TYPE_CHECKING:
    from collections.abc import Mapping

_MARK = re.compile(r'%%|%\(([^)]+)\)s')
_DEEPEST = 10
"""References that lead to each other, as MAX_INTERPOLATION_DEPTH of configparser."""
_MOST_CHARACTERS = 20_000
"""Few lines that refer to each other make any length."""


def referred_to(written: str) -> frozenset[str]:
    """Return the keys that a value refers to."""
    return frozenset(mark[1].lower() for mark in _MARK.finditer(written) if mark[1] is not None)


def left_in(whole: str) -> tuple[str, ...]:
    """Return the keys for which nothing was put into a value, in their order."""
    return tuple(dict.fromkeys(mark[1].lower() for mark in _MARK.finditer(whole) if mark[1] is not None))


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
        for mark in _MARK.finditer(written):
            piece = self._meaning(mark)
            pieces += [written[done : mark.start()], piece]
            done = mark.end()
            length += len(piece)
            if length > _MOST_CHARACTERS:
                raise ValueUnusableError('is too long with what its %(...)s stand for')
        return ''.join([*pieces, written[done:]])

    def _meaning(self, mark: re.Match[str]) -> str:
        if mark[1] is None:
            return '%'
        key = mark[1].lower()
        if key in self._path:
            raise ValueUnusableError(f'%({key})s stands for itself')
        if len(self._path) > _DEEPEST and key in self._values:
            raise ValueUnusableError(f'%({key})s is reached through more than {_DEEPEST} others')
        value = self.get(key)
        return mark[0] if value is None else value
