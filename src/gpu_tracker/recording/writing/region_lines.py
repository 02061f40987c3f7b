"""Lines of a log of regions, read: each that a region or a sum of regions makes, and None for everything else.

Any process of a tracked program may write to the log, so nothing is taken for granted.
"""

from __future__ import annotations

LONGEST_LINE = 1 << 14
"""Bytes; no line that is written is as long."""

_MOST = (1 << 63) - 1
"""The largest integer of a database."""
_LARGEST_FLOAT = 1e300
_MOST_DIGITS = 19
_NONE = b'-'


class Begin:
    """A region has begun; times in nanoseconds, ``t`` of the monotonic clock."""

    __slots__ = (
        'attributes',
        'id',
        'name',
        'parent',
        'peak',
        'process_id',
        't',
        'task',
        'thread_cpu',
        'thread_id',
    )

    def __init__(self, fields: list[bytes]) -> None:
        """Take the fields after the letter.

        :raises ValueError: where one of them is wrong.
        """
        number, parent, process_id, thread_id, task, t, thread_cpu, peak, name, attributes = fields
        self.id = _number(number)
        self.parent = _number_or_none(parent)
        self.process_id = _number(process_id)
        self.thread_id = _number_or_none(thread_id)
        self.task = _text_or_none(task)
        self.t = _number(t)
        self.thread_cpu = _number_or_none(thread_cpu)
        self.peak = _number_or_none(peak)
        """The high-water mark of the process' RSS in KiB."""
        self.name = _text(name)
        self.attributes = _text_or_none(attributes)
        """A JSON object as text; only its braces are checked."""
        if self.attributes is not None and not (self.attributes[:1] == '{' and self.attributes[-1:] == '}'):
            raise ValueError


class End:
    """A region has ended."""

    __slots__ = ('error', 'id', 'peak', 't', 'thread_cpu')

    def __init__(self, fields: list[bytes]) -> None:
        """Take the fields after the letter, as ``Begin`` does."""
        number, t, thread_cpu, peak, error = fields
        self.id = _number(number)
        self.t = _number(t)
        self.thread_cpu = _number_or_none(thread_cpu)
        self.peak = _number_or_none(peak)
        self.error = _text_or_none(error)
        """The name of the type of the exception that has ended it, or ``exit status N`` of a command."""


class Fold:
    """The sum of calls of one name with one parent that ended within about a second."""

    __slots__ = (
        'calls',
        'errors',
        'first',
        'id',
        'last',
        'longest',
        'name',
        'parent',
        'process_id',
        'shortest',
        'squares',
        'thread_cpu',
        'thread_id',
        'total',
    )

    def __init__(self, fields: list[bytes]) -> None:
        """Take the fields after the letter, as ``Begin`` does."""
        number, parent, process_id, thread_id, name, first, last, calls, total, *rest = fields
        shortest, longest, squares, thread_cpu, errors = rest
        self.id = _number(number)
        self.parent = _number_or_none(parent)
        self.process_id = _number(process_id)
        self.thread_id = _number_or_none(thread_id)
        self.name = _text(name)
        self.first = _number(first)
        self.last = _number(last)
        self.calls = _number(calls)
        self.total = _number(total)
        self.shortest = _number(shortest)
        self.longest = _number(longest)
        self.squares = _squares(squares)
        """The sum of the squares of the calls' wall times, in seconds squared."""
        self.thread_cpu = _number_or_none(thread_cpu)
        self.errors = _number(errors)
        if not (self.first <= self.last and self.shortest <= self.longest <= self.total and self.errors <= self.calls):
            raise ValueError
        if not self.calls:
            raise ValueError


_KINDS: dict[bytes, type[Begin | End | Fold]] = {b'B': Begin, b'E': End, b'S': Fold}


def parse(line: bytes) -> Begin | End | Fold | None:
    """Return what ``line`` says, with or without its end of line; None where it is none that regions write."""
    if len(line) > LONGEST_LINE:
        return None
    kind, *fields = line.removesuffix(b'\n').split(b'\t')
    try:
        return _KINDS[kind](fields)
    except (KeyError, ValueError):
        return None


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
