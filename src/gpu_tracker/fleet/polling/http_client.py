"""HTTP as far as asking agents needs it, with a limit on everything that the other side sends."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import aiohttp

from gpu_tracker import __version__
from gpu_tracker.fleet.polling.connections import most_connections
from gpu_tracker.fleet.polling.failure import AgentError, no_report, of_connection
from gpu_tracker.fleet.resolver import Resolver

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from yarl import URL

LARGEST_ANSWER = 4 * 2**20
"""Bytes of a body. A host with 16 GPUs and 100 processes on each tells 1 MiB."""

_KEPT = 7200.0
"""Seconds for which an unused connection is kept: more than are between two rounds. Agents end theirs sooner."""
_NEVER = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)
"""One timer for the round instead of several for each of its requests."""
_OK = 200

HEADERS = {
    'Accept': 'application/json',
    'Accept-Encoding': 'identity',  # what is not compressed cannot be a bomb
    'User-Agent': f'gpu-tracker/{__version__}',
}


class Answer(NamedTuple):
    """What an agent has answered."""

    status: int
    reason: str | None
    body: bytes
    """Empty where the status is not 200."""


class Progress:
    """Tells whether a part of an answer has come."""

    __slots__ = ('has_begun',)

    def __init__(self) -> None:
        self.has_begun = False


class HttpClient:
    """Keeps a connection to each host, over which it is asked again and again. It belongs to one event loop.

    :param hosts: How many there are. Where they are more than ``most``, no connection is kept, and hosts take turns.
    :param most: Connections at a time; None: see :func:`gpu_tracker.fleet.polling.connections.most_connections`.
    """

    def __init__(self, resolver: Resolver | None = None, *, hosts: int = 0, most: int | None = None) -> None:
        self._resolver = Resolver() if resolver is None else resolver
        most = most_connections() if most is None else most
        keeps_all = hosts <= most
        connector = aiohttp.TCPConnector(
            limit=most,
            force_close=not keeps_all,  # kept connections would not count for the limit
            resolver=self._resolver,
            use_dns_cache=False,  # the resolver is one
            keepalive_timeout=_KEPT if keeps_all else None,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=_NEVER,
            headers=HEADERS,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,  # a proxy would see the tokens
        )

    def is_looking_up(self, host: str) -> bool:
        """Tell whether a host cannot be asked yet, since the address that its name stands for is being looked up."""
        return self._resolver.is_looking_up(host)

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()
        await self._resolver.close()

    async def get(self, url: URL, headers: Mapping[str, str], tls: ssl.SSLContext | None, progress: Progress) -> Answer:
        """Ask, and return the answer. There is no limit in time: whoever asks cancels.

        :raises AgentError: There is none.
        """
        try:
            async with self._session.get(
                url, headers=headers, ssl=True if tls is None else tls, allow_redirects=False
            ) as response:
                progress.has_begun = True
                if response.status != _OK:
                    return Answer(response.status, response.reason, b'')
                return Answer(_OK, response.reason, await _body(response))
        except (aiohttp.ClientError, OSError) as error:
            raise of_connection(error, over_tls=tls is not None) from error
        except ValueError:  # a few kinds of headers that are no HTTP
            raise AgentError('answered with something that is not HTTP', 'Bad response (not HTTP)') from None


async def _body(response: aiohttp.ClientResponse) -> bytes:
    encoding = response.headers.get('Content-Encoding', 'identity')
    if encoding.strip().lower() != 'identity':
        raise no_report('it is compressed, which nobody asked for')
    if response.content_length is not None and response.content_length > LARGEST_ANSWER:
        raise _too_large()
    pieces: list[bytes] = []
    size = 0
    while piece := await response.content.readany():
        pieces.append(piece)
        size += len(piece)
        if size > LARGEST_ANSWER:
            raise _too_large()
    return pieces[0] if len(pieces) == 1 else b''.join(pieces)


def _too_large() -> AgentError:
    return no_report(f'it is larger than {LARGEST_ANSWER // 2**20} MiB')
