from __future__ import annotations

import pytest

from support.unit_file import UnitFile, systemd_analyze, with_systemd

UNIT = UnitFile('atopgpu.service')
PROGRAM = '/usr/local/bin/atopgpud'


@pytest.fixture
def unit(tmp_path) -> str:
    """Return the path of the unit with a program in it that this machine has."""
    return UNIT.with_program(tmp_path, PROGRAM, '/bin/true')


@with_systemd
def test_systemd_finds_nothing_wrong_with_the_unit(unit):
    verified = systemd_analyze('verify', unit)
    assert verified.returncode == 0, verified.stdout
    assert 'atopgpu' not in verified.stdout


@with_systemd
def test_systemd_finds_a_program_that_is_missing(tmp_path):
    verified = systemd_analyze('verify', UNIT.with_program(tmp_path, PROGRAM, '/nowhere/atopgpud'))
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
    assert UNIT.settings.count(setting) == 1


@pytest.mark.parametrize('name', ['PrivateDevices', 'PrivateNetwork', 'ProtectProc', 'ProcSubset', 'WatchdogSec'])
def test_the_service_leaves_alone_what_would_keep_it_from_working(name):
    assert not [line for line in UNIT.settings if line.startswith(f'{name}=')]
