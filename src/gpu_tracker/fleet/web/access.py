"""Certificates: loaded, and tried in a handshake with themselves, before anybody is served."""

from __future__ import annotations

import os
import ssl
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.errors import GpuTrackerError
from gpu_tracker.fleet.config.secret_files import check_private
from gpu_tracker.system import sockets

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpu_tracker.fleet.web.credentials import Credentials

_CERTIFICATE_MARK = b'-----BEGIN CERTIFICATE-----'
_KEY_MARK = b'PRIVATE KEY-----'
_LARGEST = 4 * 2**20
"""Bytes of a PEM file: a few times what all authorities of the web need."""


class TlsError(GpuTrackerError):
    """A file that TLS needs cannot be used; the text says which option, and why."""


class TlsFiles(NamedTuple):
    """Paths of PEM files."""

    certificate: str
    """The server's certificate, and those between it and its authority, in this order."""
    key: str | None = None
    """The server's private key; None: it is in the file of the certificate."""
    client_ca: str | None = None
    """Authorities, of whose certificates each client has to have one; None: clients need none."""


class _EncryptedKeyError(Exception):
    """Somebody would have to type a password."""


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """Return a context that serves with these files.

    :raises TlsError: One of them is missing, not readable, not what it should be, expired, or does not fit the others.
    :raises gpu_tracker.fleet.config.secret_files.SecretFileError: Others may read the private key.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    _load_certificate(context, files)
    _try(context, files.certificate)
    if files.client_ca is not None:
        _load_authorities(context, files.client_ca)
    return context


def _load_certificate(context: ssl.SSLContext, files: TlsFiles) -> None:
    _check_holds(files.certificate, '--tls-cert', _CERTIFICATE_MARK, 'certificate')
    key, option = (files.certificate, '--tls-cert') if files.key is None else (files.key, '--tls-key')
    _check_holds(key, option, _KEY_MARK, 'private key', is_secret=True)
    try:
        context.load_cert_chain(files.certificate, key, _no_password)
    except _EncryptedKeyError:
        raise TlsError(f'{option}: the key in {key} has a password: use a key without a password') from None
    except ssl.SSLError as error:
        if error.reason == 'KEY_VALUES_MISMATCH':
            raise TlsError(
                f'{option}: the key in {key} does not belong to the certificate {files.certificate}'
            ) from None
        raise TlsError(f'--tls-cert: cannot use {files.certificate} with the key in {key}: {_why(error)}') from None


def _no_password() -> str:
    raise _EncryptedKeyError


def _load_authorities(context: ssl.SSLContext, path: str) -> None:
    _check_holds(path, '--tls-client-ca', _CERTIFICATE_MARK, 'certificate')
    try:
        context.load_verify_locations(cafile=path)
    except ssl.SSLError as error:
        raise TlsError(f'--tls-client-ca: cannot use {path}: {_why(error)}') from None
    context.verify_mode = ssl.CERT_REQUIRED


def _check_holds(path: str, option: str, mark: bytes, content: str, *, is_secret: bool = False) -> None:
    """Look for what a PEM file should hold: of what is wrong with files, the ssl module tells next to nothing."""
    try:
        with open(path, 'rb') as file:
            status = os.fstat(file.fileno())
            found = mark in file.read(_LARGEST)
    except OSError as error:
        raise TlsError(f'{option}: cannot read {path}: {error.strerror}') from None
    if not found:
        raise TlsError(f'{option}: there is no {content} in PEM form in {path}')
    if is_secret:
        check_private(path, option, status)


def _try(context: ssl.SSLContext, path: str) -> None:
    """Shake hands with the certificate itself in memory, as a client would: one that has expired loads very well."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False  # by which names and addresses clients come is their affair
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # it need not have been signed by itself
    client.load_verify_locations(cafile=path)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(to_client, to_server), context.wrap_bio(to_server, to_client, server_side=True)]
    for _ in range(3):  # a flight of messages of each: TLS 1.3 needs two, TLS 1.2 three
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                pass  # the other's turn
            except ssl.SSLCertVerificationError as error:
                raise TlsError(f'--tls-cert: clients would refuse {path}: {error.verify_message}') from None
            except ssl.SSLError as error:
                raise TlsError(f'--tls-cert: no client could use {path}: {_why(error)}') from None


def _why(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).lower().replace('_', ' ')


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
    :raises gpu_tracker.fleet.config.secret_files.SecretFileError: Others may read the private key.
    :raises AccessError: Others could read without a secret, or read the secret.
    """
    addresses = tuple(sockets.addresses(host, port))
    context = server_context(tls) if tls else None
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


_SAFE = {
    '--token-file': 'agent --host={host} --make-token=token',
    '--password-file': 'dashboard --host={host} --password-file=passwords',
}
"""The command that serves other machines, by the option of its credentials."""


def _refusal(host: str, credentials: Credentials | None, option: str) -> str:
    if credentials:
        return (
            f'--host: other machines can reach {host}; what {option} holds would cross the network as plain text: '
            'give --tls-cert, or --insecure if everybody there may read which user runs what on which GPU'
        )
    return (
        f'--host: other machines can reach {host}. The safe way is:\n'
        f'  gpu-tracker {_SAFE[option].format(host=host)} --tls-cert=tls.crt --tls-key=tls.key\n'
        'With --insecure everybody there can read which user runs what on which GPU'
    )


def _warning(host: str, credentials: Credentials | None, option: str) -> str:
    if credentials:
        return f'--insecure: what {option} holds crosses the network of {host} as plain text'
    return f'--insecure: everybody who can reach {host} can read which user runs what on which GPU'
