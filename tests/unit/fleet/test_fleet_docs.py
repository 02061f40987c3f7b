"""The first configuration file of docs/fleet.rst; the second one needs certificates, see tests/clients."""

import re
import textwrap
from pathlib import Path

from gpu_tracker.fleet.config.toml_file import read_toml_file

PAGE = (Path(__file__).parents[3] / 'docs' / 'fleet.rst').read_text()
TOML = [
    textwrap.dedent(block) for block in re.findall(r'^\.\. code-block:: toml\n((?:\n| {3}.*\n)+)', PAGE, re.MULTILINE)
]


def test_the_first_file_names_three_hosts(tmp_path):
    cluster = read_toml_file(str(tmp_path / 'dashboard.toml'), TOML[0].encode())
    assert [host.url for host in cluster.hosts] == [None, 'http://node01:1080', 'http://node02:1080']
