"""Configuration files read from a disk."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from gpu_tracker.idle.config.configuration_file import Reading, read
from gpu_tracker.idle.config.document import Problem
from gpu_tracker.idle.config.file_access import this_caller
from gpu_tracker.idle.config.idle_settings import Program, Settings
from gpu_tracker.idle.config.key_table import template
from gpu_tracker.system.users import user_name

GOOD = '[process-a]\ndir=/\ncmd=/bin/sh -c "echo é"\ngpus=ALL\n'
SETTINGS = Settings(10.0, (), (Program('process-a', None, ('/bin/sh', '-c', 'echo é'), '/'),), None)

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason='needs root, which refuses files that others may write')

# The interpreter may be where other users cannot reach it: all is imported before.
AS_NOBODY = """
import os, sys
from gpu_tracker.idle.config.configuration_file import read
read(sys.argv[1])
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
print(read(sys.argv[1]))
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / 'f.conf'


def errors(path):
    reading = read(str(path))
    assert reading.settings is None
    return [problem.describe('f.conf') for problem in reading.errors]


def test_a_file(path):
    path.write_text(GOOD, encoding='utf-8')
    assert read(str(path)) == Reading(SETTINGS, (), ())


def test_what_windows_editors_write(path):
    path.write_bytes(b'\xef\xbb\xbf' + GOOD.replace('\n', '\r\n').encode())
    assert read(str(path)) == Reading(SETTINGS, (), ())


def test_the_template(path):
    path.write_text(template())
    reading = read(str(path))
    assert (reading.errors, reading.warnings) == ((), ())
    assert reading.settings.programs[0].command[0] == 'nice'


def test_errors_of_the_text_and_of_the_machine_come_together_by_line(path):
    path.write_text('[process-a]\ndir=/no/where\ncmd=/no/program\ngpus=x\nlogg=y\nuse_uuids=z\n')
    assert errors(path) == [
        "f.conf:2: [process-a] dir: there is no folder '/no/where'",
        "f.conf:3: [process-a] cmd: there is no program '/no/program'",
        "f.conf:4: [process-a] gpus: must be ALL or GPU numbers such as 0,1, not 'x'",
        "f.conf:6: [process-a] use_uuids: must be True or False, not 'z'",
    ]
    assert read(str(path)).warnings == (
        Problem(5, 'process-a', 'logg: is not known here, and left out; did you mean log?'),
    )


def test_a_file_that_is_not_there(path):
    assert errors(path) == ['f.conf: cannot be read: No such file or directory']
    assert errors('') == ['f.conf: cannot be read: No such file or directory']


def test_without_the_default_file_it_is_said_how_to_get_one(tmp_path, monkeypatch):
    monkeypatch.setenv('HOME', str(tmp_path))
    assert errors(tmp_path / '.config' / 'gpu_mon.conf') == [
        "f.conf: cannot be read: No such file or directory; 'gpu-tracker idle --print-config' prints one to begin with"
    ]


def test_a_folder(tmp_path):
    assert errors(tmp_path) == ['f.conf: cannot be read: Is a directory']


def test_what_is_no_text(path):
    path.write_bytes(b'[tty]\nenabled=\xff\n')
    assert errors(path) == ['f.conf:2: is not UTF-8 text']
    path.write_bytes('[tty]\n'.encode('utf-16'))
    assert errors(path) == ['f.conf:1: is not UTF-8 text']
    path.write_bytes(b'[tty]\nenabled=\0\n')
    assert errors(path) == ['f.conf:2: [tty] holds a NUL character, as no text does']


def test_what_is_too_long(path):
    path.write_text('#' * 1_000_001)
    assert errors(path) == ['f.conf: is larger than 1 MB, too large for a configuration file']


def test_what_is_no_regular_file(path):
    """Nobody would write to the FIFO: to open it as usual would wait for ever."""
    os.mkfifo(path)
    end, start = os.pipe()
    for special in (path, f'/dev/fd/{end}', '/dev/zero', '/dev/tty'):
        assert errors(special) == ['f.conf: is not a regular file, so SIGHUP cannot reload it']
    os.close(end)
    os.close(start)


def test_a_socket(path):
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))
        assert errors(path) == ['f.conf: is not a regular file, so SIGHUP cannot reload it']


@needs_root
def test_root_is_warned_of_a_file_that_others_may_write(path):
    path.write_text(GOOD)
    path.chmod(0o664)
    reading = read(str(path))
    assert reading.settings == SETTINGS
    assert [problem.describe('f.conf') for problem in reading.warnings] == [
        'f.conf: others than root may write it, and so run programs as root: chown root and chmod go-w prevent it'
    ]


@needs_root
def test_root_is_warned_of_a_folder_that_others_may_write(path):
    path.write_text(GOOD)
    path.parent.chmod(0o777)
    (warning,) = read(str(path)).warnings
    assert warning.text == (
        f'others than root may write the folder {str(path.parent)!r}, and so run programs as root: chown root and '
        'chmod go-w prevent it'
    )


@needs_root
def test_root_is_warned_of_a_folder_amid_links_that_others_may_write(path):
    real, shared = path.parent / 'real', path.parent / 'open'
    for folder in (real, shared):
        folder.mkdir()
    (real / 'c.conf').write_text(GOOD)
    (shared / 'b.conf').symlink_to('../real/c.conf')
    path.symlink_to(shared / 'b.conf')
    assert read(str(path)).warnings == ()
    shared.chmod(0o777)
    (warning,) = read(str(path)).warnings
    assert f'others than root may write the folder {str(shared)!r}, ' in warning.text


def test_others_are_not_warned_of_what_is_theirs():
    with tempfile.TemporaryDirectory() as name:  # others cannot reach the folders of pytest
        folder = Path(name)
        folder.chmod(0o755)
        file = folder / 'f.conf'
        file.write_text(GOOD)
        file.chmod(0o666)
        words = [sys.executable, '-c', AS_NOBODY, str(file)]
        answer = subprocess.run(words, capture_output=True, text=True, check=True)
    assert answer.stdout == f'{Reading(SETTINGS, (), ())}\n'


def test_the_user_of_this_process(tmp_path, monkeypatch):
    monkeypatch.setenv('HOME', '/home/of/mine')
    monkeypatch.chdir(tmp_path)
    caller = this_caller()
    assert (caller.user, caller.is_root) == (user_name(os.geteuid()), os.geteuid() == 0)
    assert caller.folder == str(tmp_path)
    assert caller.home_of(caller.user) == '/home/of/mine'
    assert caller.home_of('nobody-of-this-name') is None
    gone = tmp_path / 'gone'
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert this_caller().folder is None
