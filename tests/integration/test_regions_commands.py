"""Steps of shell scripts: ``gpu-tracker region``, and its functions in every shell that is there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpu_tracker.cli import main
from support.cli_program import gpu_tracker, started, state_of, text_of
from support.region_log import made_log
from support.waiting import TIMEOUT, eventually

SHELLS = {
    'dash': ['dash'],
    'bash': ['bash'],
    'bash as sh': ['bash', '--posix'],
    'ksh93': ['ksh93'],
    'mksh': ['mksh'],
    'lksh': ['lksh'],
    'zsh': ['zsh'],
    'busybox': ['busybox', 'ash'],
    'yash': ['yash'],
}
_ALWAYS_THERE = ('dash', 'bash')
_TICK_NS = 10_000_000
"""What /proc/uptime may be behind."""


@pytest.fixture
def written():
    with made_log(joined=False) as made:
        yield made


@pytest.fixture(scope='module')
def functions() -> str:
    done = gpu_tracker('region', '--shell')
    assert (done.returncode, done.stderr) == (0, '')
    return done.stdout


@pytest.fixture(params=[name for name, words in SHELLS.items() if words[0] in _ALWAYS_THERE or shutil.which(words[0])])
def shell(request, functions, tmp_path):
    words = SHELLS[request.param]

    def run(script: str, environment=None) -> subprocess.CompletedProcess[str]:
        path = tmp_path / 'script.sh'
        path.write_text(f'{functions}\n{script}')
        return subprocess.run(
            [*words, str(path)],
            env=environment,
            check=False,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            stdin=subprocess.DEVNULL,
        )

    return run


def test_steps_nest_through_functions_subshells_and_pipelines(shell, written):
    before = time.monotonic_ns()
    done = shell(
        r"""
        set -eu
        gput_region 'st	ep\1' true
        gput_region_begin outer
        (gput_region sub true; gput_region sub2 true)
        gput_region left echo hi | gput_region right cat
        work() { kept=kept; gput_region inner true; }
        gput_region function work
        echo "$kept"
        gput_region bad sh -c 'exit 3' || echo "status $?"
        gput_region_end
        echo "${GPU_TRACKER_REGION-unset}"
        """,
        written.environment,
    )
    after = time.monotonic_ns()
    assert (done.returncode, done.stdout, done.stderr) == (0, 'hi\nkept\nstatus 3\nunset\n', '')
    assert sorted(written.parents, key=lambda pair: pair[0]) == [
        ('bad', 'outer'),
        ('function', 'outer'),
        ('inner', 'function'),
        ('left', 'outer'),
        ('outer', None),
        ('right', 'outer'),
        ('st\tep\\1', None),
        ('sub', 'outer'),
        ('sub2', 'outer'),
    ]
    ends = written.ends
    assert ends.keys() == {begin.id for begin in written.begins}
    assert {begin.name: ends[begin.id].error for begin in written.begins if ends[begin.id].error} == {
        'bad': 'exit status 3'
    }
    for begin in written.begins:
        assert before - 2 * _TICK_NS <= begin.t <= ends[begin.id].t <= after + 2 * _TICK_NS


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


def test_no_two_subshells_make_the_same_id(shell, written):
    done = shell(
        'i=0; while [ $i -lt 40 ]; do (gput_region step :; gput_region step :) & i=$((i+1)); done; wait',
        written.environment,
    )
    assert (done.returncode, done.stderr) == (0, '')
    assert len(written.begins) == len({begin.id for begin in written.begins}) == len(written.ends) == 80


def test_a_step_that_fails_ends_the_script_and_has_an_end(shell, written):
    done = shell('set -e\ngput_region fails sh -c "exit 3"\necho not reached', written.environment)
    assert (done.returncode, done.stdout) == (3, '')
    assert written.end('fails').error == 'exit status 3'


def test_a_function_ends_the_script_where_it_would_without_us(shell, written):
    script = 'set -e\nwork() { sh -c "exit 4"; echo not reached; }\ngput_region work work\necho nor here'
    assert [shell(script, environment).stdout for environment in (None, written.environment)] == ['', '']
    assert shell(script, written.environment).returncode == 4
    assert [begin.name for begin in written.begins] == ['work', 'work']


def test_without_a_log_the_functions_only_run_the_command(shell):
    environment = {name: value for name, value in os.environ.items() if not name.startswith('GPU_TRACKER')}
    done = shell(
        'set -eu\ngput_region_begin a\ngput_region b echo hi\ngput_region c sh -c "exit 3" || echo $?\ngput_region_end',
        environment,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, 'hi\n3\n', '')


def test_a_removed_log_is_not_made_again(shell, tmp_path):
    path = tmp_path / 'removed'
    done = shell('gput_region a echo hi', {**os.environ, 'GPU_TRACKER_REGIONS': str(path)})
    assert (done.returncode, done.stdout, done.stderr) == (0, 'hi\n', '')
    assert not path.exists()


def test_steps_start_no_process(shell, written):
    # The kernel counts the page faults of children that were waited for, field 11 in proc_pid_stat(5).
    done = shell(
        """
        count() {
          IFS= read -r line </proc/self/stat
          line=${line#*') '}
          line=${line#* * * * * * * * }
          echo "${line%% *}"
        }
        count
        i=0; while [ $i -lt 300 ]; do gput_region step :; i=$((i+1)); done
        count
        """,
        written.environment,
    )
    assert (done.returncode, done.stderr) == (0, '')
    before, after = done.stdout.split()
    assert before == after
    assert len(written.ends) == 300


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
        (['a'], 125, 'gpu-tracker: give a command after --'),
        (['a', '--'], 125, 'gpu-tracker: the command is empty: give a command after --'),
        (['--', 'true'], 125, 'gpu-tracker: give a name in front of --'),
        (['a', 'b', '--', 'true'], 125, "gpu-tracker: unexpected argument 'b' after the name 'a'"),
        (['-ax', 'a', '--', 'true'], 125, "gpu-tracker: --attribute must be a key and a value, as epoch=3, not 'x'"),
        (['--nonesuch', 'a', '--', 'true'], 125, 'gpu-tracker: unknown option --nonesuch'),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_one_line(monkeypatch, capfd, arguments, code, text):
    monkeypatch.delenv('GPU_TRACKER_REGIONS', raising=False)
    assert main(['region', *arguments]) == code
    assert capfd.readouterr().err.splitlines()[0] == text
