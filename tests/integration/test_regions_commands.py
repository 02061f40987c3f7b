"""Steps of shell scripts: ``gpu-tracker region``, and its functions in sh and bash."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_tracker.cli import main
from support.cli_program import gpu_tracker, started, state_of, text_of
from support.region_log import made_log
from support.region_shells import CORE_SHELLS, RegionsInShell
from support.waiting import TIMEOUT, eventually


@pytest.fixture
def written():
    with made_log(joined=False) as made:
        yield made


@pytest.mark.parametrize('shell_name', CORE_SHELLS)
class TestShells(RegionsInShell):
    pass


@pytest.mark.parametrize('words', [['sh', '-c'], ['bash', '-c']])
def test_the_functions_are_read_as_the_documentation_says(words, written):
    script = (
        'eval "$("$0" -m gpu_tracker region --shell)"; set -e; gput_region a gput_region b cat; gput_region c false'
    )
    done = subprocess.run(
        [*words, script, sys.executable],
        env=written.environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        input='typed',
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, 'typed', '')
    assert written.parents == [('a', None), ('b', 'a'), ('c', None)]
    assert [written.end(name).error for name in 'abc'] == [None, None, 'exit status 1']


def test_a_command_is_a_step_of_its_own_process(written, tmp_path):
    done = gpu_tracker(
        'region', '-a', 'k=3', '--attribute=s=x=y', 'step', '--', 'sh', '-c', 'echo $$ $GPU_TRACKER_REGION; exit 4',
        env=written.environment,
    )  # fmt: skip
    begin = written.begin('step')
    assert (done.returncode, done.stdout, done.stderr) == (4, f'{begin.process_id} {begin.id}\n', '')
    assert json.loads(begin.attributes) == {'k': 3, 's': 'x=y'}
    assert written.end('step').error == 'exit status 4'


def test_a_command_that_a_signal_has_ended(written):
    done = gpu_tracker('region', 'step', '--', 'sh', '-c', 'kill -9 $$', env=written.environment)
    assert (done.returncode, done.stderr) == (137, '')
    assert written.end('step').error == 'signal SIGKILL'


def test_standard_streams_are_the_commands_own(written):
    done = gpu_tracker('region', 'step', '--', 'cat', env=written.environment, input='text', stdin=None)
    assert (done.returncode, done.stdout) == (0, 'text')


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_are_passed_on(written, tmp_path, number):
    ready = tmp_path / 'ready'
    script = f'trap "exit 7" {number.name[3:]}; echo > {ready}; while :; do sleep 0.01; done'
    with started('region', 'step', '--', 'sh', '-c', script, env=written.environment) as program:
        eventually(ready.exists)
        program.send_signal(number)
        assert program.wait(TIMEOUT) == 7
    assert written.end('step').error == 'exit status 7'


def test_without_a_log_the_command_takes_the_place_of_gpu_tracker(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != 'GPU_TRACKER_REGIONS'}
    path = tmp_path / 'pid'
    with started('region', 'step', '--', 'sh', '-c', f'echo $$ > {path}; exec sleep 60', env=environment) as program:
        eventually(lambda: text_of(path).endswith('\n'))
        assert int(text_of(Path(path))) == program.pid
        assert state_of(program.pid)
        program.kill()


@pytest.mark.parametrize(
    ('arguments', 'code', 'text'),
    [
        (['a', '--', 'nonesuch'], 127, "gpu-tracker: cannot start 'nonesuch': No such file or directory"),
        (['a', '--', '/etc/passwd'], 126, "gpu-tracker: cannot start '/etc/passwd': Permission denied"),
        (['a'], 125, 'gpu-tracker: these arguments do not fit. Usage:'),
        (['a', '--'], 125, 'gpu-tracker: the command is empty'),
        (['--', 'true'], 125, 'gpu-tracker: these arguments do not fit. Usage:'),
        (['a', 'b', '--', 'true'], 125, 'gpu-tracker: these arguments do not fit. Usage:'),
        (['-ax', 'a', '--', 'true'], 125, "gpu-tracker: --attribute must be KEY=VALUE, such as epoch=3, not 'x'"),
        (['--nonesuch', 'a', '--', 'true'], 125, 'gpu-tracker: unknown option --nonesuch'),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_one_line(monkeypatch, capfd, arguments, code, text):
    monkeypatch.delenv('GPU_TRACKER_REGIONS', raising=False)
    assert main(['region', *arguments]) == code
    assert capfd.readouterr().err.splitlines()[0] == text
