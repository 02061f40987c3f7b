"""What ``gpu-tracker dashboard`` says of options and configurations that it cannot use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_tracker.cli import main

if TYPE_CHECKING:
    from pathlib import Path


def refused(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(['dashboard', '--port=0', *arguments]) == 125
    out, told = capfd.readouterr()
    assert out == ''
    return told


@pytest.mark.parametrize(
    ('option', 'expected'),
    [
        ('--interval=0', "--interval must be a number of seconds from 0.5 to 60, not '0'"),
        ('--interval=nan', "--interval must be a number of seconds from 0.5 to 60, not 'nan'"),
        ('--deadline=x', "--deadline must be a number of seconds from 0.1 to 60, not 'x'"),
        ('--config=/no/such', "--config: cannot read '/no/such': No such file or directory"),
        ('--port=x', None),
        ('--password-file=/no/such', None),
        ('--prometheus=node02', None),
    ],
)
def test_options(capfd: pytest.CaptureFixture[str], option: str, expected: str | None):
    told = refused(capfd, option)
    assert told.startswith('gpu-tracker: ')
    assert option.partition('=')[0] in told
    if expected is not None:
        assert told == f'gpu-tracker: {expected}\n'


def test_options_that_do_not_go_together(capfd: pytest.CaptureFixture[str]):
    hint = "Try 'gpu-tracker dashboard --help'.\n"
    assert refused(capfd, '--prometheus=http://localhost:9090', '--config=a.cfg') == (
        f'gpu-tracker: --config and --prometheus do not go together: each option defines the hosts\n{hint}'
    )
    assert refused(capfd, '--prometheus-ca=ca.pem') == (f'gpu-tracker: --prometheus-ca needs --prometheus\n{hint}')


def test_configurations(capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'agents.cfg').write_text("AGENTS = ['self',\n  node(2)]\n")
    assert refused(capfd, '--config=agents.cfg') == (
        "gpu-tracker: agents.cfg:2: 'node(2)]': an entry of AGENTS must be 'self' or the URL of an agent, "
        "such as 'http://node02:1080', in quotes\n"
    )
    (tmp_path / 'cluster.toml').write_text("[groups.a]\nhost = ['self']\n")
    assert refused(capfd, '--config=cluster.toml') == (
        'gpu-tracker: cluster.toml: groups.a: host: is no key that is known here; did you mean hosts?\n'
    )


def test_only_loopback_without_a_password(capfd: pytest.CaptureFixture[str], tmp_path: Path):
    (tmp_path / 'agents.cfg').write_text('AGENTS = []')
    told = refused(capfd, f'--config={tmp_path}/agents.cfg', '--host=0.0.0.0')
    assert told.startswith('gpu-tracker: --host: ')
    assert '--password-file' in told


def test_help(capfd: pytest.CaptureFixture[str]):
    assert main(['dashboard', '--help']) == 0
    text = capfd.readouterr().out
    assert '[default: 1081]' in text
    assert max(map(len, text.splitlines())) <= 90
