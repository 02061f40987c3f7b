"""The answers that the servers give by themselves, and the headers of every answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, MutableMapping

    Message = MutableMapping[str, Any]
    Send = Callable[[Message], Awaitable[None]]

CONTENT_SECURITY_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""A page runs and shows what this server itself has sent, whatever an agent's strings hold."""

HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b'content-security-policy', CONTENT_SECURITY_POLICY),
    (b'x-content-type-options', b'nosniff'),
    (b'x-frame-options', b'DENY'),
    (b'referrer-policy', b'no-referrer'),
    (b'cross-origin-opener-policy', b'same-origin'),
    (b'cross-origin-resource-policy', b'same-origin'),
    (b'cache-control', b'no-store'),
)


class Answer(NamedTuple):
    """A short text for whoever has asked."""

    status: int
    text: str
    headers: tuple[tuple[bytes, bytes], ...] = ()
    closes: bool = False
    """Whether no more is wanted of this connection."""

    async def send(self, send: Send) -> None:
        """Send it as a whole answer of ASGI."""
        body = f'{self.text}\n'.encode()
        headers = [
            (b'content-type', b'text/plain; charset=utf-8'),
            (b'content-length', b'%d' % len(body)),
            *self.headers,
            *([(b'connection', b'close')] if self.closes else []),
        ]
        await send({'type': 'http.response.start', 'status': self.status, 'headers': headers})
        await send({'type': 'http.response.body', 'body': body})


def completed(headers: Iterable[tuple[bytes, bytes]], date: bytes) -> list[tuple[bytes, bytes]]:
    """Return headers of an answer with those of every answer that they have not."""
    given = [(name.lower(), value) for name, value in headers]
    present = {name for name, _ in given}
    return given + [(name, value) for name, value in (*HEADERS, (b'date', date)) if name not in present]


BAD_REQUEST = Answer(400, 'Bad Request', closes=True)
NO_HOST = Answer(400, 'Bad Request: exactly one Host header is needed', closes=True)
NO_BODY = Answer(413, 'Content Too Large: nothing here takes a request body', closes=True)
TARGET_TOO_LONG = Answer(414, 'URI Too Long', closes=True)
WRONG_HOST = Answer(
    421, 'Misdirected Request: this server does not go by that name; its option --server-name adds names', closes=True
)
HEAD_TOO_LARGE = Answer(431, 'Request Header Fields Too Large', closes=True)
SERVER_ERROR = Answer(500, 'Internal Server Error')
