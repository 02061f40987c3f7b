"""Reads tokens and passwords from files that only their owner may read.

As ssh does with private keys: a file of this user's own that others may read is refused; what belongs to somebody else,
such as a secret that systemd or a container's engine puts there, is that owner's affair.
"""

from __future__ import annotations

import os
import secrets
import stat
import sys

from gpu_tracker.errors import GpuTrackerError

SHORTEST_TOKEN = 16
"""Characters of a token that clients have to know: what is shorter could be found by trying."""

SHORTEST_PASSWORD = 8
"""Characters of a person's password."""

_LARGEST = 2**20
"""Bytes of a file."""
_HASHES = ('$', '{SHA}')
"""How the hashes begin that htpasswd writes in place of passwords."""


class SecretFileError(GpuTrackerError):
    """A file of secrets cannot be used; the text says which option, which line and why, and never the secret."""


def read_token(path: str, option: str = '--token-file', shortest: int = SHORTEST_TOKEN) -> str:
    """Return the token that is the only line of a file.

    :param option: The option or the key that names the file.
    :param shortest: Characters that it must have.
    :raises SecretFileError: It cannot be read, others may read it, or what it holds is no token.
    """
    lines = _read(path, option).splitlines()
    if len(lines) != 1:
        raise SecretFileError(f'{option}: {path} has {len(lines)} lines instead of one line with the token')
    token = lines[0].strip()
    if not (token.isascii() and token.isprintable()) or ' ' in token:
        raise SecretFileError(
            f'{option}: the token in {path} must consist of ASCII letters, digits and punctuation, without spaces'
        )
    if len(token) < shortest:
        raise SecretFileError(
            f'{option}: the token in {path} has {len(token)} characters, but needs {shortest} or more. '
            'Make a token with "openssl rand -hex 32"'
        )
    return token


def make_token(path: str, option: str) -> None:
    """Make a file with a new token that only its owner may read, unless there is something of that name.

    :param option: The option that names the file.
    :raises SecretFileError: It cannot be made.
    """
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), 'w', encoding='ascii') as file:
            file.write(f'{secrets.token_hex(32)}\n')
    except FileExistsError:
        pass
    except OSError as error:
        raise SecretFileError(f'{option}: cannot make {path}: {error.strerror}') from None


def read_passwords(path: str, option: str = '--password-file') -> dict[str, str]:
    """Return passwords by name from the lines ``name:password`` of a file; lines that begin with ``#`` are comments.

    :raises SecretFileError: It cannot be read, others may read it, or a line is none of these.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(_read(path, option).splitlines(), 1):
        if not line.strip() or line.startswith('#'):
            continue
        name, colon, password = line.partition(':')
        problem = _problem(name, colon, password)
        if name in found:
            problem = 'the same name again'
        if problem:
            raise SecretFileError(f'{option}: {path}, line {number}: {problem}')
        found[name] = password
    if not found:
        raise SecretFileError(f'{option}: {path} has no line of the form name:password')
    return found


def _problem(name: str, colon: str, password: str) -> str | None:
    """Return what is wrong with a line, if anything is."""
    if not (name and colon and password):
        return 'not name:password'
    if not (name + password).isprintable():
        return 'a character that cannot be typed'
    if name != name.strip() or password != password.strip():
        return 'a blank at the beginning or the end of the name or the password'
    if password.startswith(_HASHES):
        return 'the password looks like a hash that htpasswd makes; passwords stand here as they are typed'
    if len(password) < SHORTEST_PASSWORD:
        return f'the password has {len(password)} characters; it needs {SHORTEST_PASSWORD} or more'
    return None


def _read(path: str, option: str) -> str:
    try:
        with open(path, 'rb') as file:
            check_private(path, option, os.fstat(file.fileno()))
            return file.read(_LARGEST).decode('utf-8-sig')  # some editors put a mark in front
    except OSError as error:
        raise SecretFileError(f'{option}: cannot read {path}: {error.strerror}') from None
    except UnicodeDecodeError:
        raise SecretFileError(f'{option}: {path} is not UTF-8 text') from None


def check_private(path: str, option: str, found: os.stat_result) -> None:
    """Refuse a file of this user's own that others may read or write.

    :param option: The option or the key that names the file.
    :raises SecretFileError: It is one.
    """
    for_others = stat.S_IRWXG | stat.S_IRWXO
    if sys.platform != 'win32' and found.st_uid == os.geteuid() and found.st_mode & for_others:
        mode = stat.S_IMODE(found.st_mode)
        raise SecretFileError(f'{option}: other users can access {path} (mode {mode:04o}): run chmod 600')
