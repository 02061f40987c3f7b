"""Units of memory and time, and the conversion from base units, which happens once, at the edge.

Memory is measured in bytes and time in seconds everywhere else. Memory units are decimal: a megabyte is 10**6 bytes.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

MEMORY_UNITS: dict[str, float] = {
    'bytes': 1,
    'kilobytes': 1e3,
    'megabytes': 1e6,
    'gigabytes': 1e9,
    'terabytes': 1e12,
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
    'kb': 1e3,
    'mb': 1e6,
    'gb': 1e9,
    'tb': 1e12,
    'kib': 2**10,
    'mib': 2**20,
    'gib': 2**30,
    'tib': 2**40,
}

_MOST_DIGITS = 30
"""Of a size: more than anybody has use for, and fewer than numbers can have."""

SIZES_ACCEPTED = 'a size with its unit, such as 10GB or 8GiB'


def parse_size(text: str) -> int | None:
    """Return the bytes of a size such as ``10GB`` (10**10) or ``8GiB`` (2**33); None where it is none.

    Units are B, kB, MB, GB, TB (decimal) and KiB, MiB, GiB, TiB (binary), in upper or lower case.
    """
    size = _parse(text, _SIZES)
    return None if size is None else round(size)


_TIMES: dict[str, float] = {'ms': 1e-3, 's': 1, 'min': 60, 'h': 3600, 'd': 86400}

TIMES_ACCEPTED = 'a time with its unit, such as 90s, 1.5min or 200ms'


def parse_time(text: str) -> float | None:
    """Return the seconds of a time such as ``90s`` or ``1.5 h``; None where it is none.

    Units are ms, s, min, h and d.
    """
    return _parse(text, _TIMES)


def _parse(text: str, known: Mapping[str, float]) -> float | None:
    """Return the number before one of the ``known`` units, in base units."""
    text = text.strip().lower()
    number = text.rstrip('abcdefghijklmnopqrstuvwxyz')
    unit = known.get(text[len(number) :])
    number = number.strip()
    if unit is None or len(number) > _MOST_DIGITS or not number.isascii():
        return None
    return float(number) * unit if number.replace('.', '', 1).isdecimal() else None


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
