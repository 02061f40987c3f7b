"""What a tracker tells its sampler: single bytes, the stop with the seconds that were tracked."""

from __future__ import annotations

import marshal

STOP_MESSAGE = b'S'
"""Make the last sample. Followed by the seconds, see :func:`stop_message`."""
LAUNCH_MESSAGE = b'L'
"""The command that was held back is about to run."""

SECONDS_LENGTH = 9


def stop_message(seconds: float) -> bytes:
    """Return what asks for the last sample after ``seconds`` of tracking."""
    return STOP_MESSAGE + marshal.dumps(float(seconds))


def seconds_of_stop(content: bytes) -> float | None:
    """Return the seconds that follow :data:`STOP_MESSAGE`; None where they were cut off."""
    if len(content) < SECONDS_LENGTH:
        return None
    seconds: float = marshal.loads(content)  # noqa: S302 - from our own process
    return seconds
