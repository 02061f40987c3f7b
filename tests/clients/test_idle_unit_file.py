from __future__ import annotations

import shlex

import pytest

from support.cli_program import gpu_tracker
from support.unit_file import UnitFile, systemd_analyze, with_systemd

UNIT = UnitFile('gpu-tracker-idle.service')
PROGRAM = '/usr/local/bin/gpu-tracker'
CONFIG = '/etc/gpu-tracker/idle.conf'


@with_systemd
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path):
    verified = systemd_analyze('verify', UNIT.with_program(tmp_path, PROGRAM, '/bin/true'))
    assert verified.returncode == 0, verified.stdout
    assert 'gpu-tracker-idle' not in verified.stdout


@with_systemd
def test_systemd_finds_a_program_that_is_missing(tmp_path):
    verified = systemd_analyze('verify', UNIT.with_program(tmp_path, PROGRAM, '/nowhere/gpu-tracker'))
    assert verified.returncode != 0
    assert 'gpu-tracker-idle.service: Command /nowhere/gpu-tracker is not executable' in verified.stdout


@pytest.mark.parametrize(
    'setting',
    [
        'Type=exec',
        f'ExecStart={PROGRAM} idle --config={CONFIG}',
        'ExecReload=/bin/kill -HUP $MAINPID',
        'After=nvidia-persistenced.service',
        'Restart=on-failure',
        'RestartSec=30',
        'KillMode=mixed',
        'RuntimeDirectory=gpu-tracker',
        'RuntimeDirectoryMode=0700',
    ],
)
def test_the_service_has_the_setting(setting):
    assert UNIT.settings.count(setting) == 1


@pytest.mark.parametrize(
    'name',
    [
        'ExecStartPre',  # a check of its own would be made anew for ever
        'RestartPreventExitStatus',  # a folder that is missing may be mounted later
        'User',  # it starts programs as other users
        'DynamicUser',
        'CapabilityBoundingSet',
        'NoNewPrivileges',
        'PrivateDevices',
        'PrivateNetwork',  # another monitor would not be noticed, and programs inherit it
        'PrivateTmp',
        'ProtectHome',
        'ProtectProc',
        'ProtectSystem',
        'WatchdogSec',
    ],
)
def test_the_service_leaves_alone_what_would_keep_it_or_its_programs_from_working(name):
    assert not [line for line in UNIT.settings if line.startswith(f'{name}=')]


def test_the_command_of_the_unit_is_understood(tmp_path):
    config = tmp_path / 'idle.conf'
    config.write_text('[process-a]\ndir=/\ncmd=sleep 1\ngpus=0\n')
    (start,) = [line for line in UNIT.settings if line.startswith('ExecStart=')]
    _, *words = shlex.split(start.partition('=')[2].replace(CONFIG, str(config)))
    checked = gpu_tracker(*words, '--check')
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, f'{config}: no errors\n', '')
