"""The gate in front of an application: what it refuses, the answers to that, and the headers of every answer."""

from __future__ import annotations

from email.utils import formatdate
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from gpu_tracker.fleet.web.capacity import counted_address
from gpu_tracker.fleet.web.guesses import Guesses

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, MutableMapping

    from gpu_tracker.fleet.web.capacity import Limits, Slot
    from gpu_tracker.fleet.web.credentials import Credentials
    from gpu_tracker.fleet.web.host_names import HostNames

    Message = MutableMapping[str, Any]

    Send = Callable[[Message], Awaitable[None]]

    Scope = MutableMapping[str, Any]

    Receive = Callable[[], Awaitable[Message]]

    Application = Callable[[Scope, Receive, Send], Awaitable[None]]

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
TOO_MANY_GUESSES = Answer(
    429,
    'Too Many Requests: too many wrong secrets came from your address; try again in a second',
    ((b'retry-after', b'1'),),
    closes=True,
)
HEAD_TOO_LARGE = Answer(431, 'Request Header Fields Too Large', closes=True)
SERVER_ERROR = Answer(500, 'Internal Server Error')


HEALTH = '/healthz'
"""Tells that a server lives."""
OPEN_PATHS = frozenset({HEALTH})
"""Without authorization: whether a server lives is no secret, and what asks so often knows none."""

CLIENT = 'gpu_tracker.client'
"""The key of the Client in the state of a request."""


class Client(Protocol):
    """The connection that a request has come over."""

    slot: Slot

    @property
    def is_gone(self) -> bool:
        """Whether nobody reads answers any more."""

    def begin_answer(self) -> None:
        """Stop waiting for the client: the head of a request is complete."""

    def end_answer(self) -> None:
        """Wait for the next request: the answer is complete."""


class ClientGoneError(OSError):
    """Nobody is there any more to take an answer; raised where an application goes on sending one."""


class Gate:
    """An ASGI application around another one.

    Refuses requests that have a body, an overlong target or head, a Host that is not this server's, or no
    authorization. Gives each answer the headers of security. An error of the application ends as a bare 500.

    :param application: Serves what passes.
    :param names: What the server goes by.
    :param credentials: None: everybody may read. The attribute of this name may be replaced.
    :param complain: Takes a line about an error of the application.
    :param refused: Takes a line about a client that has tried a wrong secret.
    :param open_paths: What needs no authorization.
    :param guesses: Says how long a client waits before its secret is compared.
    """

    def __init__(
        self,
        application: Application,
        *,
        names: HostNames,
        credentials: Credentials | None,
        limits: Limits,
        complain: Callable[[str], None],
        refused: Callable[[str], None],
        open_paths: frozenset[str] = OPEN_PATHS,
        guesses: Guesses | None = None,
    ) -> None:
        self._application = application
        self._names = names
        self.credentials = credentials
        self._limits = limits
        self._complain = complain
        self._refused = refused
        self._open_paths = open_paths
        self._guesses = guesses or Guesses()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope['type'] != 'http':
            return  # the server offers nothing else
        client: Client = scope['state'][CLIENT]
        client.begin_answer()
        sending = _Sending(send, client)
        refusal = await self._refusal(scope, client)
        try:
            await (refusal.send(sending) if refusal else self._application(scope, receive, sending))
        except Exception as error:  # noqa: BLE001 - of whatever kind: the client gets no word of it
            if client.is_gone:
                return
            self._complain(f'internal error: {scope["method"]} {scope["path"]}: {type(error).__name__}: {error}')
        if not (sending.began or client.is_gone):
            await SERVER_ERROR.send(sending)
        # An answer that has begun and not ended is cut off by the server, so that nobody takes it for whole.

    async def _refusal(self, scope: Scope, client: Client) -> Answer | None:
        """Return what to say to a request that the application should not see."""
        headers: list[tuple[bytes, bytes]] = scope['headers']
        refusal = self._of_size(scope, headers) or self._of_host(scope, headers)
        if refusal or scope['path'] in self._open_paths:
            return refusal
        refusal = await self._unauthorized(headers, client.slot)
        if refusal is None:
            client.slot.may_read = True
            client.slot.waiting_since = None
        return refusal

    def _of_size(self, scope: Scope, headers: list[tuple[bytes, bytes]]) -> Answer | None:
        path, query = scope['raw_path'], scope['query_string']
        if len(path) + len(query) > self._limits.target_size:
            return TARGET_TOO_LONG
        # A head that has arrived in one piece was not stopped while it was read.
        if sum(len(name) + len(value) for name, value in headers) > self._limits.head_size:
            return HEAD_TOO_LARGE
        lengths = _values(headers, b'content-length')
        if _values(headers, b'transfer-encoding') or any(length.strip(b'0') for length in lengths):
            return NO_BODY
        # Anything else is a proxy's form of request, or CONNECT's.
        return None if path.startswith(b'/') else BAD_REQUEST

    def _of_host(self, scope: Scope, headers: list[tuple[bytes, bytes]]) -> Answer | None:
        hosts = _values(headers, b'host')
        # Health checks of load balancers; Host is optional in HTTP/1.0, and no browser speaks it.
        if not hosts and scope['http_version'] == '1.0' and scope['path'] in self._open_paths:
            return None
        if len(hosts) != 1 or not hosts[0]:
            return NO_HOST
        return None if self._names.contain(hosts[0]) else WRONG_HOST

    async def _unauthorized(self, headers: list[tuple[bytes, bytes]], slot: Slot) -> Answer | None:
        if self.credentials is None:
            return None
        challenges = tuple((b'www-authenticate', challenge) for challenge in self.credentials.challenges)
        unauthorized = Answer(401, 'Unauthorized', challenges)
        given = _values(headers, b'authorization')
        if not given:  # a browser first asks without
            return unauthorized
        address = counted_address(slot.peer)
        if not slot.may_read and not await self._guesses.wait(address):
            return TOO_MANY_GUESSES
        # A reload may have replaced the credentials while this client waited.
        if self.credentials is None:
            return None
        if len(given) == 1 and self.credentials.accepts(given[0]):
            self._guesses.was_right(address)
            return None
        self._guesses.was_wrong(address)
        slot.may_read = False
        self._refused(f'a client at {slot.peer} was refused: its secret is wrong')
        return unauthorized


class _Sending:
    """Sends an answer with the headers that each has, as long as somebody is there to take it."""

    def __init__(self, send: Send, client: Client) -> None:
        self._send = send
        self._client = client
        self.began = False

    async def __call__(self, message: Message) -> None:
        if self._client.is_gone:
            # uvicorn would take all without a pause, for ever where the application has no end.
            raise ClientGoneError
        if message['type'] == 'http.response.start':
            self.began = True
            date = formatdate(usegmt=True).encode()
            message = {**message, 'headers': completed(message.get('headers', []), date)}
        await self._send(message)
        if message['type'] == 'http.response.body' and not message.get('more_body'):
            self._client.end_answer()


def _values(headers: list[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    """Return what a header holds, each time that it is there; ASGI has names in lower case."""
    return [value for key, value in headers if key == name]
