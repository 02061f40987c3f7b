"""The configuration files that the documentation shows are read as they stand there."""

import re
import textwrap
from pathlib import Path

from gpu_tracker.fleet.config.toml_file import read_toml_file
from support.fleet.web_certificates import Authority

PAGE = (Path(__file__).parents[3] / 'docs' / 'fleet.rst').read_text()
TOML = [
    textwrap.dedent(block) for block in re.findall(r'^\.\. code-block:: toml\n((?:\n| {3}.*\n)+)', PAGE, re.MULTILINE)
]


def test_the_first_file_names_three_hosts(tmp_path):
    cluster = read_toml_file(str(tmp_path / 'dashboard.toml'), TOML[0].encode())
    assert [host.url for host in cluster.hosts] == [None, 'http://node01:1080', 'http://node02:1080']


def test_the_second_file_has_every_key(tmp_path):
    authority = Authority(tmp_path)
    authority.signed('client')
    (tmp_path / 'token').write_text('0123456789abcdef\n')
    (tmp_path / 'token').chmod(0o600)
    (tmp_path / 'token-of-speech').write_text('fedcba9876543210\n')
    (tmp_path / 'token-of-speech').chmod(0o600)
    cluster = read_toml_file(str(tmp_path / 'dashboard.toml'), TOML[1].encode())
    assert (cluster.interval, cluster.deadline) == (5.0, 1.5)
    assert [(host.url, host.name, host.group, host.token and host.token.text) for host in cluster.hosts] == [
        ('https://node02:1080', None, 'vision', '0123456789abcdef'),
        ('https://node03:1080', None, 'vision', '0123456789abcdef'),
        ('https://node04:1080', 'loud', 'speech', 'fedcba9876543210'),
        ('http://old:1080', None, 'speech', None),
    ]
