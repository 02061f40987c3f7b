"""The device nodes of the GPUs."""

from __future__ import annotations

import os
import re

from gpu_tracker.idle.observing.file_identity import Identity, identity_of

_NODE = re.compile(r'nvidia(0|[1-9][0-9]*)')


def device_number(name: str) -> int | None:
    """Return the N of a node that is called ``nvidiaN``, None for every other name."""
    match = _NODE.fullmatch(name)
    return int(match[1]) if match else None


def find_devices(folder: str = '/dev') -> dict[int, Identity]:
    """Return by N what tells the device ``nvidiaN``, for each that there is in ``folder``; nothing without a folder."""
    try:
        names = os.listdir(folder)
    except OSError:
        return {}  # no such folder, or none of ours to read: no GPU that could be watched through it
    found: dict[int, Identity] = {}
    for name in names:
        number = device_number(name)
        if number is not None:
            try:
                found[number] = identity_of(f'{folder}/{name}')
            except OSError:
                pass  # removed meanwhile, or a link that leads nowhere
    return dict(sorted(found.items()))
