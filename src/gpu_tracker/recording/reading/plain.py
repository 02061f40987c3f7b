"""Values of a recording as JSON knows them. JSON has no NaN and no infinity: they become null."""

from __future__ import annotations

import json
import math
from dataclasses import fields, is_dataclass
from typing import Any

_encode = json.JSONEncoder(allow_nan=False, separators=(',', ':')).encode


def plain(value: object) -> Any:  # noqa: ANN401 - what JSON knows
    """Return dictionaries, lists, texts, numbers, truths and None for a record and all that is in it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, dict):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    raise TypeError(f'a recording cannot contain a value of type {type(value).__name__}')


def text(value: object) -> str:
    """Return one line of JSON, in ASCII."""
    return _encode(plain(value))
