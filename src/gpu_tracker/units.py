"""Units of memory and time: figures in the unit that is asked for, and sizes and times as people write and read them.

Memory is measured in bytes and time in seconds everywhere else: conversion happens once, at the edge. A megabyte is
10**6 bytes, and a mebibyte 2**20.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

DECIMAL_UNITS: dict[str, float] = {
    'bytes': 1,
    'kilobytes': 1e3,
    'megabytes': 1e6,
    'gigabytes': 1e9,
    'terabytes': 1e12,
}
MEMORY_UNITS: dict[str, float] = {
    **DECIMAL_UNITS,
    'kibibytes': 2**10,
    'mebibytes': 2**20,
    'gibibytes': 2**30,
    'tebibytes': 2**40,
}
TIME_UNITS: dict[str, float] = {'seconds': 1, 'minutes': 60, 'hours': 3600, 'days': 86400}


def from_bytes(size: float | None, unit: str) -> float | None:
    """Convert ``size`` bytes into ``unit``; what is unknown stays ``None``."""
    return None if size is None else size / MEMORY_UNITS[unit]


def from_seconds(seconds: float, unit: str) -> float:
    """Convert ``seconds`` into ``unit``."""
    return seconds / TIME_UNITS[unit]


_SIZES: dict[str, float] = {
    'b': 1,
    **{f'{prefix}b': 1000**power for power, prefix in enumerate('kmgt', 1)},
    **{f'{prefix}{ending}': 1024**power for power, prefix in enumerate('kmgt', 1) for ending in ('', 'ib')},
}
"""Bytes by unit, as GNU's coreutils have them. Of a letter alone Slurm, Docker and systemd make powers of 1024 too."""

_TIMES: dict[str, float] = {
    **dict.fromkeys(('d', 'day', 'days'), 86400),
    **dict.fromkeys(('h', 'hour', 'hours'), 3600),
    **dict.fromkeys(('m', 'min', 'minute', 'minutes'), 60),
    **dict.fromkeys(('s', 'sec', 'second', 'seconds'), 1),
    'ms': 1e-3,
}

_MOST_DIGITS = 30
"""Of a number: more than anybody has use for, and fewer than numbers can have."""
_DIGITS, _LETTERS = '0123456789.', 'abcdefghijklmnopqrstuvwxyz'

UNITS_ACCEPTED = 'bytes, kilobytes, megabytes, gigabytes or terabytes, or short as GB or GiB'
TIME_UNITS_ACCEPTED = 'seconds, minutes, hours or days, or short as s or min'


def memory_unit(text: str) -> str | None:
    """Return the unit of :data:`MEMORY_UNITS` that a text such as ``MB``, ``GiB`` or ``Bytes`` names; None: none."""
    return None if _is_of_bits(text) else _unit_of(text, MEMORY_UNITS, _SIZES)


def time_unit(text: str) -> str | None:
    """Return the unit of :data:`TIME_UNITS` that a text such as ``s``, ``min`` or ``Hours`` names; None: none."""
    return _unit_of(text, TIME_UNITS, _TIMES)


def _unit_of(text: str, units: Mapping[str, float], short: Mapping[str, float]) -> str | None:
    text = text.strip().lower()
    if text in units:
        return text
    return next((name for name, size in units.items() if size == short.get(text)), None)


SIZES_ACCEPTED = 'a size with its unit, such as 10GB (powers of 1000), 8GiB or 8G (powers of 1024)'


def _is_of_bits(text: str) -> bool:
    """Return whether a text ends in a unit of bits, such as Gb; gb is taken for GB."""
    return text.rstrip().endswith(('Kb', 'Mb', 'Gb', 'Tb', 'Kib', 'Mib', 'Gib', 'Tib'))


def parse_size(text: str) -> int | None:
    """Return the bytes of a size such as ``10GB`` (10**10), ``8GiB`` or ``8G`` (both 2**33); None where it is none.

    Units are B, kB, MB, GB, TB (powers of 1000) and K, M, G, T, KiB, MiB, GiB, TiB (powers of 1024), in upper or lower
    case. A number alone is none: Docker would take it for bytes, Slurm for megabytes.
    """
    amounts = None if _is_of_bits(text) else _amounts(text, _SIZES)
    return round(amounts[0][0] * amounts[0][1]) if amounts is not None and len(amounts) == 1 else None


