"""The units of systemd for the agent and the dashboard."""

from __future__ import annotations

import pytest

from support.unit_file import UnitFile, systemd_analyze, with_systemd

PROGRAM = '/usr/local/bin/gpu-tracker'
AGENT = UnitFile('gpu-tracker-agent.service')
DASHBOARD = UnitFile('gpu-tracker-dashboard.service')
BOTH = pytest.mark.parametrize('unit', [AGENT, DASHBOARD], ids=lambda unit: unit.name)


@with_systemd
@BOTH
def test_systemd_finds_nothing_wrong_with_the_unit(unit, tmp_path):
    verified = systemd_analyze('verify', unit.with_program(tmp_path, PROGRAM, '/bin/true'))
    assert verified.returncode == 0, verified.stdout
    assert 'gpu-tracker' not in verified.stdout


@with_systemd
@BOTH
def test_the_service_is_exposed_to_little(unit, tmp_path):
    # 1.9 and 1.5 of 10, says systemd 252
    path = unit.with_program(tmp_path, PROGRAM, '/bin/true')
    judged = systemd_analyze('security', '--offline=true', '--threshold=19', path)
    assert judged.returncode == 0, judged.stdout


@BOTH
@pytest.mark.parametrize(
    'setting',
    [
        'Type=notify',
        'Restart=on-failure',
        'TimeoutStopSec=10',
        'DynamicUser=yes',
        'NoNewPrivileges=yes',
        'CapabilityBoundingSet=',
        'ProtectSystem=strict',
        'ProtectHome=yes',
    ],
)
def test_both_services_have_the_setting(unit, setting):
    assert unit.settings.count(setting) == 1


@pytest.mark.parametrize(
    'setting',
    [
        f'ExecStart={PROGRAM} agent',
        'IPAddressDeny=any',
        'IPAddressAllow=localhost',
        'DevicePolicy=closed',
        'DeviceAllow=char-195 rwm',
        'DeviceAllow=char-nvidia* rwm',
    ],
)
def test_the_agent_has_the_setting(setting):
    assert AGENT.settings.count(setting) == 1


@pytest.mark.parametrize(
    'name', ['RestartPreventExitStatus', 'PrivateDevices', 'PrivateNetwork', 'PrivateTmp', 'ProtectProc', 'ProcSubset']
)
def test_the_agent_leaves_alone_what_would_keep_it_from_seeing_gpus_and_who_uses_them(name):
    assert not [line for line in AGENT.settings if line.startswith(f'{name}=')]


@pytest.mark.parametrize(
    'setting',
    [
        'LoadCredential=dashboard.toml:/etc/gpu-tracker/dashboard.toml',
        f'ExecStart={PROGRAM} dashboard --config=%d/dashboard.toml',
        'LimitNOFILE=65536',
        'PrivateDevices=yes',
        'PrivateTmp=yes',
    ],
)
def test_the_dashboard_has_the_setting(setting):
    assert DASHBOARD.settings.count(setting) == 1
