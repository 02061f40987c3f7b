"""A cluster: the hosts that are asked, by the URLs of their agents, with their tokens and TLS files."""

from __future__ import annotations

import ipaddress
import re
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import SplitResult, urlsplit

from gpu_tracker.errors import GpuTrackerError

if TYPE_CHECKING:
    from collections.abc import Iterable

ACCEPTED = "'self' or the URL of an agent, such as 'http://node02:1080'"

_DEFAULT_PORTS = {'http': 80, 'https': 443}
_NAME = re.compile(r'[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*\.?')
_LONGEST_NAME = 253
_LONGEST_SHOWN = 100


class UrlError(Exception):
    """A URL cannot be used; the text says why, and shows neither credentials nor what could be a token."""


def agent_url(given: str) -> str:
    """Return a URL in the one form in which it is compared: in lower case, without a slash at its end or default port.

    :raises UrlError: It is none, or has parts that the URL of an agent has not.
    """
    parts = _split(given)
    if parts.username is not None or parts.password is not None:
        raise UrlError(
            f'must not contain a user or a password ({_without_secrets(parts)}): write a token into a token_file'
        )
    if parts.query or parts.fragment or parts.path not in {'', '/'} or given.rstrip('/').endswith(('?', '#')):
        raise UrlError(f'must have nothing after host and port, not {_without_secrets(parts)}')
    host = _host(parts)
    port = _port(parts)
    return (
        f'{parts.scheme}://{host}'
        if port in {None, _DEFAULT_PORTS[parts.scheme]}
        else f'{parts.scheme}://{host}:{port}'
    )


def is_on_loopback(url: str) -> bool:
    """Return whether only this machine can read what is sent there; names other than localhost may mean anything."""
    host = urlsplit(url).hostname or ''
    if host in {'localhost', 'localhost.'}:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a name


def _split(given: str) -> SplitResult:
    # urlsplit drops new lines and tabs, and a URL with blanks is a list of several or a mistake.
    if not given.isprintable() or ' ' in given or '\\' in given:
        raise UrlError(f'must be {ACCEPTED}, without blanks and control characters')
    try:
        parts = urlsplit(given)
    except ValueError:  # brackets without an IPv6 address in them
        raise UrlError(f'must be {ACCEPTED}, with a valid host') from None
    if parts.scheme not in _DEFAULT_PORTS:
        shown = f'{given[:_LONGEST_SHOWN]!r}' if '@' not in given and '?' not in given else 'the given value'
        raise UrlError(f'must be {ACCEPTED}, beginning with http:// or https://, not {shown}')
    return parts


def _host(parts: SplitResult) -> str:
    host = parts.hostname or ''
    if parts.netloc.startswith('['):
        try:
            return f'[{ipaddress.IPv6Address(host)}]'
        except ValueError:
            raise UrlError(f'must have an IPv6 address between the brackets, not {host!r}') from None
    if len(host) > _LONGEST_NAME or not _NAME.fullmatch(host):
        raise UrlError(f'must have a host name or an address after {parts.scheme}://, not {host[:_LONGEST_SHOWN]!r}')
    # A name whose end is a number is an address by the rules of URLs, in a form that few programs take alike.
    if re.fullmatch('[0-9]+|0x[0-9a-f]*', host.rstrip('.').rpartition('.')[2]):
        try:
            return str(ipaddress.IPv4Address(host))
        except ValueError:
            raise UrlError(f'must have an IPv4 address as four numbers, not {host[:_LONGEST_SHOWN]!r}') from None
    return host


def _port(parts: SplitResult) -> int | None:
    text = parts.netloc.rpartition(']')[2].partition(':')[2]
    try:
        port = parts.port
    except ValueError:  # not a number, or one beyond 65535
        port = 0
    if port == 0:
        raise UrlError(f'must have a port from 1 to 65535, not {text[:_LONGEST_SHOWN]!r}')
    return port


def _without_secrets(parts: SplitResult) -> str:
    """Return the URL without user, password, query and fragment, any of which may hold a secret."""
    place = parts.netloc.rpartition('@')
    hidden = '?...' if parts.query else ''
    return f"'{parts.scheme}://{'...@' if place[1] else ''}{place[2]}{parts.path}{hidden}'"


