"""Messages between a tracker and its sampler.

To the sampler they are single bytes, the stop with the seconds that were tracked. From the sampler they come over a
pipe, marshalled, with a mark and a length before. Until it is ready its standard error goes into the same pipe: what an
interpreter prints that does not start is the reason why no message comes. What is printed and does no harm (a shell in
a folder that was removed complains) is skipped: messages are found by their mark.
"""

from __future__ import annotations

import marshal

from gpu_tracker.real import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gpu_tracker.totals import Message

STOP_MESSAGE = b'S'
"""Make the last sample. Followed by the seconds, see :func:`stop_message`."""
LAUNCH_MESSAGE = b'L'
"""The command that was held back is about to run."""

FINISH_MESSAGE = b'F'
"""The totals of a run that is recorded are settled and in the store. Followed by the exit code, see
:func:`finish_message`."""
DISCARD_MESSAGE = b'D'
"""There was no run: remove what was recorded."""

SECONDS_LENGTH = 9
LONGEST_EXIT_CODE = 16


def stop_message(seconds: float) -> bytes:
    """Return what asks for the last sample after ``seconds`` of tracking."""
    return STOP_MESSAGE + marshal.dumps(float(seconds))


def finish_message(exit_code: int | None) -> bytes:
    """Return what says that the totals are settled."""
    return FINISH_MESSAGE + marshal.dumps(exit_code)


def exit_code_of_finish(content: bytes) -> int | None:
    """Return the exit code that follows :data:`FINISH_MESSAGE`."""
    exit_code: int | None = marshal.loads(content) if content else None  # noqa: S302 - from our own process
    return exit_code


def seconds_of_stop(content: bytes) -> float | None:
    """Return the seconds that follow :data:`STOP_MESSAGE`; None where they were cut off."""
    if len(content) < SECONDS_LENGTH:
        return None
    seconds: float = marshal.loads(content)  # noqa: S302 - from our own process
    return seconds


_MARK = b'\0gput\0'
_LENGTH = 4
_LONGEST_NOISE = 1 << 20


def encode(message: Message) -> bytes:
    """Return ``message`` as it is sent: marshalled, which costs no import, and both ends run the same interpreter."""
    plain: Any = message
    content = marshal.dumps(plain)
    return _MARK + len(content).to_bytes(_LENGTH, 'big') + content


def receive(handle: int) -> Message:
    """Return the next message from ``handle``.

    :raises EOFError: if the other end is closed; its argument holds what came that was no message, as text.
    """
    noise = _read(handle, len(_MARK))
    while not noise.endswith(_MARK):
        byte = os.read(handle, 1)
        if not byte or len(noise) > _LONGEST_NOISE:
            raise EOFError(noise.decode(errors='replace').strip())
        noise += byte
    length = int.from_bytes(_read(handle, _LENGTH), 'big')
    content = _read(handle, length)
    if len(content) < length:
        raise EOFError
    message: Message = marshal.loads(content)  # noqa: S302 - from our own process
    return message


def _read(handle: int, length: int) -> bytes:
    chunks = b''
    while len(chunks) < length and (chunk := os.read(handle, min(65536, length - len(chunks)))):
        chunks += chunk
    return chunks