def parse_time(text: str, *, of_number: str | None = None) -> float | None:
    """Return the seconds of a time such as ``90s``, ``1.5 h``, ``1h30m`` or ``5 min``; None where it is none.

    Units are ms, s, m or min, h and d, and the words from second to days, in upper or lower case. Several of them stand
    from the largest to the smallest.

    :param of_number: The unit of a number without one, which is no time else.
    """
    text = text.strip()
    if of_number is not None and not text.lstrip(_DIGITS):
        text += of_number
    amounts = _amounts(text, _TIMES)
    if amounts is None:
        return None
    units = [unit for _, unit in amounts]
    return sum(number * unit for number, unit in amounts) if units == sorted(set(units), reverse=True) else None


def _amounts(text: str, units: Mapping[str, float]) -> list[tuple[float, float]] | None:
    """Return the numbers in a text, each with the size of the unit after it; None where the text is something else."""
    rest = text.strip().lower()
    if not text.isascii() or not rest:
        return None
    found = []
    while rest:
        after_number = rest.lstrip(_DIGITS)
        number = rest.removesuffix(after_number)
        after_number = after_number.lstrip(' ')
        rest = after_number.lstrip(_LETTERS)
        unit = units.get(after_number.removesuffix(rest))
        if unit is None or len(number) > _MOST_DIGITS or not number.replace('.', '', 1).isdecimal():
            return None
        found.append((float(number), unit))
        rest = rest.lstrip(' ')
    return found


_SHOWN_SIZES = ((1e12, 'TB'), (1e9, 'GB'), (1e6, 'MB'), (1e3, 'kB'), (1, 'B'))
_MILLISECONDS_BELOW = 1
_MICROSECONDS_BELOW = 1e-3
_MINUTES_FROM = 600
_HOURS_FROM = 36_000
_MOST_SHOWN = 10**15


def text_of(value: float, unit: str, significant: int = 4) -> str:
    """Return a value with the unit in which it is read best, such as ``1.235 GB`` or ``340 ms``.

    :param unit: That of ``value``: bytes, bytes/s, seconds, percent, joules, watts or count.
    :param significant: The digits to show, but for those before the point, which are always all there.
    """
    if unit in {'bytes', 'bytes/s'}:
        size, name = next(((size, name) for size, name in _SHOWN_SIZES if abs(value) >= size), _SHOWN_SIZES[-1])
        return f'{digits(value / size, significant)} {name}{unit.removeprefix("bytes")}'
    if unit == 'seconds':
        return _time_text(value, significant)
    if unit == 'percent':
        return f'{digits(value, significant)} %'
    symbol = {'joules': ' J', 'watts': ' W'}.get(unit, '')
    return f'{digits(value, significant)}{symbol}'


def _time_text(seconds: float, significant: int) -> str:
    if seconds == 0:
        return '0 s'
    if seconds < _MICROSECONDS_BELOW:
        return f'{digits(seconds * 1e6, significant)} µs'
    if seconds < _MILLISECONDS_BELOW:
        return f'{digits(seconds * 1e3, significant)} ms'
    if seconds < _MINUTES_FROM:
        return f'{digits(seconds, significant)} s'
    if seconds < _HOURS_FROM:
        return f'{digits(seconds / 60, significant)} min'
    return f'{digits(seconds / 3600, significant)} h'


def digits(value: float, significant: int = 4) -> str:
    """Return a number with ``significant`` digits at least, all of those before the point, and no zeros after them."""
    if abs(value) >= 10 ** (significant - 1):
        return f'{value:.0f}' if abs(value) < _MOST_SHOWN else f'{value:.{significant}g}'
    return f'{value:.{significant}g}'


class Units:
    """The units that a result is wanted in, and the number of cores that were expected to be used."""

    __slots__ = ('expected_cores', 'gpu_ram', 'ram', 'time')

    def __init__(self, ram: str, gpu_ram: str, time: str, expected_cores: int | None) -> None:
        self.ram = ram
        self.gpu_ram = gpu_ram
        self.time = time
        self.expected_cores = expected_cores