SELF = 'self'
"""Stands for this machine, which is looked at without HTTP."""

INTERVAL = 5.0
DEADLINE = 1.5
INTERVALS = (0.5, 60.0)
DEADLINES = (0.1, 60.0)
"""Seconds, from and to. What is known of a host is not told to be old before it is asked again: that must be soon."""


class ClusterError(GpuTrackerError):
    """A file cannot be used; the text names the file, the place in it, what stands there and what is accepted."""


@dataclass(frozen=True, slots=True)
class Token:
    """A secret that an agent wants to see; it is never part of a text by accident."""

    text: str = field(repr=False)


class TlsFiles(NamedTuple):
    """Paths of PEM files; None: what the system trusts, and no client certificate."""

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    """None: it stands in the file of the certificate."""


class ConfiguredHost(NamedTuple):
    """A host that is asked."""

    url: str | None
    """Scheme, host and port, as in ``http://node02:1080``; None: this machine."""
    name: str | None = None
    """None: as it calls itself."""
    group: str | None = None
    token: Token | None = None
    tls: TlsFiles = TlsFiles()

    @property
    def place(self) -> str:
        """Host and port of its URL."""
        return SELF if self.url is None else self.url.partition('://')[2]

    @property
    def label(self) -> str:
        """What the host is called as long as it has not told its name."""
        return self.name or self.place


class Cluster(NamedTuple):
    """All hosts, in order."""

    hosts: tuple[ConfiguredHost, ...]
    interval: float = INTERVAL
    """Seconds between two rounds."""
    deadline: float = DEADLINE
    """Seconds in which all of a round have to answer."""


ONLY_THIS_MACHINE = Cluster((ConfiguredHost(None),))


def accepted_seconds(limits: tuple[float, float]) -> str:
    """Return in words which numbers of seconds are accepted."""
    return f'a number of seconds from {limits[0]:g} to {limits[1]:g}'


def check_distinct(path: str, hosts: Iterable[ConfiguredHost]) -> None:
    """Refuse what is there twice.

    :raises ClusterError: Two hosts have the same URL or the same name.
    """
    urls: set[str] = set()
    names: set[str] = set()
    for host in hosts:
        url = host.url or SELF
        if url in urls:
            raise ClusterError(f'{path}: {url!r} is listed twice: remove one entry')
        urls.add(url)
        if host.name is not None and host.name in names:
            raise ClusterError(f'{path}: two hosts have the name {host.name!r}: rename one of the hosts')
        names.add(host.name or '')


def tls_context(files: TlsFiles) -> ssl.SSLContext:
    """Return a context that checks certificate and host name of an agent, and shows the client certificate if any.

    :raises ClusterError: A file cannot be read or holds something else.
    """
    context = ssl.create_default_context()
    if files.ca is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts nobody else
        _load_ca(context, files.ca)
    if files.certificate is not None:
        _load_certificate(context, files.certificate, files.key)
    return context


def _load_ca(context: ssl.SSLContext, path: str) -> None:
    try:
        context.load_verify_locations(path)
    except ssl.SSLError:
        raise ClusterError(f'ca_file: {path!r} must contain certificates in PEM form') from None
    except OSError as error:
        raise ClusterError(f'ca_file: cannot read {path!r}: {error.strerror}') from None


def _load_certificate(context: ssl.SSLContext, certificate: str, key: str | None) -> None:
    for option, path in (('client_cert_file', certificate), ('client_key_file', key)):
        try:
            if path is not None:
                with open(path, 'rb'):
                    pass
        except OSError as error:
            raise ClusterError(f'{option}: cannot read {path!r}: {error.strerror}') from None

    def no_password() -> str:
        raise ClusterError(f'client_key_file: {key or certificate!r} must contain a key that is not encrypted')

    try:
        context.load_cert_chain(certificate, key, no_password)
    except ssl.SSLError:
        place = 'its key' if key is None else f'client_key_file {key!r} its key'
        raise ClusterError(
            f'client_cert_file: {certificate!r} must contain a certificate in PEM form, and {place}'
        ) from None
