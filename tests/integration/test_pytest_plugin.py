"""The plugin of pytest, in runs of pytest of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

import pytest

import gpu_tracker as gput
from support.deadlines import UNTIL
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Pytest = Callable[..., subprocess.CompletedProcess[str]]

IS_INSTALLED = any(point.value == 'gpu_tracker.pytest_plugin' for point in entry_points(group='pytest11'))

TESTS = """
import subprocess, sys
import pytest

@pytest.mark.parametrize('size', [1, 2])
def test_small(size):
    pass

def test_large():
    numbers = bytearray(300_000_000)
    assert not any(numbers[::4096])

@pytest.mark.skip(reason='not now')
def test_skipped():
    pass
"""

LIMITS = """
import subprocess, sys, time
import pytest

@pytest.mark.limit_ram('5 GB')
@pytest.mark.limit_time('1000 s')
@pytest.mark.limit_gpu_ram('1 GB')
def test_within():
    pass

@pytest.mark.limit_ram('200 MB')
def test_child_is_too_large():
    subprocess.run([sys.executable, '-c', 'x = bytearray(b"1") * 400_000_000'], check=True)

@pytest.mark.limit_time('50 ms')
def test_too_long():
    time.sleep(0.2)

@pytest.mark.limit_time('1 ms')
def test_fails_by_itself():
    raise ValueError('its own')

@pytest.mark.limit_time('1 ms')
def test_is_skipped():
    pytest.skip('not now')
"""


OF_CHILDREN = f"""{UNTIL}
import contextlib, sqlite3, subprocess, threading
import gpu_tracker as gput

def test_child():
    program = 'x = bytearray(b"1") * 400_000_000; print(flush=True); input()'
    child = subprocess.Popen([sys.executable, '-c', program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdout.readline()
    with contextlib.closing(sqlite3.connect('run.db')) as recording:  # only samples see more than one process
        largest = 'SELECT max(combined_total_rss) > 400000000 FROM readings'
        until(lambda: recording.execute(largest).fetchone()[0])
    child.communicate(b'')

def work():
    with gput.region('a thread of its own'):
        pass

def test_thread():
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
"""


FORKS = """
import importlib, json, os, sys
import pytest
from _pytest.config import default_plugins

for name in default_plugins:
    importlib.import_module(f'_pytest.{name}')
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        folder, options = json.loads(line)
        os.chdir(folder)
        for number, path in enumerate((os.devnull, 'out', 'err')):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC), number)
        sys.exit(pytest.main(options))
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
"""Runs pytest once for each line, in a fork: importing pytest takes longer than the tests here."""


def write(folder: Path, text: str) -> None:
    """Write a test file and the configuration of pytest."""
    (folder / 'test_it.py').write_text(text)
    (folder / 'pytest.ini').write_text('[pytest]\naddopts = --strict-markers\nfilterwarnings = error\n')


