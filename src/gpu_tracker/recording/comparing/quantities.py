"""Limits of figures, read from what people write, and changes as texts."""

from __future__ import annotations

import re

from gpu_tracker.units import parse_size, parse_time

ACCEPTED = {
    'bytes': 'a size with its unit, such as 2 GB',
    'seconds': 'a time with its unit, such as 90 s, 1.5 min or 200 ms',
    'percent': 'a percentage, such as 80 %',
    'joules': 'an energy with its unit, such as 500 J or 2 kJ',
    'count': 'a number without a unit',
    'bytes/s': 'a rate with its unit, such as 100 MB/s',
}
"""What a limit of a figure may be, by the figure's base unit."""

_NUMBER = r'[0-9]{1,20}(?:\.[0-9]{0,20})?'
_ENERGY = re.compile(rf'({_NUMBER})\s*(k|M)?J', re.ASCII)
_PERCENTAGE = re.compile(rf'({_NUMBER})\s*%', re.ASCII)
_COUNT = re.compile(_NUMBER, re.ASCII)
_PREFIXES = {None: 1.0, 'k': 1e3, 'M': 1e6}


def change_text(ratio: float) -> str:
    """Return a ratio as a change: ``+12.3 %`` for 1.123."""
    percent = (ratio - 1) * 100
    return f'{percent:+.1f} %' if abs(percent) < 100 else f'{percent:+.4g} %'  # noqa: PLR2004


def limit_of(text: str, unit: str) -> float | None:
    """Return the limit that ``text`` gives for a figure with the base unit ``unit``; None where it gives none."""
    text = text.strip()
    if unit == 'bytes':
        return parse_size(text)
    if unit == 'bytes/s':
        return parse_size(text.removesuffix('/s')) if text.endswith('/s') else None
    if unit == 'seconds':
        return parse_time(text)
    if unit == 'joules':
        found = _ENERGY.fullmatch(text)
        return None if found is None else float(found[1]) * _PREFIXES[found[2]]
    found = (_PERCENTAGE if unit == 'percent' else _COUNT).fullmatch(text)
    return None if found is None else float(found[1] if unit == 'percent' else found[0])
