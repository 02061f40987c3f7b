"""How much there is in a JSON text, before it is parsed: a few bytes each make an object that takes a hundred."""

from __future__ import annotations

import re
from itertools import islice

_PART = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{,]', re.DOTALL)
"""A whole text, since what stands in one makes no objects; or what begins a list or an object, or separates."""


def has_more_parts(body: bytes, most: int) -> bool:
    """Return whether a JSON text has more than ``most`` texts, commas and opening brackets, each counted as one."""
    if len(body) <= most:
        return False
    return next(islice(_PART.finditer(body), most, None), None) is not None
