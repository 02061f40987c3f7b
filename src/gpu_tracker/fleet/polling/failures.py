"""Why a host could not be polled, in words for people and for nvgpu's masters."""

from __future__ import annotations

import errno
import os
import socket
import ssl

import aiohttp

from gpu_tracker.fleet.hosts.nvgpu import NOT_AVAILABLE

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
    return AgentError('the name of the host is still being resolved', NOT_AVAILABLE)


def bad_status(status: int, reason: str | None) -> AgentError:
    """Return the error of a host that answers with something else than 200."""
    meaning = ': redirects are not followed' if status // 100 == _REDIRECT else _MEANINGS.get(status, '')
    words = ''.join(character for character in (reason or '')[:_MOST_CHARACTERS] if character.isprintable())
    return AgentError(f'answered {status}{meaning}', f'Bad response ({status}: {words})')


def no_report(why: str) -> AgentError:
    """Return the error of a host whose answer cannot be read as a report."""
    return AgentError(f'did not answer with a report: {why}', f'Bad response (200: {why})')


def of_connection(error: aiohttp.ClientError | OSError, *, over_tls: bool) -> AgentError:
    """Say what has happened to a connection."""
    return AgentError(_in_words(error, over_tls=over_tls), NOT_AVAILABLE)


def _in_words(error: aiohttp.ClientError | OSError, *, over_tls: bool) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        return _unconnected(error)
    if isinstance(error, aiohttp.ClientResponseError):
        return 'did not answer in HTTP'
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
