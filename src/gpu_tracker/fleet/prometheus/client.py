"""The client of a Prometheus: which one to ask, with which credentials, and the questions over HTTP."""

from __future__ import annotations

import asyncio
import base64
import os
import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

import aiohttp

from gpu_tracker.errors import GpuTrackerError, ParameterError
from gpu_tracker.fleet.config.cluster import ClusterError, TlsFiles, tls_context
from gpu_tracker.fleet.config.secret_files import read_token
from gpu_tracker.fleet.prometheus.queries import PrometheusError, parse_samples, parse_tracks, reason_of
from gpu_tracker.fleet.resolver import Resolver
from gpu_tracker.system.terminal_text import printable

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from gpu_tracker.fleet.prometheus.queries import Sample, Track

_ACCEPTED = 'a URL such as http://localhost:9090 or https://prometheus.example.org/prefix'


class Endpoint(NamedTuple):
    """A Prometheus, or what answers as one does."""

    url: str
    """Without credentials, query and slash at its end: fit to be shown."""
    authorization: str | None = None
    """The value of the header of that name."""
    tls: ssl.SSLContext | None = None
    """None: over http, or with the certificate authorities that the system trusts."""


def endpoint(url: str, *, token_file: str | None = None, ca_file: str | None = None) -> Endpoint:
    """Return where to ask.

    :param url: What ``/api/v1/query`` follows; a user and a password in it are sent by HTTP Basic.
    :param token_file: A file with a token, sent as ``Authorization: Bearer``.
    :param ca_file: Certificates of the authorities that may vouch for an https server, in PEM form.
    :raises ParameterError: The URL is none, or goes with the other two badly.
    :raises GpuTrackerError: A file cannot be read or is not what it should be.
    """
    parts = _split(url)
    authorization = _basic(parts)
    if token_file is not None:
        if authorization is not None:
            raise ParameterError(
                '--prometheus', _shown(url), 'a URL without user and password if --prometheus-token-file is given'
            )
        authorization = f'Bearer {read_token(token_file, "--prometheus-token-file", shortest=1)}'
    if ca_file is not None and parts.scheme != 'https':
        raise ParameterError('--prometheus', _shown(url), 'an https URL if --prometheus-ca is given')
    place = parts.netloc.rpartition('@')[2]
    return Endpoint(
        url=f'{parts.scheme}://{place}{parts.path.rstrip("/")}',
        authorization=authorization,
        tls=None if ca_file is None else _trusting(ca_file),
    )


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # an address in brackets that is none, a port that is no number
        raise ParameterError('--prometheus', _shown(url), _ACCEPTED) from None
    is_plain = not parts.query and not parts.fragment and url.isprintable() and ' ' not in url
    if parts.scheme not in {'http', 'https'} or not parts.hostname or port == 0 or not is_plain:
        raise ParameterError('--prometheus', _shown(url), _ACCEPTED)
    return parts


def _shown(url: str) -> str:
    """Return the URL as it may stand in a message."""
    return re.sub('//.*@', '//...@', url)


def _basic(parts: SplitResult) -> str | None:
    if parts.username is None and parts.password is None:
        return None
    pair = f'{unquote(parts.username or "")}:{unquote(parts.password or "")}'
    return f'Basic {base64.b64encode(pair.encode()).decode()}'


def _trusting(path: str) -> ssl.SSLContext:
    try:
        return tls_context(TlsFiles(path))
    except ClusterError as error:
        raise GpuTrackerError(str(error).replace('ca_file', '--prometheus-ca', 1)) from None


MOST_BYTES = 8 * 2**20
"""The longest answer that is read. A value of one GPU or process takes some 200 bytes, and 20 times as much memory
while it is read in the worst case."""
_CONNECTIONS = 4
_PIECE = 2**16
_OK = 200
_REFUSALS = (401, 403)
_HEADERS = {'Accept-Encoding': 'identity'}  # what is not compressed cannot be a bomb


