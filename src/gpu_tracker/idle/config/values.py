"""The values of a configuration file: text in, plain data out, or an error that says what would be accepted."""

from __future__ import annotations

import configparser
import math
import re
import shlex
from typing import TYPE_CHECKING

from gpu_tracker.idle.config.document import ValueUnusableError, quoted
from gpu_tracker.idle.config.idle_settings import GpuId

if TYPE_CHECKING:
    from collections.abc import Callable

_NUMBER = re.compile(r'[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?')
_GPU = re.compile(r'([0-9]{1,6})(?::([0-9]{1,6}))?')
_VARIABLE = re.compile(r'[A-Za-z_][A-Za-z0-9_]*')
_COMMENT = re.compile(r'\s[;#]')
_OURS = ('CUDA_VISIBLE_DEVICES', 'CUDA_DEVICE_ORDER')
_MEGABYTE = 10**6
_MOST_SECONDS = 1e9  # 30 years: far beyond it timers overflow
_OFF = ('', 'off')

COMMENT_HINT = 'a comment stands on a line of its own'


def number(accepted: str, is_accepted: Callable[[float], bool]) -> Callable[[str], float]:
    """Return a parser of numbers: ``accepted`` says in words which ones are, ``is_accepted`` whether one is."""

    def read(text: str) -> float:
        found = float(text) if _NUMBER.fullmatch(text) else math.nan
        if not is_accepted(found):  # nothing is true of NaN
            raise _must_be(accepted, text)
        if found > _MOST_SECONDS:
            raise _must_be(f'at most {_MOST_SECONDS:.0f}', text)
        return found

    return read


at_least_zero = number('a number of seconds, at least 0', lambda seconds: seconds >= 0)
interval = number('a number of seconds, at least 0.1', lambda seconds: seconds >= 0.1)  # noqa: PLR2004 - the next word
back_off = number(
    'a number of seconds from 0 to 300, which is as far as it is doubled',
    lambda seconds: 0 <= seconds <= 300,  # noqa: PLR2004
)
_megabytes = number('a number of megabytes above 0, or off', lambda size: size > 0)
_percentage = number(
    'a percentage above 0 and at most 100, or off',
    lambda share: 0 < share <= 100,  # noqa: PLR2004
)


def bytes_or_off(text: str) -> int | None:
    """Return the bytes of so many megabytes; None for ``off`` or nothing."""
    return None if text.lower() in _OFF else max(1, round(_megabytes(text) * _MEGABYTE))


def percentage_or_off(text: str) -> float | None:
    """Return a percentage; None for ``off`` or nothing."""
    return None if text.lower() in _OFF else _percentage(text)


def switch(text: str) -> bool:
    """Return what configparser takes for true or false."""
    found = configparser.ConfigParser.BOOLEAN_STATES.get(text.lower())
    if found is None:
        raise _must_be('True or False', text)
    return found


def names(text: str) -> tuple[str, ...]:
    """Return the names between commas."""
    return tuple(name for part in text.split(',') if (name := part.strip()))


def name_set(text: str) -> frozenset[str]:
    """Return the names between commas, in no order."""
    return frozenset(names(text))


def gpus(text: str) -> tuple[GpuId, ...] | None:
    """Return the GPUs of a list; None for ALL."""
    written = names(text)
    if [name.upper() for name in written] == ['ALL']:
        return None
    found: list[GpuId] = []
    for name in written:
        match = _GPU.fullmatch(name)
        if match is None:
            break
        found.append(GpuId(int(match[1]), None if match[2] is None else int(match[2])))
    if not found or len(found) < len(written):
        raise _must_be('ALL or GPU numbers such as 0,1', text)
    for gpu in found:
        if found.count(gpu) > 1:
            raise ValueUnusableError(f'has GPU {gpu} twice')
    return tuple(found)


def words(text: str) -> tuple[str, ...]:
    """Return a program and its arguments, in quotes or not; a line may end in a backslash as in a shell."""
    found = _split(text)
    if not found or not found[0]:
        raise ValueUnusableError('is empty: give a program')
    return found


def variables(text: str) -> tuple[tuple[str, str], ...]:
    """Return the variables of words ``NAME=value``."""
    found: dict[str, str] = {}
    for word in _split(text):
        name, equals, value = word.partition('=')
        if not equals or not _VARIABLE.fullmatch(name):
            hint = f'; {COMMENT_HINT}' if word[:1] in {';', '#'} else ''
            raise ValueUnusableError(f'must be NAME=value, in quotes if it has spaces, not {quoted(word)}{hint}')
        if name in _OURS:
            raise ValueUnusableError(f'must not set {name}: the monitor sets {name} to the GPUs of the program')
        if name in found:
            raise ValueUnusableError(f'has {name} twice')
        found[name] = value
    return tuple(found.items())


def one_line(text: str) -> str:
    """Return a text that is not empty and does not go on in a second line."""
    if not text:
        raise ValueUnusableError('is empty')
    if '\n' in text:
        raise ValueUnusableError(f'must be on one line, not {quoted(text)}{hint(text)}')
    return text


def one_line_or_none(text: str) -> str | None:
    """Return a text that does not go on in a second line; None for an empty one."""
    return one_line(text) if text else None


def comment_within(text: str) -> bool:
    """Return whether a value has what its writer may have taken for a comment."""
    return _COMMENT.search(text) is not None


def comment_among(arguments: tuple[str, ...], text: str) -> bool:
    """Return the same for a command, whose arguments may have them in quotes; ``find -exec`` ends with a ``;``."""
    last = len(arguments) - 1
    is_mark = (word.startswith('#') or (word[:1] == ';' and place < last) for place, word in enumerate(arguments))
    return comment_within(text) and any(is_mark)


def _split(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text.replace('\\\n', ' ')))
    except ValueError as error:
        what = 'a backslash at its end' if 'escape' in str(error) else 'a quote that is not closed'
        raise ValueUnusableError(f'has {what}: {quoted(text)}') from error


def _must_be(accepted: str, text: str) -> ValueUnusableError:
    return ValueUnusableError(f'must be {accepted}, not {quoted(text)}{hint(text)}')


def hint(text: str) -> str:
    """Return what the writer of a value that cannot be used may not know, to be put behind the rest."""
    if '\n' in text:
        return '; a line with more blanks in front than the one above continues it'
    return f'; {COMMENT_HINT}' if comment_within(text) else ''
