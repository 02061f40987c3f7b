"""Answers of both servers to programs."""

from __future__ import annotations

import asyncio
import json
import re
import zlib
from typing import TYPE_CHECKING, NamedTuple

from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from gpu_tracker.fleet.web.gate import HEALTH

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from starlette.requests import Request
    from starlette.routing import BaseRoute

_JSON = 'application/json'
_GZIP = 16 + zlib.MAX_WBITS
_QUICKLY = 3
_NOT_AT_ALL = re.compile(r'\s*q\s*=\s*0(\.0*)?\s*')
_PIECE = 65536
"""Bytes that are sent at once."""


def health() -> BaseRoute:
    """Return the route that tells that this process serves."""
    return Route(HEALTH, _healthz)


async def _healthz(_: Request) -> Response:
    return PlainTextResponse('ok\n')


def json_answer(value: object) -> Response:
    """Return an answer in ASCII: a command line may hold bytes that are no UTF-8."""
    return Response(json.dumps(value), media_type=_JSON)


def takes_gzip(request: Request) -> bool:
    """Return whether the client accepts gzip."""
    accepted = request.headers.get('accept-encoding', '')
    parts = (part.partition(';') for part in accepted.split(','))
    return any(name.strip().lower() == 'gzip' and not _NOT_AT_ALL.fullmatch(weight) for name, _, weight in parts)


def packed(body: bytes) -> bytes:
    """Compress a body for clients that accept gzip."""
    return zlib.compress(body, _QUICKLY, wbits=_GZIP)


class _Packed(NamedTuple):
    body: bytes
    size: int
    """Bytes before compression."""


def json_list(items: Iterable[object]) -> Iterator[bytes]:
    """Yield a list in JSON, piece by piece."""
    before = b'['
    for item in items:
        yield before + json.dumps(item).encode('ascii')
        before = b','
    yield b']' if before == b',' else b'[]'


class SharedBody:
    """JSON that is encoded and compressed once for all clients. It belongs to one event loop."""

    def __init__(self) -> None:
        self._key: object = None
        self._encoding: asyncio.Task[_Packed] | None = None

    async def answer(self, request: Request, pieces: Iterable[bytes], key: object) -> Response:
        """Return the body as an answer, without blocking other answers while it is encoded.

        :param pieces: Read one by one, unless there is a body for this key or one is being encoded.
        :param key: Anything that changes with the body; None: there is no such thing.
        """
        if self._encoding is None or (self._encoding.done() and (key is None or key != self._key)):
            self._key = key
            self._encoding = asyncio.create_task(_encoded(pieces))
        encoded = await asyncio.shield(self._encoding)  # other clients wait for it too
        is_packed = takes_gzip(request)
        length = {'content-length': str(len(encoded.body) if is_packed else encoded.size), 'vary': 'accept-encoding'}
        headers = {**length, 'content-encoding': 'gzip'} if is_packed else length
        return StreamingResponse(_pieces(encoded.body, unpack=not is_packed), headers=headers, media_type=_JSON)


async def _encoded(pieces: Iterable[bytes]) -> _Packed:
    packer = zlib.compressobj(_QUICKLY, wbits=_GZIP)
    compressed, size = [], 0
    for piece in pieces:
        compressed.append(packer.compress(piece))
        size += len(piece)
        await asyncio.sleep(0)
    return _Packed(b''.join([*compressed, packer.flush()]), size)


async def _pieces(body: bytes, *, unpack: bool) -> AsyncIterator[bytes]:
    unpacker = zlib.decompressobj(wbits=_GZIP)
    for begin in range(0, len(body), _PIECE):
        piece = body[begin : begin + _PIECE]
        if not unpack:
            yield piece
        while unpack and piece:
            yield unpacker.decompress(piece, _PIECE)
            piece = unpacker.unconsumed_tail
    yield unpacker.flush()
