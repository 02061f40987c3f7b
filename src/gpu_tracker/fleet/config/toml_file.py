"""A table of a TOML file whose values are checked one by one, so that each error names its key."""

from __future__ import annotations

import difflib
import os
import tomllib
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.fleet.config.cluster import (
    ACCEPTED,
    DEADLINE,
    DEADLINES,
    INTERVAL,
    INTERVALS,
    SELF,
    Cluster,
    ClusterError,
    ConfiguredHost,
    TlsFiles,
    Token,
    UrlError,
    accepted_seconds,
    agent_url,
    check_distinct,
    is_on_loopback,
    tls_context,
)
from gpu_tracker.fleet.config.secret_files import SecretFileError, read_token

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_LONGEST_SHOWN = 100


class Table:
    """A table; a key that it must not have is an error.

    :param place: Where it stands, as errors name it; empty: the file itself.
    :param values: What it holds.
    :param keys: The keys that it may have.
    :raises ClusterError: It has another one.
    """

    def __init__(self, place: str, values: Mapping[str, object], keys: Sequence[str]) -> None:
        self._place = place
        self._values = values
        for key in values:
            if key not in keys:
                near = difflib.get_close_matches(key, keys, 1)
                meant = f'did you mean {near[0]}?' if near else f'known are {", ".join(keys)}'
                raise self.error(key, f'is no key that is known here; {meant}')

    @property
    def own_name(self) -> str:
        """The last part of its place."""
        return self._place.partition('.')[2]

    def error(self, key: str, text: str) -> ClusterError:
        """Return an error that names the key."""
        return ClusterError(': '.join(part for part in (self._place, key, text) if part))

    def has(self, key: str) -> bool:
        """Return whether the key is there."""
        return key in self._values

    def is_false(self, key: str) -> bool:
        """Return whether the key is there and false, which switches off what would hold else."""
        return self._values.get(key) is False

    def text(self, key: str, accepted: str) -> str | None:
        """Return a text that is not empty; None: the key is not there."""
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise self._refused(key, accepted, value)
        return value

    def flag(self, key: str) -> bool | None:
        """Return true or false; None: the key is not there."""
        value = self._values.get(key)
        if value is not None and not isinstance(value, bool):
            raise self._refused(key, 'true or false', value)
        return value

    def seconds(self, key: str, limits: tuple[float, float], default: float) -> float:
        """Return a number of seconds within limits."""
        value = self._values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not limits[0] <= value <= limits[1]:
            raise self._refused(key, accepted_seconds(limits), value)
        return float(value)

    def tables(self, key: str, keys: Sequence[str]) -> Iterator[Table]:
        """Return the tables of a table, each with a name that one may choose."""
        groups = self._values.get(key, {})
        if not isinstance(groups, dict):
            raise self._refused(key, f'tables, such as [{key}.NAME]', groups)
        for name, values in groups.items():
            if not isinstance(values, dict) or not name.strip() or not name.isprintable():
                raise self._refused(key, f'tables, such as [{key}.NAME]', name)
            yield Table(f'{key}.{name}', values, keys)

    def entries(self, key: str, keys: Sequence[str], accepted: str) -> Iterator[Table]:
        """Return the entries of a list, a text standing for a table that has nothing but the first of ``keys``."""
        entries = self._values.get(key, [])
        if not isinstance(entries, list):
            raise self._refused(key, f'a list; each entry is {accepted}', entries)
        for number, entry in enumerate(entries, 1):
            place = ': '.join(part for part in (self._place, key, f'entry {number}') if part)
            if not isinstance(entry, str | dict):
                raise self._refused(f'{key}: entry {number}', accepted, entry)
            yield Table(place, {keys[0]: entry} if isinstance(entry, str) else entry, keys)

    def _refused(self, key: str, accepted: str, value: object) -> ClusterError:
        shown = repr(value)
        if '@' in shown or '?' in shown:
            shown = 'what stands there'  # a URL with a password or a token in it
        elif len(shown) > _LONGEST_SHOWN:
            shown = f'{shown[:_LONGEST_SHOWN]}...'
        return self.error(key, f'must be {accepted}, not {shown}')


OF_ACCESS = ('token_file', 'ca_file', 'client_cert_file', 'client_key_file', 'insecure')
"""Keys of a host; in a group they hold for its hosts, and at the top for all, unless these have their own.

``token_file = false`` is to have no token where there would be one, as for an agent of nvgpu beside others.
"""
OF_HOST = ('url', 'name', *OF_ACCESS)
OF_GROUP = ('hosts', *OF_ACCESS)
OF_FILE = ('hosts', 'groups', 'interval_seconds', 'deadline_seconds', *OF_ACCESS)


