"""The keys of one section, read one by one; those that cannot be used become problems."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from gpu_tracker.idle.config import values
from gpu_tracker.idle.config.interpolation import Interpolation
from gpu_tracker.idle.config.keys import prefix_of
from gpu_tracker.idle.config.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_tracker.idle.config.document import Section

T = TypeVar('T')


class SectionReader:
    """Reads the keys of one section; what is wrong goes to ``errors`` and ``warnings``."""

    def __init__(self, section: Section, errors: list[Problem], warnings: list[Problem]) -> None:
        self.section = section
        self._values = Interpolation(section.values)
        self._errors = errors
        self._warnings = warnings

    def name(self, kind: str) -> str:
        """Return what the writer has called the section."""
        prefix = prefix_of(kind)
        name = self.section.name.removeprefix(prefix)
        if not name.strip():
            self._errors.append(Problem(self.section.line, self.section.name, f'needs a name after {prefix}'))
        return self.section.name

    def required(self, key: str, read: Callable[[str], T], empty: T) -> T:
        """Return the value of a key that has to be there; ``empty`` where it cannot be used."""
        if key not in self.section.values:
            self.error(key, 'is missing')
            return empty
        return self.optional(key, read, empty)

    def optional(self, key: str, read: Callable[[str], T], default: T) -> T:
        """Return the value of a key; ``default`` where it is absent or cannot be used."""
        try:
            text = self._values.get(key)
            return default if text is None else read(text)
        except values.ValueUnusableError as error:
            self.error(key, str(error))
            return default

    def error(self, key: str, text: str) -> None:
        """Note that a key cannot be used."""
        self._errors.append(Problem(self.section.line_of(key), self.section.name, f'{key}: {text}'))

    def warn(self, key: str, text: str) -> None:
        """Note that a key may not mean what was intended."""
        self._warnings.append(Problem(self.section.line_of(key), self.section.name, f'{key}: {text}'))

    def warn_of_comments(self, *names: str) -> None:
        """Note keys whose value has something that looks like a comment, and is none."""
        for key in names:
            if values.comment_within(self.section.values.get(key, '')):
                self.warn_of_comment(key)

    def warn_of_comment(self, key: str) -> None:
        """Note that a key's value has something that looks like a comment, and is none."""
        self.warn(key, f'what follows the ; or # belongs to the value: {values.COMMENT_HINT}')