class Client:
    """Puts queries to one Prometheus. It belongs to one event loop and has to be closed.

    :param endpoint: Which one.
    :param deadline: Seconds that a query may take, its whole answer included.
    :param most_bytes: The longest answer that is read.
    """

    def __init__(self, endpoint: Endpoint, *, deadline: float = 10.0, most_bytes: int = MOST_BYTES) -> None:
        self.url = endpoint.url
        self._endpoint = endpoint
        self._deadline = deadline
        self._most_bytes = most_bytes
        self._resolver = Resolver()
        self._session: aiohttp.ClientSession | None = None
        self._under_way = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    async def now(self, query: str, time: float | None = None) -> list[Sample]:
        """Return the values of a query now, or at a moment by Prometheus's own clock.

        :raises PrometheusError: It does not answer as it should; the text names its URL.
        """
        form = {'query': query} if time is None else {'query': query, 'time': f'{time:.3f}'}
        body = await self._ask('query', form)
        try:
            return parse_samples(body)
        except PrometheusError as error:
            raise self._failure(str(error)) from None

    async def over(self, query: str, *, start: float, end: float, step: float) -> list[Track]:
        """Return the values of a query at ``start``, ``start + step`` and so on up to ``end``, in seconds since 1970.

        :raises PrometheusError: It does not answer as it should; the text names its URL.
        """
        times = {'start': start, 'end': end, 'step': step}
        body = await self._ask('query_range', {'query': query, **{key: f'{time:.3f}' for key, time in times.items()}})
        try:
            return parse_tracks(body)
        except PrometheusError as error:
            raise self._failure(str(error)) from None

    async def close(self) -> None:
        """End all connections; the next query makes new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
            await self._resolver.close()

    async def retire(self) -> None:
        """End all connections once the queries that are under way have ended, or at once where this is cancelled."""
        try:
            await self._is_idle.wait()
        finally:
            await self.close()

    async def _ask(self, what: str, form: Mapping[str, str]) -> bytes:
        self._under_way += 1
        self._is_idle.clear()
        try:
            return await self._answer(what, form)
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._is_idle.set()

    async def _answer(self, what: str, form: Mapping[str, str]) -> bytes:
        url = f'{self.url}/api/v1/{what}'
        fields = {**form, 'timeout': f'{self._deadline:g}s'}  # has Prometheus itself give up then
        try:
            async with (
                asyncio.timeout(self._deadline),
                self._opened().post(url, data=fields, allow_redirects=False) as response,
            ):
                body = await self._body(response)
                if response.status != _OK:
                    raise self._failure(_refusal(response.status, body))
                return body
        except TimeoutError:
            raise self._failure(f'it has not answered within {self._deadline:g} s') from None
        except aiohttp.ClientConnectorCertificateError as error:
            raise self._failure(f'its certificate is not trusted: {error.certificate_error}') from None
        except aiohttp.ClientConnectorError as error:
            raise self._failure(f'it cannot be reached: {_reason(error.os_error)}') from None
        except (aiohttp.ClientError, OSError, ValueError) as error:  # the last: a port or a header that cannot be
            raise self._failure(f'it does not answer as it should: {str(error) or type(error).__name__}') from None

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            authorization = self._endpoint.authorization
            tls = self._endpoint.tls
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=_CONNECTIONS,
                    ssl=True if tls is None else tls,
                    resolver=self._resolver,
                    use_dns_cache=False,  # the resolver is one
                ),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),  # the deadline is above them
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=_HEADERS if authorization is None else {**_HEADERS, 'Authorization': authorization},
            )
        return self._session

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        body = bytearray()
        async for piece in response.content.iter_chunked(_PIECE):
            body += piece
            if len(body) > self._most_bytes:
                raise self._failure(f'its answer is longer than {self._most_bytes} bytes')
        return bytes(body)

    def _failure(self, reason: str) -> PrometheusError:
        return PrometheusError(f'Prometheus at {self.url}: {printable(reason)}')


def _reason(error: OSError) -> str:
    """Return the reason without the address, which asyncio adds; those of look-ups of names have numbers below 0."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error)


def _refusal(status: int, body: bytes) -> str:
    """Return what an answer that is not 200 means."""
    reason = reason_of(body)
    if reason is not None:
        return f'it refuses a query: {reason}'
    if status in _REFUSALS:
        return f'it does not accept the credentials (HTTP status {status}): they stand in its URL or in a token file'
    return f'there is no Prometheus at this URL, or it is not ready (HTTP status {status})'
