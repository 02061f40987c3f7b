"""The TLS that an agent is asked over."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from gpu_tracker.fleet.config.cluster import ClusterError

if TYPE_CHECKING:
    from gpu_tracker.fleet.config.cluster import TlsFiles


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
        raise ClusterError(f'ca_file: {path!r} must hold certificates in PEM form') from None
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
        raise ClusterError(f'client_key_file: {key or certificate!r} must hold a key that is not encrypted')

    try:
        context.load_cert_chain(certificate, key, no_password)
    except ssl.SSLError:
        place = 'its key' if key is None else f'client_key_file {key!r} its key'
        raise ClusterError(
            f'client_cert_file: {certificate!r} must hold a certificate in PEM form, and {place}'
        ) from None
