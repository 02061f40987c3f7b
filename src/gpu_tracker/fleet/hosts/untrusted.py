"""How much there is in a JSON text, before it is parsed: a few bytes each make an object that takes a hundred."""

from __future__ import annotations

import math
import re
from itertools import islice

_PART = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{,]', re.DOTALL)
"""A whole text, since what stands in one makes no objects; or what begins a list or an object, or separates."""


def has_more_parts(body: bytes, most: int) -> bool:
    """Return whether a JSON text has more than ``most`` texts, commas and opening brackets, each counted as one."""
    if len(body) <= most:
        return False
    return next(islice(_PART.finditer(body), most, None), None) is not None


LONGEST_TEXT = 1000
LONGEST_COMMAND = 4000


def text(value: object, longest: int = LONGEST_TEXT) -> str | None:
    """Return a text that can be written as UTF-8 and has ``longest`` characters at most, the last then being ``…``."""
    if not isinstance(value, str):
        return None
    if len(value) > longest:
        value = f'{value[: longest - 1]}…'
    # A lone surrogate, which JSON can spell, cannot be written.
    return value if value.isascii() else value.encode(errors='replace').decode()


def number(value: object, least: float = 0, most: float = math.inf) -> float | None:
    """Return a finite number within limits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        finite = math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return None
    return value if finite and least <= value <= most else None


def whole(value: object, least: int = 0, most: int = 2**63) -> int | None:
    """Return a whole number within limits."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if least <= value <= most else None


def flag(value: object) -> bool | None:
    """Return true or false."""
    return value if isinstance(value, bool) else None
