"""Lengths of time in words."""

from __future__ import annotations

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR


def duration(seconds: float) -> str:
    """Return a length of time in words, in its two largest units: ``12 s``, ``3 min``, ``2 h 5 min``, ``3 d 4 h``."""
    whole = max(int(seconds), 0)  # a clock that was set back makes no sense of a difference
    if whole < _MINUTE:
        return f'{whole} s'
    if whole < _HOUR:
        return f'{whole // _MINUTE} min'
    if whole < _DAY:
        return _both(whole // _HOUR, 'h', whole % _HOUR // _MINUTE, 'min')
    return _both(whole // _DAY, 'd', whole % _DAY // _HOUR, 'h')


def _both(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f'{large} {large_unit} {small} {small_unit}' if small else f'{large} {large_unit}'
