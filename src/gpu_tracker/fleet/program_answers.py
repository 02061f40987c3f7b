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
    from collections.abc import AsyncIterator, Iterable

    from starlette.requests import Request
    from starlette.routing import BaseRoute

_JSON = 'application/json'
_GZIP = 16 + zlib.MAX_WBITS
_QUICKLY = 3
_NOT_AT_ALL = re.compile(r'\s*q\s*=\s*0(\.0*)?\s*')
_PACKED_PIECE = 65536
_PIECE_TO_UNPACK = 4096
"""Compressed bytes; JSON of hosts is about 15 times as long."""


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


class SharedList:
    """A list in JSON, encoded once for all clients. It belongs to one event loop."""

    def __init__(self) -> None:
        self._key: object = None
        self._encoding: asyncio.Task[_Packed] | None = None

    async def answer(self, request: Request, items: Iterable[object], key: object) -> Response:
        """Return the list as an answer, without blocking other answers while it is encoded.

        :param items: Read item by item, unless there is a list for this key or one is being encoded.
        :param key: Anything that changes with the items; None: there is no such thing.
        """
        if self._encoding is None or (self._encoding.done() and (key is None or key != self._key)):
            self._key = key
            self._encoding = asyncio.create_task(_encoded(items))
        encoded = await asyncio.shield(self._encoding)  # other clients wait for it too
        is_packed = takes_gzip(request)
        length = {'content-length': str(len(encoded.body) if is_packed else encoded.size), 'vary': 'accept-encoding'}
        headers = {**length, 'content-encoding': 'gzip'} if is_packed else length
        return StreamingResponse(_pieces(encoded.body, unpack=not is_packed), headers=headers, media_type=_JSON)


async def _encoded(items: Iterable[object]) -> _Packed:
    packer = zlib.compressobj(_QUICKLY, wbits=_GZIP)
    pieces, size, before = [], 1, b'['
    for item in items:
        text = before + json.dumps(item).encode('ascii')
        pieces.append(packer.compress(text))
        size, before = size + len(text), b','
        await asyncio.sleep(0)
    end = b']' if pieces else b'[]'
    return _Packed(b''.join([*pieces, packer.compress(end), packer.flush()]), size + len(end) - 1)


async def _pieces(body: bytes, *, unpack: bool) -> AsyncIterator[bytes]:
    unpacker = zlib.decompressobj(wbits=_GZIP)
    size = _PIECE_TO_UNPACK if unpack else _PACKED_PIECE
    for begin in range(0, len(body), size):
        piece = body[begin : begin + size]
        yield unpacker.decompress(piece) if unpack else piece
