"""The client that asks agents over HTTP, and how long a host that fails is left alone."""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING, NamedTuple

import aiohttp

from gpu_tracker.fleet.polling.failures import AgentError, no_report, of_connection
from gpu_tracker.fleet.resolver import Resolver
from gpu_tracker.version import __version__

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping

    from yarl import URL

LONGEST = 30.0
"""Seconds: a host that comes back is seen by then."""

_MOST_DOUBLINGS = 16


class BackOff:
    """Doubles the pause of one host with each failure, by chance a little less: not all are asked in the same round.

    After the first failure it is asked in the next round.

    :param interval: Seconds between two rounds.
    :param longest: Seconds that no pause exceeds, unless ``interval`` does.
    :param chance: Returns numbers from 0 to 1.
    """

    __slots__ = ('_chance', '_due', '_failures', '_interval', '_longest')

    def __init__(self, interval: float, longest: float = LONGEST, chance: Callable[[], float] = random.random) -> None:
        self._interval = interval
        self._longest = longest
        self._chance = chance
        self._failures = 0
        self._due = 0.0

    def is_due(self, now: float) -> bool:
        """Return whether the round that begins is the last one in which it can be asked in time.

        :param now: Monotonic seconds.
        """
        return not self._failures or now + self._interval > self._due

    def succeeded(self) -> None:
        """Have it asked in each round."""
        self._failures = 0

    def failed(self, now: float) -> None:
        """Have it left alone for a while.

        :param now: When it was asked, in monotonic seconds.
        """
        pause = min(self._interval * 2.0 ** min(self._failures, _MOST_DOUBLINGS), self._longest)
        self._failures += 1
        self._due = now + pause * (1 - self._chance() / 2)


_FOR_OTHERS = 512 + 64
"""Descriptors for as many clients as are served at a time, and for files."""
_MOST_ON_WINDOWS = 256
"""There asyncio takes no more sockets at a time than select() does, 512."""
_LEAST_SHARE = 4
"""A quarter of all descriptors is for hosts, however few these are."""


def most_connections(descriptors: int | None = None) -> int:
    """Return how many connections to hosts may be open at a time, at least one.

    :param descriptors: How many this process may have; None: as the system says.
    """
    if descriptors is None:
        if sys.platform == 'win32':
            return _MOST_ON_WINDOWS
        import resource  # noqa: PLC0415 - on POSIX only

        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if descriptors == resource.RLIM_INFINITY:
            return 2**16
    return max(descriptors - _FOR_OTHERS, descriptors // _LEAST_SHARE, 1)


def too_few_for(hosts: int, most: int) -> str | None:
    """Return what to tell people where hosts have to take turns; None where each can have its connection.

    :param most: Connections at a time.
    """
    if hosts <= most:
        return None
    return (
        f'{hosts} hosts are asked over {most} connections at a time, since this process may open few files: a higher'
        ' limit (ulimit -n, LimitNOFILE= of systemd) makes room'
    )


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
    """Returns whether a part of an answer has come."""

    __slots__ = ('has_begun',)

    def __init__(self) -> None:
        self.has_begun = False


class HttpClient:
    """Keeps a connection to each host, over which it is asked again and again. It belongs to one event loop.

    :param hosts: How many there are. Where they are more than ``most``, no connection is kept, and hosts take turns.
    :param most: Connections at a time; None: see :func:`gpu_tracker.fleet.polling.http_client.most_connections`.
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
        """Return whether a host cannot be asked yet, since the address that its name stands for is being looked up."""
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
            raise AgentError('did not answer in HTTP', 'Bad response (not HTTP)') from None


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
