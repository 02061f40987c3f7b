"""Figures as short texts in the unit that suits them, and as bars and lines of blocks. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

UNKNOWN = 'N/A'
BYTES, BYTES_PER_SECOND, PERCENT, WATTS = 'bytes', 'bytes/s', 'percent', 'watts'

_SIZES = ('B', 'kB', 'MB', 'GB', 'TB', 'PB', 'EB')
_STEP = 1000.0
_THREE_DIGITS = 999.5
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_TIMES = ((_DAY, _HOUR, 'd', 'h'), (_HOUR, _MINUTE, 'h', 'min'), (_MINUTE, 1, 'min', 's'))


def amount(value: float | None, unit: str) -> str:
    """Return a figure with its unit: ``1.23 GB``, ``187%``; of what is unknown, ``N/A``."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if unit == BYTES:
        return _size(value)
    if unit == BYTES_PER_SECOND:
        return f'{_size(value)}/s'
    if unit == PERCENT:
        return f'{value:.0f}%'
    return f'{_three_digits(value)} W'


def amount_of(value: float | None, whole: float | None, unit: str) -> str:
    """Return a figure with its unit and what there is at most: ``5.37 of 42.9 GB``, ``140% of 400%``."""
    now = amount(value, unit)
    if now == UNKNOWN or not whole or (unit, whole) == (PERCENT, 100.0):
        return now
    most = amount(whole, unit)
    number, _, written_unit = now.partition(' ')
    return f'{number if most.endswith(f" {written_unit}") else now} of {most}'


def duration(seconds: float | None) -> str:
    """Return a time in its own units: ``340 ms``, ``12.3 s``, ``2 min 14 s``, ``3 h 05 min``, ``2 d 03 h``."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    if seconds < 1:
        return f'{math.floor(round(seconds * _STEP, 6))} ms'
    if seconds < _MINUTE:
        return f'{math.floor(round(seconds * 10, 6)) / 10:.1f} s'
    larger, smaller, first, second = next(units for units in _TIMES if seconds >= units[0])
    whole, rest = divmod(seconds, larger)
    return f'{whole:,.0f} {first} {math.floor(rest / smaller):02d} {second}'


class Symbols(NamedTuple):
    """What bars and lines are made of.

    :ivar levels: From the lowest to the highest.
    """

    full: str
    empty: str
    levels: str


BLOCKS = Symbols('█', '░', '▁▂▃▄▅▆▇█')
ASCII = Symbols('#', '-', '_.:-=+*#')


def symbols_of(environment: Mapping[str, str]) -> Symbols:
    """Return those that the terminal can show, by the variables that say what it is.

    Blocks, unless the locale is set to one without UTF-8, or the terminal is the console of Linux, which lacks some.
    """
    locale = next((value for name in ('LC_ALL', 'LC_CTYPE', 'LANG') if (value := environment.get(name))), 'UTF-8')
    has_unicode = locale.upper().replace('-', '').endswith('UTF8')
    return BLOCKS if has_unicode and environment.get('TERM') not in {'linux', 'dumb'} else ASCII


def bar(value: float | None, whole: float | None, width: int, symbols: Symbols) -> str:
    """Return a bar that is as full as ``value`` is of ``whole``; blanks where one is unknown."""
    if value is None or not whole:
        return ' ' * width
    full = min(width, round(width * max(value, 0.0) / whole))
    return symbols.full * full + symbols.empty * (width - full)


def line(values: Sequence[float | None], top: float | None, symbols: Symbols) -> str:
    """Return values as a line of blocks, of which the highest is ``top``; blanks where one is unknown."""
    levels = symbols.levels
    return ''.join(
        ' ' if value is None else levels[_level(value, top, len(levels))] if top else levels[0] for value in values
    )


def _level(value: float, top: float, count: int) -> int:
    return min(count - 1, max(0, math.ceil(value / top * count) - 1))


def _size(value: float) -> str:
    for unit in _SIZES:
        if value < _THREE_DIGITS or unit == _SIZES[-1]:
            return f'{value:.0f} B' if unit == 'B' else f'{_three_digits(value)} {unit}'
        value /= _STEP
    raise AssertionError(value)


def _three_digits(value: float) -> str:
    """Return a number with three digits, or as many as it has before the point."""
    decimals = 2 if value < 9.995 else 1 if value < 99.95 else 0  # noqa: PLR2004 - where rounding adds a digit
    return f'{value:,.{decimals}f}'
