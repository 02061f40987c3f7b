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
