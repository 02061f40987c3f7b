"""The URL of an agent: scheme, host and port, and nothing else."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import SplitResult, urlsplit

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
        raise UrlError(f'must hold no user and no password ({_without_secrets(parts)}): a token goes into a token_file')
    if parts.query or parts.fragment or parts.path not in {'', '/'} or given.rstrip('/').endswith(('?', '#')):
        raise UrlError(f'must end after host and port: {_without_secrets(parts)} does not')
    host = _host(parts)
    port = _port(parts)
    return (
        f'{parts.scheme}://{host}'
        if port in {None, _DEFAULT_PORTS[parts.scheme]}
        else f'{parts.scheme}://{host}:{port}'
    )


def is_on_loopback(url: str) -> bool:
    """Tell whether only this machine can read what is sent there; names other than localhost may mean anything."""
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
        raise UrlError(f'must be {ACCEPTED}; its host cannot be read') from None
    if parts.scheme not in _DEFAULT_PORTS:
        shown = f'{given[:_LONGEST_SHOWN]!r}' if '@' not in given and '?' not in given else 'what stands there'
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
