"""Devices granted through a stand-in for systemctl that records what it is told."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.cuda_probe.devices.control_groups import DeviceNumbers
from gpu_tracker.cuda_probe.devices.grant import plan, unit_of
from gpu_tracker.cuda_probe.devices.grant_plan import apply, report
from gpu_tracker.errors import GrantError
from support.tracked_program import as_root

if TYPE_CHECKING:
    from pathlib import Path

DEVICES = (
    DeviceNumbers(195, ('nvidia', 'nvidiactl')),
    DeviceNumbers(510, ('nvidia-uvm',)),
)

_SYSTEMCTL = """#!/bin/sh
printf '%s\\n' "$@" --- >> {folder}/told
if [ "$1" = show ]; then cat {folder}/shown; exit; fi
[ -e {folder}/refusal ] || exit 0
cat {folder}/refusal >&2
exit 1
"""
_CLOSED = (
    'LoadState=loaded\nControlGroup=/system.slice/job.service\nDevicePolicy=closed\n'
    'DeviceAllow=char-pts rw\nDeviceAllow=/dev/fuse rwm\n'
)


class Host:
    """A machine with cgroup version 2 on which process 7 runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.proc = folder / 'proc'
        self.run = folder / 'run'
        (self.run / 'systemd' / 'system').mkdir(parents=True)
        (self.proc / '7').mkdir(parents=True)
        (self.proc / 'self').mkdir()
        (self.proc / '7' / 'comm').write_text('train\n')
        (self.proc / 'self' / 'mountinfo').write_text('30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n')
        self.group('/system.slice/job.service')
        program = folder / 'bin' / 'systemctl'
        program.parent.mkdir()
        program.write_text(_SYSTEMCTL.format(folder=folder))
        program.chmod(0o755)
        self.shows(_CLOSED)

    def group(self, path: str) -> None:
        (self.proc / '7' / 'cgroup').write_text(f'0::{path}\n')

    def shows(self, text: str) -> None:
        (self.folder / 'shown').write_text(text)

    def told(self) -> list[list[str]]:
        path = self.folder / 'told'
        calls = path.read_text().split('---\n')[:-1] if path.exists() else []
        return [call.splitlines() for call in calls]

    def plan(self):
        return plan(7, devices=DEVICES, proc=str(self.proc), run_folder=str(self.run))

    def refusal(self) -> str:
        with pytest.raises(GrantError) as raised:
            self.plan()
        return str(raised.value)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setenv('PATH', f'{tmp_path}/bin:{os.environ["PATH"]}')
    return Host(tmp_path)


SHOW = ['show', '--property=LoadState,ControlGroup,DevicePolicy,DeviceAllow', '--', 'job.service']
SET = [
    'set-property',
    '--runtime',
    '--',
    'job.service',
    'DeviceAllow=char-nvidia rwm',
    'DeviceAllow=char-nvidia-uvm rwm',
]


@as_root
def test_systemd_is_told_what_the_unit_may_open(host: Host) -> None:
    made = host.plan()
    assert host.told() == [SHOW]
    apply(made)
    assert host.told() == [SHOW, SET]


def test_the_report_tells_what_is_done_and_how_to_undo_it(host: Host) -> None:
    file = f'{host.run}/systemd/system.control/job.service.d/50-DeviceAllow.conf'
    assert report(host.plan(), is_done=False) == (
        'Process 7 (train) is in the unit job.service of systemd.\n'
        'Devices:\n'
        '  nvidia, nvidiactl (character devices 195:*)\n'
        '  nvidia-uvm (character devices 510:*)\n'
        'To be done:\n'
        "  systemctl set-property --runtime -- job.service 'DeviceAllow=char-nvidia rwm' "
        "'DeviceAllow=char-nvidia-uvm rwm'\n"
        'To undo it:\n'
        f'  rm -- {file}\n'
        '  systemctl daemon-reload\n'
        'Note: this concerns every process of the unit, until the machine or the unit is started anew.\n'
        'Note: filters that others have attached to the control group, as container runtimes do, stay and may still '
        'deny.\n'
    )


def test_a_file_that_is_there_already_is_told(host: Host) -> None:
    folder = host.run / 'systemd' / 'system.control' / 'job.service.d'
    folder.mkdir(parents=True)
    (folder / '50-DeviceAllow.conf').touch()
    assert 'the file is there already: undoing removes what it says now too.' in host.plan().notes


