"""What a client has to know, compared so that the time it takes tells nothing."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_BASIC_CHALLENGE = b'Basic realm="gpu-tracker", charset="UTF-8"'
_BEARER_CHALLENGE = b'Bearer realm="gpu-tracker"'


class Credentials(Protocol):
    """Decides who may read."""

    @property
    def challenges(self) -> tuple[bytes, ...]:
        """Each a value of ``WWW-Authenticate`` for those who may not, RFC 9110."""

    def accepts(self, authorization: bytes | None) -> bool:
        """Return whether the value of an ``Authorization`` header, None where there was none, is good; never raises."""


class Token:
    """One secret for all: ``Authorization: Bearer``, or Basic with any name, so that a browser can send it too."""

    challenges = (_BEARER_CHALLENGE, _BASIC_CHALLENGE)

    def __init__(self, token: str) -> None:
        self._token = _Secrets([token.encode()])

    def accepts(self, authorization: bytes | None) -> bool:
        """Return whether the header holds the token; never raises."""
        scheme, value = _scheme_and_value(authorization)
        if scheme == b'bearer':
            return self._token.contain(value)
        if scheme == b'basic':
            _, colon, password = _decoded(value).partition(b':')
            return bool(colon) and self._token.contain(password)
        return False


class Passwords:
    """Names and their passwords: HTTP Basic, RFC 7617, in UTF-8.

    :param passwords: By name, which has no colon.
    """

    challenges = (_BASIC_CHALLENGE,)

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._pairs = _Secrets(f'{name}:{password}'.encode() for name, password in passwords.items())

    def accepts(self, authorization: bytes | None) -> bool:
        """Return whether the header holds one of the names and its password; never raises."""
        scheme, value = _scheme_and_value(authorization)
        return scheme == b'basic' and self._pairs.contain(_decoded(value))


class _Secrets:
    """Some texts, kept and compared as hashes under a key that nobody knows: equal lengths, and nothing to guess by."""

    def __init__(self, texts: Iterable[bytes]) -> None:
        self._key = secrets.token_bytes(32)
        self._hashes = [self._hash(text) for text in texts]

    def contain(self, text: bytes) -> bool:
        """Return whether the text is one of them, having compared it with each."""
        given = self._hash(text)
        return sum(hmac.compare_digest(given, known) for known in self._hashes) > 0

    def _hash(self, text: bytes) -> bytes:
        return hmac.digest(self._key, text, hashlib.sha256)


def _scheme_and_value(authorization: bytes | None) -> tuple[bytes, bytes]:
    """Return the scheme in lower case, and what follows."""
    scheme, _, value = (authorization or b'').strip().partition(b' ')
    return scheme.lower(), value.strip()


def _decoded(value: bytes) -> bytes:
    """Return what base64 stands for; nothing where it is none."""
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return b''
