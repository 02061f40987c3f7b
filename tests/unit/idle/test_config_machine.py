"""Folders, programs and logs that a configuration names, looked for on a machine."""

from __future__ import annotations

import os
import struct
import tempfile
from pathlib import Path

import pytest

from gpu_tracker.idle.config import configuration_file
from gpu_tracker.idle.config.parser import parse
from support.idle.idle_configuration import ROOT

# As in linux/posix_acl_xattr.h: the version, then tag, rights and ID of the owner, nobody, the group, the mask, others.
NOBODY_MAY_WRITE = struct.pack(
    '<I' + 5 * 'HHI', 2, 0x01, 6, 2**32 - 1, 0x02, 6, 65534, 0x04, 0, 2**32 - 1, 0x10, 6, 2**32 - 1, 0x20, 0, 2**32 - 1
)


@pytest.fixture
def place(tmp_path):
    """Return a folder with a program in bin/, and a file that is none."""
    program = tmp_path / 'bin' / 'run'
    program.parent.mkdir()
    program.write_text('#!/bin/sh\n')
    program.chmod(0o755)
    (tmp_path / 'bin' / 'notes').write_text('')
    return tmp_path


@pytest.fixture
def as_nobody():
    """Let a test be no root: access(2) asks for the real user."""
    if os.getuid() != 0:
        yield
        return
    os.setreuid(65534, -1)
    yield
    os.setreuid(0, -1)


def faults(place, *, folder='.', cmd='run', rest=''):
    """Return what is wrong with a program whose PATH is bin/."""
    text = f'[process-0]\ngpus=ALL\ndir={folder}\ncmd={cmd}\n{rest}\n'
    parsed = parse(text, ROOT._replace(folder=str(place), home_of={'nobody': '/'}.get))
    assert parsed.errors == ()
    found = configuration_file.machine_faults(
        parsed.document, parsed.settings.programs, {'PATH': f'/nowhere:{place}/bin'}
    )
    return [problem.describe('f') for problem in found]


def test_nothing_is_wrong_with_what_is_there(place):
    for cmd in ('run', 'bin/run -x', './bin/run', f'{place}/bin/run'):
        assert faults(place, cmd=cmd, rest='log=/dev/null') == []


def test_a_folder_that_is_not_there(place):
    assert faults(place, folder='gone') == [f"f:3: [process-0] dir: there is no folder '{place}/gone'"]
    assert faults(place, folder='bin/run') == [f"f:3: [process-0] dir: '{place}/bin/run' is no folder"]
    assert faults(place, folder='/tmp ; x') == [
        "f:3: [process-0] dir: there is no folder '/tmp ; x'; a comment stands on a line of its own"
    ]


@pytest.mark.parametrize(
    ('cmd', 'expected'),
    [
        ('gone', "no folder of PATH has a program 'gone'"),
        ('notes', "no folder of PATH has a program 'notes'"),
        ('./run', "there is no program './run'"),
        ('bin/notes', "'bin/notes' is no program that may be executed"),
        ('./bin', "'./bin' is no program that may be executed"),
        ('/nowhere/run', "there is no program '/nowhere/run'"),
        ('~/run', "there is no program '~/run'; give its folder in full, ~ is not replaced here"),
    ],
)
def test_a_program_that_is_not_there(place, cmd, expected):
    assert faults(place, cmd=cmd) == [f'f:4: [process-0] cmd: {expected}']


def test_a_program_is_looked_for_where_its_own_variables_say(place):
    assert faults(place, rest='env=PATH=/nowhere') == ["f:4: [process-0] cmd: no folder of PATH has a program 'run'"]
    assert faults(place, rest='env=PATH=bin') == []


def test_a_program_whose_name_depends_on_its_gpu_is_not_looked_for(place):
    assert faults(place, cmd='gone-{gpu}') == []


def test_in_a_folder_that_is_not_there_no_program_is_missed(place):
    assert faults(place, folder='gone', cmd='./gone') == [f"f:3: [process-0] dir: there is no folder '{place}/gone'"]


def test_a_log_is_not_made(place):
    assert faults(place, rest='log=new.log') == []
    assert sorted(os.listdir(place)) == ['bin']


def test_a_log_that_cannot_be_written(place):
    assert faults(place, rest='log=bin') == [f"f:5: [process-0] log: '{place}/bin' is a folder, not a file"]
    assert faults(place, rest='log=gone/new.log') == [f"f:5: [process-0] log: there is no folder '{place}/gone' for it"]
    (place / 'link').symlink_to('gone/new.log')
    assert faults(place, rest='log=link') == [f"f:5: [process-0] log: there is no folder '{place}/gone' for it"]


