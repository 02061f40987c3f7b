"""Why a host could not be asked, for people and for nvgpu's masters."""

from __future__ import annotations

import errno
import os
import socket
import ssl
import time
from typing import TYPE_CHECKING

import aiohttp
from yarl import URL

from gpu_tracker.fleet.hosts.nvgpu import NOT_AVAILABLE, NVGPU, parse_nvgpu_report
from gpu_tracker.fleet.hosts.report import ReportError, parse_report

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_tracker.fleet.config.cluster import Token
    from gpu_tracker.fleet.hosts.report import HostReport
    from gpu_tracker.fleet.polling.http_client import HttpClient, Progress

_MOST_CHARACTERS = 100

TIMEOUT = 'Connection timeout'
"""What nvgpu's masters say."""

_NAME_UNKNOWN = frozenset({socket.EAI_NONAME, getattr(socket, 'EAI_NODATA', socket.EAI_NONAME)})


_REDIRECT = 3
_MEANINGS = {
    401: ': wrong or missing token',
    403: ': it may not be read from here',
    404: ': no agent is there, but another program',
    421: ': it does not know itself by this name; its option --server-name adds names',
}
"""What a status of RFC 9110 means where it comes from an agent."""


class AgentError(Exception):
    """A host has not reported anything.

    :param text: Why, for people.
    :param for_nvgpu: The same as an nvgpu master has it in ``/cluster_status``.
    """

    def __init__(self, text: str, for_nvgpu: str) -> None:
        super().__init__(text)
        self.for_nvgpu = for_nvgpu


def late(deadline: float, *, has_begun: bool) -> AgentError:
    """Return the error of a host that has not answered in time.

    :param deadline: Seconds.
    :param has_begun: A part of its answer has come.
    """
    which = 'no whole answer' if has_begun else 'no answer'
    return AgentError(f'{which} within {deadline:g} s', TIMEOUT)


def looking_up() -> AgentError:
    """Return the error of a host whose address is not known in time."""
    return AgentError('its name is still being looked up', NOT_AVAILABLE)


def bad_status(status: int, reason: str | None) -> AgentError:
    """Return the error of a host that answers with something else than 200."""
    meaning = ': redirects are not followed' if status // 100 == _REDIRECT else _MEANINGS.get(status, '')
    words = ''.join(character for character in (reason or '')[:_MOST_CHARACTERS] if character.isprintable())
    return AgentError(f'answered {status}{meaning}', f'Bad response ({status}: {words})')


def no_report(why: str) -> AgentError:
    """Return the error of a host whose answer cannot be read as a report."""
    return AgentError(f'answered with something that is not a report: {why}', f'Bad response (200: {why})')


def of_connection(error: aiohttp.ClientError | OSError, *, over_tls: bool) -> AgentError:
    """Say what has happened to a connection."""
    return AgentError(_in_words(error, over_tls=over_tls), NOT_AVAILABLE)


def _in_words(error: aiohttp.ClientError | OSError, *, over_tls: bool) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        return _unconnected(error)
    if isinstance(error, aiohttp.ClientResponseError):
        return 'answered with something that is not HTTP'
    if isinstance(error, aiohttp.ClientPayloadError):
        return 'the connection ended in the middle of the answer'
    # With TLS 1.3 a server refuses a client after the handshake, and most do not say why.
    return 'the connection ended before the answer' + (': it may want a client certificate' if over_tls else '')


def _unconnected(error: aiohttp.ClientConnectorError) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        why = error.certificate_error
        told = why.verify_message if isinstance(why, ssl.SSLCertVerificationError) else str(why)
        return f'its certificate is not accepted: {told.rstrip(".")}'
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f'cannot connect: {_of_name(error.os_error)}'
    if isinstance(error, aiohttp.ClientSSLError):
        return f'cannot connect: no TLS there ({_ssl_reason(error.os_error)})'
    return f'cannot connect: {_of_system(error.os_error)}'


def _of_name(error: OSError) -> str:
    if error.errno in _NAME_UNKNOWN:
        return 'no machine is known by this name'
    return f'the name could not be looked up: {(error.strerror or "no reason told").lower()}'


def _of_system(error: OSError) -> str:
    number = error.errno
    if number is None:  # several addresses, each with an error of its own
        return 'none of its addresses can be reached'
    return os.strerror(number).lower() if number in errno.errorcode else 'it cannot be reached'


def _ssl_reason(error: OSError) -> str:
    reason: str | None = getattr(error, 'reason', None)  # of an ssl.SSLError, where OpenSSL has told one
    return (reason or 'the connection ended').replace('_', ' ').lower()


_OK = 200
_NOT_FOUND = 404
_ASKS_FOR_OURS = 60.0
"""Seconds after which a host that has answered in nvgpu's form is asked for ours again: it may have been updated."""


class Agent:
    """Knows which form a host has answered in, and asks for that.

    :param url: Scheme, host and port.
    :param tls: None where the URL is http.
    :param clock: Tells monotonic seconds.
    """

    def __init__(
        self,
        url: str,
        token: Token | None = None,
        tls: ssl.SSLContext | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ours = URL(f'{url}/api/v1/host')
        self._nvgpus = URL(f'{url}/gpu_status')
        self.host = self._ours.raw_host or ''
        """The name that is looked up, or an address."""
        self._headers = {} if token is None else {'Authorization': f'Bearer {token.text}'}
        self._tls = tls
        self._clock = clock
        self._asked_for_ours: float | None = None
        """When, in vain, of a host that has answered in nvgpu's form; None of another."""

    async def ask(self, client: HttpClient, progress: Progress) -> HostReport:
        """Return what the host reports.

        :raises AgentError: It does not.
        """
        report = None
        if self._asked_for_ours is not None and self._clock() < self._asked_for_ours + _ASKS_FOR_OURS:
            report = await self._ask_in_nvgpus_form(client, progress)
            if report.agent == NVGPU:
                return report
            # An agent of ours has taken its place. In nvgpu's form it tells less.
        answer = await client.get(self._ours, self._headers, self._tls, progress)
        if answer.status == _OK:
            self._asked_for_ours = None
            return _read(parse_report, answer.body)
        if answer.status != _NOT_FOUND:
            raise bad_status(answer.status, answer.reason)
        report = report or await self._ask_in_nvgpus_form(client, progress)
        self._asked_for_ours = self._clock()
        return report

    async def _ask_in_nvgpus_form(self, client: HttpClient, progress: Progress) -> HostReport:
        try:
            answer = await client.get(self._nvgpus, self._headers, self._tls, progress)
            if answer.status != _OK:
                raise bad_status(answer.status, answer.reason)
            return _read(parse_nvgpu_report, answer.body)
        except AgentError:
            self._asked_for_ours = None  # another agent may run there by now
            raise


def _read(parse: Callable[[bytes], HostReport], body: bytes) -> HostReport:
    try:
        return parse(body)
    except ReportError as error:
        raise no_report(str(error)) from None
