"""Reads files of results: JSON, and pickled results of this gpu-tracker without unpickling anything.

A pickle is a program, and one from a stranger does what the stranger wants. The results of gpu-tracker 5 can be had by
loading theirs only, so they are refused. Those of this gpu-tracker hold one JSON text, which is taken out of the file.
"""

from __future__ import annotations

import json
import os
from typing import Any

from gpu_tracker.errors import SubTrackingError
from gpu_tracker.sub_tracker.results import SubTrackingResults, from_json, from_plain

_MOST_BYTES = 256 * 2**20
_PICKLE = b'\x80'
"""How a pickle begins, in each protocol since 2."""
_PLAIN = (from_json.__module__, from_json.__qualname__)


def read_results(path: str) -> SubTrackingResults:
    """Return the results in the file ``path``.

    :raises SubTrackingError: where it has none that can be read safely; OSError: where it cannot be read.
    """
    if os.path.getsize(path) > _MOST_BYTES:
        raise SubTrackingError(f'{path} has more than {_MOST_BYTES // 2**20} MiB: these are no results')
    with open(path, 'rb') as file:
        data = file.read()
    text = _pickled_text(path, data) if data.startswith(_PICKLE) else data.decode(errors='replace')
    try:
        return from_plain(json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise SubTrackingError(f'{path} has no results: needed is what {_ADVICE} writes') from error


_ADVICE = "'gpu-tracker sub-track analyze -f json -o FILE'"


def _pickled_text(path: str, data: bytes) -> str:
    """Return the JSON text of pickled results, by reading the operations of the pickle and running none of them."""
    import pickletools  # noqa: PLC0415 - rarely needed

    found: list[Any] = []
    try:
        for operation, argument, _ in pickletools.genops(data):
            if operation.name == 'GLOBAL':  # protocols 2 and 3: both names in one
                found += str(argument).split(' ')
            elif isinstance(argument, str):
                found.append(argument)
    except Exception as error:  # a made-up pickle raises whatever it likes
        raise SubTrackingError(_refusal(path)) from error
    match found:
        case [module, name, str(text)] if (module, name) == _PLAIN:
            return text
    raise SubTrackingError(_refusal(path))


def _refusal(path: str) -> str:
    return (
        f'{path} is a pickle, which is not loaded, since it could run any code; analyze the tracking file and the'
        f' sub-tracking file again: {_ADVICE}'
    )