def test_only_what_is_missing_is_set(host: Host) -> None:
    host.shows(f'{_CLOSED}DeviceAllow=char-nvidia rwm\nDeviceAllow=char-nvidia-uvm r\n')
    [step] = host.plan().steps
    assert step.words[5:] == ('DeviceAllow=char-nvidia-uvm rwm',)
    host.shows(f'{_CLOSED}DeviceAllow=char-nvidia rwm\nDeviceAllow=char-nvidia-uvm rwm\n')
    made = host.plan()
    assert made.steps == ()
    assert 'Nothing to do: it may open them already.\n' in report(made, is_done=True)


@as_root
def test_what_systemd_refuses_is_told(host: Host) -> None:
    (host.folder / 'refusal').write_text('Failed to set unit properties: Access denied\n')
    with pytest.raises(GrantError, match='has failed: Failed to set unit properties: Access denied'):
        apply(host.plan())


def test_a_unit_that_denies_nothing_is_left_alone(host: Host) -> None:
    host.shows('LoadState=loaded\nControlGroup=/system.slice/job.service\nDevicePolicy=auto\nDeviceAllow=\n')
    assert host.refusal() == (
        'systemd allows the unit job.service all devices (DevicePolicy=auto without DeviceAllow=): there is nothing '
        'to grant. A first DeviceAllow= would deny all other devices. If the process cannot open a GPU, check the '
        'permissions of the device files, and the filters of a container runtime'
    )


def test_a_unit_that_systemd_does_not_know_is_refused(host: Host) -> None:
    host.shows('LoadState=not-found\nDevicePolicy=auto\n')
    assert host.refusal() == 'systemd has not loaded the unit job.service of process 7'


def test_a_unit_with_another_group_is_refused(host: Host) -> None:
    host.shows(_CLOSED.replace('/system.slice', ''))
    assert host.refusal() == (
        'systemd reports the control group /job.service for the unit job.service, '
        'but process 7 is in /system.slice/job.service'
    )


def test_without_systemd_version_2_is_refused(host: Host) -> None:
    (host.run / 'systemd' / 'system').rmdir()
    assert host.refusal() == (
        'in control groups of version 2, only systemd can grant devices, and systemd does not run here'
    )


def test_without_systemctl_it_says_so(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('PATH', '/nonexistent')
    assert host.refusal() == "'systemctl' is not on PATH"


@pytest.mark.parametrize('path', ['/', '/kubepods/pod1', '/../outside.scope'])
def test_a_group_that_is_no_unit_is_refused(host: Host, path: str) -> None:
    host.group(path)
    assert host.refusal() == f'process 7 is in the control group {path!r}, which does not belong to a unit of systemd'
    assert host.told() == []


def test_without_a_devices_controller_it_says_so(host: Host) -> None:
    (host.proc / '7' / 'cgroup').write_text('4:memory:/x\n')
    assert host.refusal() == 'no control group limits the devices of process 7: this kernel has no devices controller'


def test_in_a_hybrid_hierarchy_the_controller_of_version_1_counts(host: Host) -> None:
    (host.proc / '7' / 'cgroup').write_text('5:devices:/job\n0::/system.slice/job.service\n')
    assert host.refusal() == (
        "the devices controller of cgroup version 1 limits process 7 in the control group '/job', but this controller "
        'is not mounted here: mount the controller, or run this command outside the container'
    )
    assert host.told() == []


@pytest.mark.parametrize(
    ('path', 'unit'),
    [
        ('/system.slice/job.service', 'job.service'),
        ('/system.slice/job.service/inner', 'job.service'),
        ('/system.slice/docker-1.scope/init.scope', 'docker-1.scope'),
        ('/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope', 'user@1000.service'),
        ('/user.slice/user-1000.slice/session-2.scope', 'session-2.scope'),
        ('/machine.slice/machine-a.slice', 'machine-a.slice'),
        ('/init.scope', 'init.scope'),
        ('/_cgroup.service', 'cgroup.service'),
        ('/', None),
        ('/kubepods/pod.service', None),
    ],
)
def test_the_unit_is_that_of_the_systems_own_systemd(path: str, unit: str | None) -> None:
    assert unit_of(path) == unit
