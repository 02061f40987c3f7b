"""Units of memory and time, and the conversion from base units, which happens once, at the edge.

Memory is measured in bytes and time in seconds everywhere else. Memory units are decimal: a megabyte is 10**6 bytes.
"""

from __future__ import annotations

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
    text = text.strip().lower()
    number = text.rstrip('abcdefghijklmnopqrstuvwxyz')
    unit = _SIZES.get(text[len(number) :])
    number = number.strip()
    if len(number) > _MOST_DIGITS:
        return None
    if unit is None or not number.replace('.', '', 1).isdecimal() or not number.isascii():
        return None
    return round(float(number) * unit)


class Units:
    """The units that a result is wanted in, and the number of cores that were expected to be used."""

    __slots__ = ('expected_cores', 'gpu_ram', 'ram', 'time')

    def __init__(self, ram: str, gpu_ram: str, time: str, expected_cores: int | None) -> None:
        self.ram = ram
        self.gpu_ram = gpu_ram
        self.time = time
        self.expected_cores = expected_cores