@pytest.fixture
def open_place():
    """Return a folder that everybody may enter and nobody may write, as no folder of pytest is."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / 'bin').mkdir()
        (place / 'bin' / 'run').touch(0o755)
        (place / 'old.log').touch(0o444)
        (place / 'closed').mkdir(0o444)
        place.chmod(0o555)
        yield place
        place.chmod(0o755)


def test_what_a_user_may_not_do(open_place, as_nobody):
    place = open_place
    assert faults(place, rest='log=old.log') == [f"f:5: [process-0] log: '{place}/old.log' may not be written"]
    assert faults(place, rest='log=new.log') == [f"f:5: [process-0] log: no file may be made in '{place}'"]
    assert faults(place, folder='closed') == [f"f:3: [process-0] dir: the folder '{place}/closed' may not be entered"]


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason='needs root, which runs programs as other users')


@needs_root
def test_what_the_user_of_a_program_may_not_do(open_place):
    place = open_place
    (place / 'bin' / 'run').chmod(0o750)
    (place / 'closed').chmod(0o750)
    (place / 'closed' / 'in.log').touch(0o666)
    (place / 'bin' / 'own.log').touch(0o600)
    os.chown(place / 'bin' / 'own.log', 65534, -1)
    (place / 'way').symlink_to('closed/../bin/own.log')
    nobody = 'user=nobody\nenv=PATH=/bin\n'
    assert faults(place, cmd='sh', rest=f'{nobody}log=bin/own.log') == []
    for log, expected in {
        'old.log': f"'{place}/old.log' may not be written",
        'closed/in.log': f"'{place}/closed/in.log' may not be written",
        'way': f"'{place}/way' may not be written",
        'new.log': f"no file may be made in '{place}'",
    }.items():
        told = [f'f:7: [process-0] log: {expected} by nobody']
        assert faults(place, cmd='sh', rest=f'{nobody}log={log}') == told
    assert faults(place, cmd='sh', folder='closed', rest=nobody) == [
        f"f:3: [process-0] dir: the folder '{place}/closed' may not be entered by nobody"
    ]
    assert faults(place, cmd='bin/run', rest='user=nobody') == [
        "f:4: [process-0] cmd: 'bin/run' is no program that may be executed by nobody"
    ]
    assert faults(place, rest='user=nobody') == [
        "f:4: [process-0] cmd: no folder of PATH has a program 'run' that may be executed by nobody"
    ]


@needs_root
def test_where_access_lists_hold_nothing_is_said(open_place):
    log = open_place / 'old.log'
    log.chmod(0o600)
    try:
        os.setxattr(log, 'system.posix_acl_access', NOBODY_MAY_WRITE)
    except OSError as error:
        pytest.skip(f'this machine has no access lists on the file system of the test: {error}')
    assert faults(open_place, cmd='/bin/sh', rest=f'user=nobody\nlog={log}') == []


@needs_root
def test_of_what_is_another_file_for_each_process_nothing_is_said(open_place):
    (open_place / 'old.log').chmod(0o666)
    with (open_place / 'old.log').open('w') as log:
        rest = f'user=nobody\nlog=/proc/self/fd/{log.fileno()}'
        assert faults(open_place, cmd='/bin/sh', rest=rest) == []


def test_a_key_that_is_not_there_is_told(place):
    assert faults(place, rest='log=%(dri)s/x.log') == [
        f"f:5: [process-0] log: there is no folder '{place}/%(dri)s' for it; there is no key dri"
    ]
    assert faults(place, folder='%(home)s/%(Jobs)s', cmd='/bin/sh') == [
        f"f:3: [process-0] dir: there is no folder '{place}/%(home)s/%(Jobs)s'; there is no key home or jobs"
    ]
    assert faults(place, rest='log=%%(dir)s/x.log') == [
        f"f:5: [process-0] log: there is no folder '{place}/%(dir)s' for it"
    ]


def test_everything_of_all_programs_is_told(place):
    text = """\
[process-0]
gpus=x
dir=/nowhere
cmd=gone
log=/nowhere/log
[process-1]
dir=/tmp
cmd=gone
[process-2]
cmd="
log=~nobody-at-all/x
"""
    parsed = parse(text, ROOT)
    found = configuration_file.machine_faults(parsed.document, parsed.settings.programs, {'PATH': '/nowhere'})
    assert [problem.describe('f') for problem in found] == [
        "f:3: [process-0] dir: there is no folder '/nowhere'",
        "f:4: [process-0] cmd: no folder of PATH has a program 'gone'",
        "f:5: [process-0] log: there is no folder '/nowhere' for it",
        "f:8: [process-1] cmd: no folder of PATH has a program 'gone'",
    ]
