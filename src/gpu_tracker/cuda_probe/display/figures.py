"""Figures formatted for people; what is not known is ``N/A`` and never 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpu_tracker.cuda_usage import CUDADevice

UNKNOWN = 'N/A'

_SIZES = ('B', 'kB', 'MB', 'GB', 'TB', 'PB')
_STEP = 1000
_TIMES = (('s', 1.0), ('ms', 1e-3), ('µs', 1e-6))
_LEAST_DECIMAL = 0.05
"""The least that one decimal still distinguishes from 0."""
_MOST_WITH_DECIMAL = 99.95
"""From here on a decimal adds nothing."""


def size(size_bytes: float | None) -> str:
    """Return ``1.2 GB`` for 1,234,567,890 bytes; units are decimal."""
    if size_bytes is None:
        return UNKNOWN
    if size_bytes < _STEP:
        return f'{size_bytes} B'
    value = float(size_bytes)
    unit = 0
    while round(value, 1) >= _STEP and unit < len(_SIZES) - 1:
        value /= _STEP
        unit += 1
    return f'{value:,.1f} {_SIZES[unit]}'


def count(number: int | None) -> str:
    """Return ``12,345``."""
    return UNKNOWN if number is None else f'{number:,}'


def amount(number: float | None) -> str:
    """Return a rate, a share or a mean: ``12,345``, ``87.3``, ``0``, and ``<0.1`` for what is almost nothing."""
    if number is None:
        return UNKNOWN
    if 0 < number < _LEAST_DECIMAL:
        return '<0.1'
    return '0' if number == 0 else f'{number:,.1f}' if number < _MOST_WITH_DECIMAL else f'{number:,.0f}'


def duration(seconds: float | None) -> str:
    """Return ``1,234.5 s``, ``12.3 ms`` or ``4.5 µs``."""
    if seconds is None:
        return UNKNOWN
    if seconds == 0:
        return '0 s'
    for unit, length in _TIMES:
        if round(seconds / length, 1) >= 1:
            return f'{seconds / length:,.1f} {unit}'
    return '<1 µs'


def ordinal(device: CUDADevice) -> str:
    """Return a process' own number of a GPU, ``?`` where it is not known which that is."""
    return '?' if device.ordinal is None else str(device.ordinal)
