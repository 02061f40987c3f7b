"""A cluster in TOML: what is read, and what is said of what cannot be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_tracker.fleet.config.cluster import Cluster, ClusterError, ConfiguredHost, Token
from gpu_tracker.fleet.config.read import read_cluster

if TYPE_CHECKING:
    from pathlib import Path

URL = "'self' or the URL of an agent, such as 'http://node02:1080'"


class Folder:
    """A configuration and the files that it names."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / 'token').write_text('s3cret\n')
        (path / 'other.token').write_text('0ther')
        (path / 'empty').write_text('')
        (path / 'words').write_text('two words')
        (path / 'open').write_text('s3cret')
        for name in ('token', 'other.token', 'empty', 'words'):
            (path / name).chmod(0o600)
        (path / 'open').chmod(0o644)

    def read(self, text: str | bytes) -> Cluster:
        file = self.path / 'cluster.toml'
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_cluster(str(file), {})

    def error(self, text: str | bytes) -> str:
        with pytest.raises(ClusterError) as raised:
            self.read(text)
        assert 's3cret' not in str(raised.value)
        start = f'{self.path}/cluster.toml: '
        assert str(raised.value).startswith(start)
        return str(raised.value).removeprefix(start).replace(str(self.path), 'FOLDER')


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_a_whole_file(folder: Folder):
    cluster = folder.read("""
interval_seconds = 2
deadline_seconds = 0.5
token_file = 'token'
hosts = ['self', 'https://front:1080/', {url = 'https://node02', name = 'second'}]

[groups.training]
token_file = 'other.token'
hosts = ['https://node10:1080', {url = 'https://node11:1080', token_file = 'token'}]

[groups.'old machines']
insecure = true
hosts = ['http://node20:1080']
""")
    token, other = Token('s3cret'), Token('0ther')
    assert cluster == Cluster(
        (
            ConfiguredHost(None),
            ConfiguredHost('https://front:1080', token=token),
            ConfiguredHost('https://node02', 'second', token=token),
            ConfiguredHost('https://node10:1080', None, 'training', other),
            ConfiguredHost('https://node11:1080', None, 'training', token),
            ConfiguredHost('http://node20:1080', None, 'old machines', token),
        ),
        interval=2.0,
        deadline=0.5,
    )


def test_what_is_absent(folder: Folder):
    assert folder.read('') == Cluster((), 5.0, 1.5)
    assert folder.read('hosts = []\n[groups.none]\n') == Cluster((), 5.0, 1.5)
    assert folder.read("hosts = [{url = 'self', name = 'here'}]").hosts == (ConfiguredHost(None, 'here'),)


def test_a_token_is_shown_nowhere(folder: Folder):
    cluster = folder.read("hosts = ['https://node02']\ntoken_file = 'token'")
    assert cluster.hosts[0].token == Token('s3cret')
    assert 's3cret' not in f'{cluster} {cluster!r} {cluster.hosts[0].token}'


def test_a_token_goes_over_plain_http_to_this_machine_only(folder: Folder):
    for url in ('http://localhost:1080', 'http://127.0.0.1:1080', 'http://[::1]:1080'):
        assert folder.read(f"token_file = 'token'\nhosts = ['{url}']").hosts[0].token == Token('s3cret')
    assert folder.error("token_file = 'token'\nhosts = ['http://node02:1080']") == (
        "hosts: entry 1: url: 'http://node02:1080' would get a token that anybody on the way can read: "
        'use https://, or say insecure = true, or token_file = false where the agent wants no token'
    )
    insecure = "token_file = 'token'\nhosts = [{url = 'http://node02:1080', insecure = true}]"
    assert folder.read(insecure).hosts[0].token == Token('s3cret')


