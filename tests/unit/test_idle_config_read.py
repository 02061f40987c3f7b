"""Configuration files read from a disk."""

from __future__ import annotations

import os

import pytest

from gpu_tracker.idle.config.caller import this_caller
from gpu_tracker.idle.config.problem import Problem
from gpu_tracker.idle.config.read import Reading, read
from gpu_tracker.idle.config.settings import Program, Settings
from gpu_tracker.idle.config.template import TEMPLATE
from gpu_tracker.users import user_name

GOOD = '[process-a]\ndir=/\ncmd=/bin/sh -c "echo é"\ngpus=ALL\n'
SETTINGS = Settings(10.0, (), (Program('process-a', None, ('/bin/sh', '-c', 'echo é'), '/'),), None)


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
    path.write_text(TEMPLATE)
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


def test_what_has_no_end():
    assert errors('/dev/zero') == ['f.conf: is no configuration file: it has more than 1 MB']


def test_a_file_through_a_pipe():
    end, start = os.pipe()
    os.write(start, GOOD.encode())
    os.close(start)
    assert read(f'/dev/fd/{end}').settings == SETTINGS
    os.close(end)


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
