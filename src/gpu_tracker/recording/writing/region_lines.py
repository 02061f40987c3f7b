"""Lines of a log of regions, read: each that a region or a sum of regions makes, and None for everything else.

Any process of a tracked program may write to the log, so nothing is taken for granted.
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LONGEST_LINE = 1 << 14
"""Bytes; no line that is written is as long."""

_MOST = (1 << 63) - 1
"""The largest integer of a database."""
_LARGEST_FLOAT = 1e300
_MOST_DIGITS = 19
_NONE = b'-'

Begin = namedtuple('Begin', 'id parent process_id thread_id task t thread_cpu peak name attributes')  # noqa: PYI024 - no typing here
"""A region has begun. Times are in nanoseconds, ``t`` of the monotonic clock.

``peak`` is the high-water mark of the process' RSS in KiB, ``attributes`` a JSON object as text, of which only the
braces are checked.
"""

End = namedtuple('End', 'id t thread_cpu peak error')  # noqa: PYI024 - see Begin
"""A region has ended. ``error`` is the type of the exception that has ended it, or ``exit status N`` of a command."""

Fold = namedtuple(  # noqa: PYI024 - see Begin
    'Fold',
    'id parent process_id thread_id name first last calls total shortest longest squares thread_cpu errors',
)
"""The sum of calls of one name with one parent that ended within about a second.

``squares`` is the sum of the squares of their wall times, in seconds squared.
"""


def parse(line: bytes) -> Begin | End | Fold | None:
    """Return the content of ``line``, with or without its end of line; None if regions write no such line."""
    if len(line) > LONGEST_LINE:
        return None
    kind, *fields = line.removesuffix(b'\n').split(b'\t')
    try:
        record, readers = _KINDS[kind]
        found: Begin | End | Fold = record(*[read(field) for read, field in zip(readers, fields, strict=True)])
    except (KeyError, ValueError):
        return None
    if isinstance(found, Fold):
        is_ordered = found.first <= found.last and found.shortest <= found.longest <= found.total
        if not (is_ordered and found.errors <= found.calls and found.calls):
            return None
    return found


def _number(field: bytes) -> int:
    if not field.isdigit() or len(field) > _MOST_DIGITS:
        raise ValueError
    number = int(field)
    if number > _MOST:
        raise ValueError
    return number


def _number_or_none(field: bytes) -> int | None:
    return None if field == _NONE else _number(field)


def _squares(field: bytes) -> float:
    if b'_' in field:
        raise ValueError  # Python alone takes it for a number
    number = float(field)
    if not 0 <= number < _LARGEST_FLOAT:
        raise ValueError
    return number


def _text_or_none(field: bytes) -> str | None:
    return None if field == _NONE else _text(field)


def _text(field: bytes) -> str:
    """Return the text of a field, whatever its bytes are, without the escapes."""
    text = field.decode('utf-8', 'replace')
    if '\\' not in text:
        return text
    parts = text.split('\\\\')
    return '\\'.join(part.replace('\\t', '\t').replace('\\n', '\n').replace('\\r', '\r') for part in parts)


def _object_or_none(field: bytes) -> str | None:
    text = _text_or_none(field)
    if text is not None and not (text[:1] == '{' and text[-1:] == '}'):
        raise ValueError
    return text


_KINDS: dict[bytes, tuple[Any, tuple[Callable[[bytes], object], ...]]] = {
    b'B': (
        Begin,
        (_number, _number_or_none, _number, _number_or_none, _text_or_none, _number, _number_or_none, _number_or_none,
         _text, _object_or_none),
    ),
    b'E': (End, (_number, _number, _number_or_none, _number_or_none, _text_or_none)),
    b'S': (
        Fold,
        (_number, _number_or_none, _number, _number_or_none, _text, *(_number,) * 6, _squares, _number_or_none,
         _number),
    ),
}  # fmt: skip
"""The record that a line's first letter stands for, and what reads each of its fields."""
