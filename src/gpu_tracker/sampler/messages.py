"""What the sampler and its tracker say to each other, over a pipe in each direction. Marshalled, with a length before."""

from __future__ import annotations

import marshal
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LENGTH = 4
_LONGEST = 1 << 24


def encode(message: dict[str, Any]) -> bytes:
    """Return ``message`` as it is sent. Both ends run the same interpreter, so marshal, which costs no import, will do."""
    content = marshal.dumps(message)
    return len(content).to_bytes(_LENGTH, 'big') + content


def encode_bare(value: dict[str, Any]) -> bytes:
    """Return ``value`` as the sampler's first lines read it, before this module is there."""
    return marshal.dumps(value)


def receive(handle: int) -> dict[str, Any]:
    """Return the next message from ``handle``.

    :raises EOFError: if the other end is closed; its argument holds what came that was no message, as text.
    """
    head = _read(handle, _LENGTH)
    length = int.from_bytes(head, 'big')
    if len(head) < _LENGTH or length > _LONGEST:
        raise EOFError((head + _read(handle, _LONGEST)).decode(errors='replace').strip())
    content = _read(handle, length)
    if len(content) < length:
        raise EOFError
    message: dict[str, Any] = marshal.loads(content)  # noqa: S302 - from our own process
    return message


def _read(handle: int, length: int) -> bytes:
    chunks = b''
    while len(chunks) < length and (chunk := os.read(handle, min(65536, length - len(chunks)))):
        chunks += chunk
    return chunks
