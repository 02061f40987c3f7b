"""Which Prometheus to ask, and with which credentials, out of what somebody has written."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from gpu_tracker.errors import GpuTrackerError, ParameterError
from gpu_tracker.fleet.config.cluster import ClusterError, TlsFiles
from gpu_tracker.fleet.config.secret_files import read_token
from gpu_tracker.fleet.config.tls_context import tls_context

if TYPE_CHECKING:
    import ssl

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
            raise ParameterError('--prometheus', _shown(url), 'a URL without user and password where there is a token')
        authorization = f'Bearer {read_token(token_file, "--prometheus-token-file", shortest=1)}'
    if ca_file is not None and parts.scheme != 'https':
        raise ParameterError('--prometheus', _shown(url), 'an https URL where there is a certificate authority')
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
