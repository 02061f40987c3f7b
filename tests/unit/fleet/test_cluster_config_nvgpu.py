"""nvgpu's file with AGENTS: read as literals, never executed."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_tracker.fleet.config.cluster import ClusterError
from gpu_tracker.fleet.config.nvgpu_file import read_nvgpu_file
from gpu_tracker.fleet.config.read import read_cluster

EXAMPLE = "AGENTS = ['self', 'http://node02:1080']"


def urls(text: str) -> list[str | None]:
    return [host.url for host in read_nvgpu_file('agents.cfg', text.encode()).hosts]


def error(text: str | bytes) -> str:
    with pytest.raises(ClusterError) as raised:
        read_nvgpu_file('agents.cfg', text if isinstance(text, bytes) else text.encode())
    return str(raised.value)


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ('', [None]),
        ('# nothing\n', [None]),
        ('DEBUG = True\n', [None]),
        ("agents = ['http://node02:1080']\n", [None]),
        ('AGENTS = []', []),
        ('AGENTS = ()', []),
        ("AGENTS = ['self']", [None]),
        (
            "AGENTS = [\n    'self',  # here\n    'http://node02:1080/',\n    'https://node03',\n]\n",
            [None, 'http://node02:1080', 'https://node03'],
        ),
        ("AGENTS = ('http://NODE02:80',)", ['http://node02']),
        ("AGENTS: list[str] = ['http://10.0.0.2:1080']", ['http://10.0.0.2:1080']),
        ("AGENTS = HOSTS = ['http://[::1]:1080']", ['http://[::1]:1080']),
        ("AGENTS = ['http://node' '02:1080']", ['http://node02:1080']),
        ("AGENTS = ['self']\nAGENTS = []", []),
        ("'''The cluster.'''\nSECRET_KEY = open('/etc/passwd').read()\nAGENTS = ['self']", [None]),
        ("PATTERN = '\\d'\nAGENTS = []", []),
        ("\ufeffAGENTS = ['self']", [None]),
    ],
)
def test_what_is_read(text: str, expected: list[str | None]):
    assert urls(text) == expected


def test_nothing_is_executed(tmp_path: Path):
    trap = tmp_path / 'executed'
    for text in (
        f'X = open({str(trap)!r}, "w")\nAGENTS = []',
        f'AGENTS = [open({str(trap)!r}, "w")]',
        f'import os\nos.mknod({str(trap)!r})',
    ):
        try:
            read_nvgpu_file('agents.cfg', text.encode())
        except ClusterError:
            pass  # refused, which is right for some of them
    assert not trap.exists()


NEVER = f'the file is never executed, so that only {EXAMPLE} is accepted'
ENTRY = "an entry of AGENTS must be 'self' or the URL of an agent, such as 'http://node02:1080', in quotes"


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ('import os\nAGENTS = []', f"agents.cfg:1: 'import os': {NEVER}"),
        ("AGENTS = []\nAGENTS += ['self']", f"""agents.cfg:2: "AGENTS += ['self']": {NEVER}"""),
        ("AGENTS = []\nAGENTS.append('self')", f"""agents.cfg:2: "AGENTS.append('self')": {NEVER}"""),
        ('if True:\n    AGENTS = []', f"agents.cfg:1: 'if True:': {NEVER}"),
        ('AGENTS, X = [], 1', f"agents.cfg:1: 'AGENTS, X = [], 1': AGENTS is assigned alone and as a whole: {EXAMPLE}"),
        ('AGENTS[0] = 1', f"agents.cfg:1: 'AGENTS[0] = 1': AGENTS is assigned alone and as a whole: {EXAMPLE}"),
        (
            "AGENTS = 'self'",
            f"""agents.cfg:1: "AGENTS = 'self'": AGENTS must be a list of texts in quotes: {EXAMPLE}""",
        ),
        ('AGENTS = None', f"agents.cfg:1: 'AGENTS = None': AGENTS must be a list of texts in quotes: {EXAMPLE}"),
        (
            "AGENTS = {'self'}",
            f"""agents.cfg:1: "AGENTS = {{'self'}}": AGENTS must be a list of texts in quotes: {EXAMPLE}""",
        ),
        (
            "X = 1\nAGENTS = ['a'] + ['b']",
            f"""agents.cfg:2: "AGENTS = ['a'] + ['b']": AGENTS must be a list of texts in quotes: {EXAMPLE}""",
        ),
        ("AGENTS = [\n  'self',\n  node(2),\n]", f"agents.cfg:3: 'node(2),': {ENTRY}"),
        ('AGENTS = [1]', f"agents.cfg:1: 'AGENTS = [1]': {ENTRY}"),
        ("AGENTS = [b'self']", f"""agents.cfg:1: "AGENTS = [b'self']": {ENTRY}"""),
        ("AGENTS = [f'http://{host}' for host in HOSTS]", None),
        ('AGENTS = [*OTHERS]', f"agents.cfg:1: 'AGENTS = [*OTHERS]': {ENTRY}"),
        ("AGENTS = ['self', 'self']", "agents.cfg: 'self' is listed twice: remove one entry"),
        (
            "AGENTS = ['http://a:1080', 'http://A:1080/']",
            "agents.cfg: 'http://a:1080' is listed twice: remove one entry",
        ),
        (
            "AGENTS = [\n'node02:1080']",
            (
                "agents.cfg:2: an entry of AGENTS must be 'self' or the URL of an agent, such as 'http://node02:1080', "
                "beginning with http:// or https://, not 'node02:1080'"
            ),
        ),
        ('AGENTS = [', f"agents.cfg:1: cannot be read: '[' was never closed; write {EXAMPLE}"),
        (b'AGENTS = [\0]', None),
        (b'\xff', None),
        ('AGENTS = ' + '[' * 5000, None),
        ('AGENTS = [' + '-' * 100_000 + '1]', None),
        ('AGENTS = [' + '+'.join('1' * 20_000) + ']', None),
    ],
)
def test_what_is_refused(text: str | bytes, expected: str | None):
    told = error(text)
    assert told.startswith('agents.cfg')
    if expected is not None:
        assert told == expected


def test_a_password_or_a_token_is_not_repeated():
    for url in ('http://me:s3cret@node02:1080', 'http://node02:1080/?token=s3cret', 'node02@s3cret', 'x?s3cret'):
        for text in (f'AGENTS = [{url!r}]', f'AGENTS = [{url!r} + X]'):
            assert 's3cret' not in error(text)


def test_the_variable_of_nvgpu_is_honoured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / 'agents.cfg').write_text("AGENTS = ['http://node02:1080']")
    given = {'NVGPU_CLUSTER_CFG': str(tmp_path / 'agents.cfg')}
    assert [host.url for host in read_cluster(None, given).hosts] == ['http://node02:1080']
    assert [host.url for host in read_cluster(None, {}).hosts] == [None]
    assert [host.url for host in read_cluster(None, {'NVGPU_CLUSTER_CFG': ''}).hosts] == [None]
    monkeypatch.chdir(tmp_path)
    assert [host.url for host in read_cluster(None, {'NVGPU_CLUSTER_CFG': 'agents.cfg'}).hosts] == [
        'http://node02:1080'
    ]
    Path('other.cfg').write_text('AGENTS = []')
    assert read_cluster('other.cfg', given).hosts == ()


def test_a_file_that_cannot_be_read_is_told_with_what_has_named_it(tmp_path: Path):
    for option, given, source in (
        (None, {'NVGPU_CLUSTER_CFG': '/no/such'}, 'NVGPU_CLUSTER_CFG'),
        ('/no/such', {}, '--config'),
    ):
        with pytest.raises(ClusterError) as raised:
            read_cluster(option, given)
        assert str(raised.value) == f"{source}: cannot read '/no/such': No such file or directory"
    with pytest.raises(ClusterError) as raised:
        read_cluster(str(tmp_path), {})
    assert str(raised.value) == f'--config: cannot read {str(tmp_path)!r}: Is a directory'
    (tmp_path / 'huge').write_bytes(b' ' * (4 * 2**20 + 1))
    with pytest.raises(ClusterError) as raised:
        read_cluster(str(tmp_path / 'huge'), {})
    assert 'is larger than 4 MiB: it is not a list of hosts' in str(raised.value)