def test_a_token_can_be_left_out_where_there_would_be_one(folder: Folder):
    cluster = folder.read("""
token_file = 'token'
hosts = ['https://node02', {url = 'http://node03', token_file = false}]

[groups.nvgpu]
token_file = false
hosts = ['http://node10', {url = 'https://node11', token_file = 'other.token'}]
""")
    assert [host.token for host in cluster.hosts] == [Token('s3cret'), None, None, Token('0ther')]
    assert folder.read("token_file = false\nhosts = ['http://node02']").hosts[0].token is None


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ('host = []', 'host: is no key that is known here; did you mean hosts?'),
        ('intervall = 2', 'intervall: is no key that is known here; did you mean interval_seconds?'),
        (
            'zzz = 2',
            (
                'zzz: is no key that is known here; known are hosts, groups, interval_seconds, deadline_seconds, '
                'token_file, ca_file, client_cert_file, client_key_file, insecure'
            ),
        ),
        ("token = 's3cret'", 'token: is no key that is known here; did you mean token_file?'),
        (
            "hosts = [{url = 'self', token = 's3cret'}]",
            'hosts: entry 1: token: is no key that is known here; did you mean token_file?',
        ),
        (
            "[groups.a]\nhost = ['self']",
            'groups.a: host: is no key that is known here; did you mean hosts?',
        ),
        ("hosts = 'self'", f"hosts: must be a list; each entry is {URL}, or a table with this as its url, not 'self'"),
        ('hosts = [1]', f'hosts: entry 1: must be {URL}, or a table with this as its url, not 1'),
        ("hosts = [{name = 'a'}]", f'hosts: entry 1: url: is missing: it must be {URL}'),
        ('hosts = [{url = 1}]', f'hosts: entry 1: url: must be {URL}, not 1'),
        ("hosts = ['self', '']", f"hosts: entry 2: url: must be {URL}, not ''"),
        (
            "[groups.a]\nhosts = ['self', 'ftp://x']",
            f"groups.a: hosts: entry 2: url: must be {URL}, beginning with http:// or https://, not 'ftp://x'",
        ),
        (
            "hosts = ['http://me:s3cret@node02']",
            (
                "hosts: entry 1: url: must not contain a user or a password ('http://...@node02'): "
                'write a token into a token_file'
            ),
        ),
        ("hosts = [{url = 'self', name = ''}]", "hosts: entry 1: name: must be a name of its own, not ''"),
        ("hosts = ['self', {url = 'self'}]", "'self' is listed twice: remove one entry"),
        (
            "hosts = ['http://a']\n[groups.b]\nhosts = ['HTTP://A:80/']",
            "'http://a' is listed twice: remove one entry",
        ),
        (
            "hosts = [{url = 'http://a', name = 'x'}, {url = 'http://b', name = 'x'}]",
            "two hosts have the name 'x': rename one of the hosts",
        ),
        ('groups = 1', 'groups: must be tables, such as [groups.NAME], not 1'),
        ('[groups]\na = 1', "groups: must be tables, such as [groups.NAME], not 'a'"),
        ("[groups.'']\nhosts = []", "groups: must be tables, such as [groups.NAME], not ''"),
        ('interval_seconds = 0', 'interval_seconds: must be a number of seconds from 0.5 to 60, not 0'),
        ('interval_seconds = nan', 'interval_seconds: must be a number of seconds from 0.5 to 60, not nan'),
        ('interval_seconds = true', 'interval_seconds: must be a number of seconds from 0.5 to 60, not True'),
        ("interval_seconds = '5'", "interval_seconds: must be a number of seconds from 0.5 to 60, not '5'"),
        ('deadline_seconds = 61', 'deadline_seconds: must be a number of seconds from 0.1 to 60, not 61'),
        ('insecure = 1', 'insecure: must be true or false, not 1'),
        ('token_file = 1', 'token_file: must be the path of a file, or false for no token, not 1'),
        ('token_file = true', 'token_file: must be the path of a file, or false for no token, not True'),
        ('ca_file = false', 'ca_file: must be the path of a file, not False'),
        ("token_file = 'none'", 'token_file: cannot read FOLDER/none: No such file or directory'),
        (
            "token_file = 'empty'",
            'token_file: FOLDER/empty has 0 lines instead of one line with the token',
        ),
        (
            "[groups.a]\ntoken_file = 'words'",
            (
                'groups.a: token_file: the token in FOLDER/words must consist of ASCII letters, digits and '
                'punctuation, without spaces'
            ),
        ),
        (
            "token_file = 'open'",
            'token_file: other users can access FOLDER/open (mode 0644): run chmod 600',
        ),
        ("ca_file = 'none'", "ca_file: cannot read 'FOLDER/none': No such file or directory"),
        ("ca_file = 'token'", "ca_file: 'FOLDER/token' must contain certificates in PEM form"),
        ("client_key_file = 'token'", 'client_key_file: needs client_cert_file beside it'),
        ("client_cert_file = 'none'", "client_cert_file: cannot read 'FOLDER/none': No such file or directory"),
        (
            "client_cert_file = 'token'",
            "client_cert_file: 'FOLDER/token' must contain a certificate in PEM form, and its key",
        ),
        (b'\xff', 'must be a TOML file in UTF-8'),
    ],
)
def test_what_is_refused(folder: Folder, text: str | bytes, expected: str):
    assert folder.error(text) == expected


@pytest.mark.parametrize('text', ['hosts = [', 'hosts', "hosts = ['self']\nhosts = []", 'a = ' + '[' * 10_000])
def test_what_is_no_toml(folder: Folder, text: str):
    assert folder.error(text).startswith('cannot be read as TOML: ')