def environment(**variables: str) -> dict[str, str]:
    """Return an environment without the variables of this run of pytest."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(('PYTEST', 'GPU_TRACKER'))}
    return {**kept, **variables}


@pytest.fixture(scope='module')
def forks() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, '-c', FORKS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD='1'),
    ) as process:
        yield process
        process.communicate()


@pytest.fixture
def pytest_run(forks: subprocess.Popen[str], tmp_path: Path) -> Pytest:
    """Return a function that runs pytest on one file with ``text`` in ``tmp_path``."""

    def run(text: str, *options: str) -> subprocess.CompletedProcess[str]:
        write(tmp_path, text)
        xdist = ['-p', 'xdist'] if '-n' in options else []
        words = ['-p', 'no:cacheprovider', '-v', '-p', 'gpu_tracker.pytest_plugin', *xdist, *options]
        forks.stdin.write(f'{json.dumps([str(tmp_path), words])}\n')
        forks.stdin.flush()
        code = int(forks.stdout.readline())
        out, err = ((tmp_path / name).read_text() for name in ('out', 'err'))
        for name in ('out', 'err'):
            (tmp_path / name).unlink()
        return subprocess.CompletedProcess(words, code, out, err)

    return run


def regions(path: Path) -> list[str]:
    with gput.load(path) as recording:
        assert recording.meta.is_complete
        return [region.name for region in recording.regions]


def test_each_test_is_a_region(tmp_path: Path) -> None:
    write(tmp_path, TESTS)
    plugin = [] if IS_INSTALLED else ['-p', 'gpu_tracker.pytest_plugin']
    done = subprocess.run(
        [*(sys.executable, '-m', 'pytest', '-p', 'no:cacheprovider', '-v'), *plugin, '--track', '--track-file=run.db'],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stdout
    names = ['test_small[1]', 'test_small[2]', 'test_large', 'test_skipped']
    assert regions(tmp_path / 'run.db') == [f'test_it.py::{name}' for name in names]
    (large,) = [line for line in done.stdout.splitlines() if re.match(r' +[0-9.]+ .*::test_large$', line)]
    assert float(large.split()[2]) > 300


def test_without_a_file_nothing_is_left(tmp_path: Path, pytest_run: Pytest) -> None:
    done = pytest_run(TESTS, '--track')
    assert done.returncode == 0, done.stdout
    assert 'tracked tests' in done.stdout
    assert sorted(name for name in os.listdir(tmp_path) if name != '__pycache__') == ['pytest.ini', 'test_it.py']


def test_a_file_of_others_is_refused_before_tests_run(tmp_path: Path, pytest_run: Pytest) -> None:
    (tmp_path / 'run.db').write_text('mine')
    done = pytest_run(TESTS, '--track', '--track-file=run.db')
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--track-file must be a new file, or an older recording, also of gpu-tracker 5, not 'run.db'" in done.stderr
    assert 'test_small' not in done.stdout


@pytest.mark.parametrize(
    ('options', 'said'),
    [
        (['--track-file=run.db'], '--track-file needs --track'),
        (['--track-overwrite'], '--track-overwrite needs --track'),
        (['--track', '--track-file=run.csv'], 'must not end in .csv'),
        (['--track', '--track-file=run.db/'], '--track-file must be the path of a file'),
        (['--track', '--track-file='], '--track-file must be the path of a file'),
        (['--track', '--track-file=nowhere/run.db'], 'a path in a folder that exists'),
    ],
)
def test_what_does_not_go_together_is_said(pytest_run: Pytest, options: list[str], said: str) -> None:
    done = pytest_run(TESTS, *options)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert said in done.stderr


def test_where_no_test_runs_there_is_no_file(tmp_path: Path, pytest_run: Pytest) -> None:
    done = pytest_run(TESTS, '--track', '--track-file=run.db', '-k', 'nonesuch')
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED
    assert not (tmp_path / 'run.db').exists()


def test_each_worker_has_a_file(tmp_path: Path, pytest_run: Pytest) -> None:
    done = pytest_run(TESTS, '--track', '--track-file=run.db', '-n', '2')
    assert done.returncode == 0, done.stdout
    files = sorted(tmp_path.glob('run-gw*.db'))
    assert sorted(name for path in files for name in regions(path)) == [
        'test_it.py::test_large', 'test_it.py::test_skipped', 'test_it.py::test_small[1]', 'test_it.py::test_small[2]',
    ]  # fmt: skip
    assert 'test_it.py::test_large' in done.stdout.partition('tracked tests')[2]


def test_a_file_of_a_worker_that_cannot_be_made_is_said_before_workers_start(
    tmp_path: Path, pytest_run: Pytest
) -> None:
    (tmp_path / 'run-gw1.db').write_text('something else')
    done = pytest_run(TESTS, '--track', '--track-file=run.db', '--track-overwrite', '-n', '2')
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "not 'run-gw1.db'" in done.stderr
    assert (tmp_path / 'run-gw1.db').read_text() == 'something else'


@pytest.mark.parametrize('workers', [[], ['-n', '1']])
def test_limits_fail_what_has_used_more(pytest_run: Pytest, workers: list[str]) -> None:
    done = pytest_run(LIMITS, *workers)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    results = dict(
        reversed(pair)
        for pair in re.findall(r'(PASSED|FAILED|SKIPPED)(?: \[ *\d+%\])? +test_it.py::(\w+)', done.stdout)
    )
    results |= dict(re.findall(r'test_it.py::(\w+) (PASSED|FAILED|SKIPPED)', done.stdout))
    assert results == {
        'test_within': 'PASSED',
        'test_child_is_too_large': 'FAILED',
        'test_too_long': 'FAILED',
        'test_fails_by_itself': 'FAILED',
        'test_is_skipped': 'SKIPPED',
    }
    assert re.search(r'limit_ram: the peak RAM of .* was [45]\d\d(\.\d)? MB; the limit is 200 MB', done.stdout)
    assert re.search(r'limit_time: the time of the test was \d.* m?s; the limit is 50 ms', done.stdout)
    assert 'ValueError: its own' in done.stdout
    assert 'the limit is 1 ms' not in done.stdout


@pytest.mark.parametrize('given', ["'many'", "'2 s'", '200', '', "'0 MB'", "'1 MB', '2 MB'", "limit='1 MB'"])
def test_a_wrong_limit_is_said_before_any_test_runs(pytest_run: Pytest, given: str) -> None:
    text = f'import pytest\n\ndef test_first(): pass\n\n@pytest.mark.limit_ram({given})\ndef test_wrong(): pass\n'
    done = pytest_run(text)
    assert done.returncode == pytest.ExitCode.INTERRUPTED
    assert "test_it.py::test_wrong: limit_ram needs one limit such as '200 MB', not (" in done.stdout
    assert 'PASSED' not in done.stdout


def test_a_wrong_limit_is_said_by_workers(pytest_run: Pytest) -> None:
    done = pytest_run("import pytest\n\n@pytest.mark.limit_ram('many')\ndef test_wrong(): pass\n", '-n', '1')
    assert done.returncode == pytest.ExitCode.TESTS_FAILED  # as xdist has it where a file cannot be collected
    assert "test_it.py::test_wrong: limit_ram needs one limit such as '200 MB', not ('many')" in done.stdout
    assert 'INTERNALERROR' not in done.stdout


def test_a_limit_that_cannot_be_checked_fails_after_the_test(tmp_path: Path, pytest_run: Pytest) -> None:
    text = """
        import pytest

        @pytest.mark.limit_ram('5 GB')
        def test_it():
            print('has run')
    """
    (tmp_path / 'conftest.py').write_text("import os\n\nos.environ['GPU_TRACKER_READER'] = 'none'\n")
    done = pytest_run(textwrap.dedent(text))
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert 'limit_ram: the peak RAM of pytest and the processes of the test is unknown (' in done.stdout
    assert 'GPU_TRACKER_READER must be proc or psutil' in done.stdout
    assert 'has run' in done.stdout


def test_children_count_and_other_regions_are_no_tests(pytest_run: Pytest) -> None:
    done = pytest_run(OF_CHILDREN, '--track', '--track-file=run.db')
    assert done.returncode == 0, done.stdout
    shown = done.stdout.partition('tracked tests')[2]
    (child,) = [line for line in shown.splitlines() if line.endswith('::test_child')]
    assert float(child.split()[2]) > 300
    assert 'a thread of its own' not in shown


def test_a_folder_that_tests_change_is_not_that_of_the_file(tmp_path: Path, pytest_run: Pytest) -> None:
    (tmp_path / 'other').mkdir()
    done = pytest_run("import os\n\nos.chdir('other')\n\ndef test_it(): pass\n", '--track', '--track-file=run.db')
    assert done.returncode == 0, done.stdout
    assert regions(tmp_path / 'run.db') == ['test_it.py::test_it']


def test_a_forked_process_leaves_the_recording_alone(pytest_run: Pytest) -> None:
    text = """
        import os

        def test_it():
            child = os.fork()
            if not child:
                raise SystemExit(0)
            os.waitpid(child, 0)
    """
    done = pytest_run(textwrap.dedent(text), '--track')
    assert done.returncode == 0, done.stdout
    assert '::test_it' in done.stdout.rpartition('tracked tests')[2]


def test_a_worker_that_cannot_record_runs_its_tests(tmp_path: Path, pytest_run: Pytest) -> None:
    text = """
        import os
        import pytest

        @pytest.mark.parametrize('number', range(4))
        def test_it(number):
            if not number:
                os._exit(3)
    """
    (tmp_path / 'run-gw1.db').write_text('something else')  # of the worker that takes the place of the first
    done = pytest_run(textwrap.dedent(text), '--track', '--track-file=run.db', '-n', '1')
    assert '1 failed, 3 passed' in done.stdout
    assert (tmp_path / 'run-gw1.db').read_text() == 'something else'
    assert 'gw0 ended early' in done.stdout


def test_a_run_that_asks_for_nothing_imports_nothing() -> None:
    program = (
        'import sys, gpu_tracker.pytest_plugin\n'
        'print([name for name in sys.modules if name.startswith("gpu_tracker.") or name in ("sqlite3", "psutil")])'
    )
    done = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True, check=True)
    assert (
        done.stdout
        == "['gpu_tracker.real', 'gpu_tracker.version', 'gpu_tracker.errors', 'gpu_tracker.pytest_plugin']\n"
    )
