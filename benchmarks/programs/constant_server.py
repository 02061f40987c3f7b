"""Answers two bytes with always the same, as fast as asyncio does that: constant_server.py PORT NAME LENGTH.

It listens on a port of 127.0.0.1 and on an abstract socket. An answer has four bytes, the version that was asked for
and the length, and a text of that length.
"""

import asyncio
import struct
import sys

_REQUEST = 2
_BACKLOG = 1024
_VERSIONS = 3


class _Connection(asyncio.BufferedProtocol):
    def __init__(self, answers: list[bytes]) -> None:
        self._answers = answers
        self._request = bytearray(_REQUEST)
        self._received = 0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - for the types
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return memoryview(self._request)[self._received :]

    def buffer_updated(self, nbytes: int) -> None:
        self._received += nbytes
        if self._received == _REQUEST and self._transport is not None:
            self._received = 0
            self._transport.write(self._answers[self._request[1]])


async def _serve(port: int, name: str, length: int) -> None:
    answers = [struct.pack('>I', version << 24 | length) + b'@' * length for version in range(_VERSIONS)]
    loop = asyncio.get_running_loop()
    tcp = await loop.create_server(lambda: _Connection(answers), '127.0.0.1', port, backlog=_BACKLOG)
    unix = await loop.create_unix_server(lambda: _Connection(answers), f'\0{name}', backlog=_BACKLOG)
    await asyncio.gather(tcp.serve_forever(), unix.serve_forever())


if __name__ == '__main__':
    asyncio.run(_serve(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