def read_toml_file(path: str, content: bytes) -> Cluster:
    """Return the cluster that a file describes; paths in it are relative to its folder.

    :param path: Its name in errors.
    :raises ClusterError: It is no TOML, or something in it cannot be used; the text names the key.
    """
    try:
        values = tomllib.loads(content.decode())
    except UnicodeDecodeError:
        raise ClusterError(f'{path}: must be a TOML file in UTF-8') from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ClusterError(f'{path}: cannot be read as TOML: {error}') from None
    try:
        cluster = _cluster(Table('', values, OF_FILE), os.path.dirname(path))
    except ClusterError as error:
        raise ClusterError(f'{path}: {error}') from None
    check_distinct(path, cluster.hosts)
    return cluster


class _Access(NamedTuple):
    """How to get into agents."""

    token: Token | None = None
    tls: TlsFiles = TlsFiles()
    insecure: bool = False


def _cluster(file: Table, folder: str) -> Cluster:
    access = _access(file, folder, _Access())
    hosts = [*_hosts(file, folder, access, None)]
    for group in file.tables('groups', OF_GROUP):
        hosts += _hosts(group, folder, _access(group, folder, access), group.own_name)
    return Cluster(
        tuple(hosts),
        file.seconds('interval_seconds', INTERVALS, INTERVAL),
        file.seconds('deadline_seconds', DEADLINES, DEADLINE),
    )


def _hosts(parent: Table, folder: str, access: _Access, group: str | None) -> Iterator[ConfiguredHost]:
    for entry in parent.entries('hosts', OF_HOST, f'{ACCEPTED}, or a table with this as its url'):
        yield _host(entry, _access(entry, folder, access), group)


def _host(entry: Table, access: _Access, group: str | None) -> ConfiguredHost:
    given = entry.text('url', ACCEPTED)
    if given is None:
        raise entry.error('url', f'is missing: it must be {ACCEPTED}')
    name = entry.text('name', 'a name of its own')
    if given == SELF:
        return ConfiguredHost(None, name, group)
    try:
        url = agent_url(given)
    except UrlError as error:
        raise entry.error('url', str(error)) from None
    if access.token is not None and url.startswith('http:') and not (access.insecure or is_on_loopback(url)):
        raise entry.error(
            'url',
            f'{url!r} would get a token that anybody on the way can read: use https://, or say insecure = true, '
            'or token_file = false where the agent wants no token',
        )
    return ConfiguredHost(url, name, group, access.token, access.tls if url.startswith('https:') else TlsFiles())


def _access(of: Table, folder: str, inherited: _Access) -> _Access:
    """Return what a table says of access, and where it says nothing what is ``inherited``."""
    access = inherited
    token_file = None
    if of.is_false('token_file'):
        access = access._replace(token=None)
    else:
        token_file = _path(of, 'token_file', folder, 'the path of a file, or false for no token')
    if token_file is not None:
        try:
            access = access._replace(token=Token(read_token(token_file, 'token_file', shortest=1)))
        except SecretFileError as error:
            raise of.error('', str(error)) from None
    insecure = of.flag('insecure')
    return access._replace(
        insecure=access.insecure if insecure is None else insecure, tls=_tls(of, folder, inherited.tls)
    )


def _tls(of: Table, folder: str, inherited: TlsFiles) -> TlsFiles:
    if not any(of.has(key) for key in ('ca_file', 'client_cert_file', 'client_key_file')):
        return inherited
    tls = inherited
    if of.has('ca_file'):
        tls = tls._replace(ca=_path(of, 'ca_file', folder))
    if of.has('client_cert_file'):
        tls = tls._replace(certificate=_path(of, 'client_cert_file', folder), key=None)
    if of.has('client_key_file'):
        tls = tls._replace(key=_path(of, 'client_key_file', folder))
    if tls.certificate is None and tls.key is not None:
        raise of.error('client_key_file', 'needs client_cert_file beside it')
    try:
        tls_context(tls)
    except ClusterError as error:
        raise of.error('', str(error)) from None
    return tls


def _path(of: Table, key: str, folder: str, accepted: str = 'the path of a file') -> str | None:
    path = of.text(key, accepted)
    return None if path is None else os.path.join(folder, os.path.expanduser(path))
