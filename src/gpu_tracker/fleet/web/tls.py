"""Certificates: loaded, and tried in a handshake with themselves, before anybody is served."""

from __future__ import annotations

import ssl
from typing import NamedTuple

from gpu_tracker.errors import GpuTrackerError

_CERTIFICATE_MARK = b'-----BEGIN CERTIFICATE-----'
_KEY_MARK = b'PRIVATE KEY-----'
_LARGEST = 4 * 2**20
"""Bytes of a PEM file: a few times what all authorities of the web need."""


class TlsError(GpuTrackerError):
    """A file that TLS needs cannot be used; the text tells which option, and why."""


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
    _check_holds(key, option, _KEY_MARK, 'private key')
    try:
        context.load_cert_chain(files.certificate, key, _no_password)
    except _EncryptedKeyError:
        raise TlsError(f'{option}: the key in {key} has a password, and nobody is there to type it') from None
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


def _check_holds(path: str, option: str, mark: bytes, content: str) -> None:
    """Look for what a PEM file should hold: of what is wrong with files, the ssl module tells next to nothing."""
    try:
        with open(path, 'rb') as file:
            found = mark in file.read(_LARGEST)
    except OSError as error:
        raise TlsError(f'{option}: cannot read {path}: {error.strerror}') from None
    if not found:
        raise TlsError(f'{option}: there is no {content} in PEM form in {path}')


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
