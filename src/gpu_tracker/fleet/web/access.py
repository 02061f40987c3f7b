"""Who may reach a server: where it listens, what clients must know, and the rule that binds the two."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker import sockets
from gpu_tracker.errors import GpuTrackerError
from gpu_tracker.fleet.web import tls as tls_files

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable

    from gpu_tracker.fleet.web.credentials import Credentials
    from gpu_tracker.fleet.web.tls import TlsFiles


class AccessError(GpuTrackerError):
    """The server would be open to those who should not read."""


class Access(NamedTuple):
    """Where to listen and whom to answer, checked by :func:`check_access`."""

    addresses: tuple[sockets.Address, ...]
    credentials: Credentials | None = None
    """None: everybody who reaches the server may read."""
    tls: ssl.SSLContext | None = None
    server_names: frozenset[str] = frozenset()
    """What the server is called, beside this machine's own names."""
    warnings: tuple[str, ...] = ()
    """What the user should know of how open it is."""

    @property
    def scheme(self) -> str:
        """The first part of this server's URLs."""
        return 'https' if self.tls else 'http'


def check_access(
    *,
    host: str,
    port: int,
    credentials: Credentials | None = None,
    credentials_option: str = '--token-file',
    tls: TlsFiles | None = None,
    server_names: Iterable[str] = (),
    insecure: bool = False,
) -> Access:
    """Return how to serve as the options say.

    Anything but loopback needs credentials over TLS, or client certificates, or ``insecure``. A name stands for
    loopback only if all its addresses do.

    :param host: A name or an address of this machine's.
    :param credentials_option: Which option gives credentials here.
    :raises ParameterError: The host is none of this machine's, or a TLS file cannot be used.
    :raises AccessError: Others could read without a secret, or read the secret.
    """
    addresses = tuple(sockets.addresses(host, port))
    context = tls_files.server_context(tls) if tls else None
    certificates = tls is not None and tls.client_ca is not None
    warnings: tuple[str, ...] = ()
    open_to = reachable_address(addresses)
    if open_to is not None and not certificates and not (credentials and context):
        if not insecure:
            raise AccessError(_refusal(open_to, credentials, credentials_option))
        warnings = (_warning(open_to, credentials, credentials_option),)
    names = frozenset(server_names) | {host}
    return Access(addresses, credentials, context, names, warnings)


def reachable_address(addresses: Iterable[sockets.Address]) -> str | None:
    """Return an address that other machines can reach, None where all are loopback."""
    return next((address.host for address in addresses if not address.is_loopback), None)


def _refusal(host: str, credentials: Credentials | None, option: str) -> str:
    if credentials:
        why = f'what {option} holds would cross the network as plain text: give --tls-cert'
    else:
        why = f'give {option} and --tls-cert, or --tls-client-ca and --tls-cert'
    return (
        f'--host: other machines can reach {host}; {why}, or --insecure if everybody there may read '
        'which user runs what on which GPU'
    )


def _warning(host: str, credentials: Credentials | None, option: str) -> str:
    if credentials:
        return f'--insecure: what {option} holds crosses the network of {host} as plain text'
    return f'--insecure: everybody who can reach {host} can read which user runs what on which GPU'
