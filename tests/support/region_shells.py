"""What the functions of ``gpu-tracker region --shell`` have to do in every shell."""

from __future__ import annotations

import os
import subprocess
import time
from functools import cache
from typing import TYPE_CHECKING

import pytest

from support.cli_program import gpu_tracker
from support.programs import need_program
from support.region_log import made_log
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.region_log import RegionLog

SHELLS = {
    'sh': ['sh'],
    'bash': ['bash'],
    'bash as sh': ['bash', '--posix'],
    'dash': ['dash'],
    'ksh93': ['ksh93'],
    'mksh': ['mksh'],
    'lksh': ['lksh'],
    'zsh': ['zsh'],
    'busybox': ['busybox', 'ash'],
    'yash': ['yash'],
}
CORE_SHELLS = ('sh', 'bash', 'bash as sh')
_TICK_NS = 10_000_000
"""What /proc/uptime may be behind."""


@cache
def functions() -> str:
    """Return what ``gpu-tracker region --shell`` prints."""
    done = gpu_tracker('region', '--shell')
    assert (done.returncode, done.stderr) == (0, '')
    return done.stdout


class RegionsInShell:
    """Tests of one shell; a subclass parametrizes ``shell_name`` with names of ``SHELLS``."""

    @pytest.fixture
    def written(self) -> Iterator[RegionLog]:
        with made_log(joined=False) as made:
            yield made

    @pytest.fixture
    def shell(self, shell_name: str, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
        words = SHELLS[shell_name]
        need_program(words[0])

        def run(script: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
            path = tmp_path / 'script.sh'
            path.write_text(f'{functions()}\n{script}')
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

    def test_steps_nest_through_functions_subshells_and_pipelines(self, shell, written):
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

    def test_no_two_subshells_make_the_same_id(self, shell, written):
        done = shell(
            'i=0; while [ $i -lt 100 ]; do (gput_region step :; gput_region step :) & i=$((i+1)); done; wait',
            written.environment,
        )
        assert (done.returncode, done.stderr) == (0, '')
        assert len(written.begins) == len({begin.id for begin in written.begins}) == len(written.ends) == 200

    def test_a_step_that_fails_ends_the_script_and_has_an_end(self, shell, written):
        done = shell('set -e\ngput_region fails sh -c "exit 3"\necho not reached', written.environment)
        assert (done.returncode, done.stdout) == (3, '')
        assert written.end('fails').error == 'exit status 3'

    def test_a_function_ends_the_script_where_it_would_without_us(self, shell, written):
        script = 'set -e\nwork() { sh -c "exit 4"; echo not reached; }\ngput_region work work\necho nor here'
        assert [shell(script, environment).stdout for environment in (None, written.environment)] == ['', '']
        assert shell(script, written.environment).returncode == 4
        assert [begin.name for begin in written.begins] == ['work', 'work']

    def test_without_a_log_the_functions_only_run_the_command(self, shell):
        environment = {name: value for name, value in os.environ.items() if not name.startswith('GPU_TRACKER')}
        done = shell(
            'set -eu\ngput_region_begin a\ngput_region b echo hi\n'
            'gput_region c sh -c "exit 3" || echo $?\ngput_region_end',
            environment,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, 'hi\n3\n', '')

    def test_a_removed_log_is_not_made_again(self, shell, tmp_path):
        path = tmp_path / 'removed'
        done = shell('gput_region a echo hi', {**os.environ, 'GPU_TRACKER_REGIONS': str(path)})
        assert (done.returncode, done.stdout, done.stderr) == (0, 'hi\n', '')
        assert not path.exists()

    def test_steps_start_no_process(self, shell, written):
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
