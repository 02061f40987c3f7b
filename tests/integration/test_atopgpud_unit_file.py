from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from cli_program import PATIENCE
from tracked_program import IN_CI

UNIT = Path(__file__).parents[2] / 'deploy' / 'atopgpu.service'
PROGRAM = '/usr/local/bin/atopgpud'

with_systemd = pytest.mark.skipif(
    shutil.which('systemd-analyze') is None and not IN_CI, reason="needs systemd-analyze, from Debian's package systemd"
)


def settings() -> list[str]:
    """Return the lines that are neither empty nor a comment."""
    lines = UNIT.read_text(encoding='ascii').splitlines()
    return [line for line in lines if line and not line.startswith('#')]


def systemd_analyze(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ['systemd-analyze', '--no-pager', *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.fixture
def unit(tmp_path) -> str:
    """Return the path of the unit with a program in it that this machine has."""
    copy = tmp_path / 'atopgpu.service'
    text = UNIT.read_text(encoding='ascii')
    assert text.count(f'\nExecStart={PROGRAM}\n') == 1
    copy.write_text(text.replace(f'\nExecStart={PROGRAM}\n', '\nExecStart=/bin/true\n'), encoding='ascii')
    return str(copy)


@with_systemd
def test_systemd_finds_nothing_wrong_with_the_unit(unit):
    verified = systemd_analyze('verify', unit)
    assert verified.returncode == 0, verified.stdout
    assert 'atopgpu' not in verified.stdout


@with_systemd
def test_systemd_finds_a_program_that_is_missing(unit):
    Path(unit).write_text(UNIT.read_text(encoding='ascii').replace(PROGRAM, '/nowhere/atopgpud'), encoding='ascii')
    verified = systemd_analyze('verify', unit)
    assert verified.returncode != 0
    assert 'atopgpu.service: Command /nowhere/atopgpud is not executable' in verified.stdout


@with_systemd
def test_the_service_is_exposed_to_little(unit):
    judged = systemd_analyze('security', '--offline=true', '--threshold=19', unit)  # 1.9 of 10; systemd 252 says 1.9
    assert judged.returncode == 0, judged.stdout


@pytest.mark.parametrize(
    'setting',
    [
        'Type=notify',
        f'ExecStart={PROGRAM}',
        'ExecReload=/bin/kill -HUP $MAINPID',
        'Before=atop.service',
        'After=nvidia-persistenced.service',
        'Restart=on-failure',
        'LimitNOFILE=8192',
        'DynamicUser=yes',
        'NoNewPrivileges=yes',
        'CapabilityBoundingSet=',
        'PrivateTmp=yes',
        'ProtectSystem=strict',
        'ProtectHome=yes',
        'IPAddressDeny=any',
        'IPAddressAllow=localhost',
        'DevicePolicy=closed',
        'DeviceAllow=char-195 rwm',
        'DeviceAllow=char-nvidia* rwm',
    ],
)
def test_the_service_has_the_setting(setting):
    assert settings().count(setting) == 1


@pytest.mark.parametrize('name', ['PrivateDevices', 'PrivateNetwork', 'ProtectProc', 'ProcSubset', 'WatchdogSec'])
def test_the_service_leaves_alone_what_would_keep_it_from_working(name):
    assert not [line for line in settings() if line.startswith(f'{name}=')]
