"""Runs that are kept: which, where, and what happens if that is not possible."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
from typing import TYPE_CHECKING

import pytest

import gpu_tracker as gput
from gpu_tracker.running import numbered_runs
from support.cli_program import PROGRAM, called, gpu_tracker, started
from support.live_screens import ENTER, on_terminal
from support.tracked_program import start
from support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the user's runs, which does not exist yet."""
    for name in ('GPU_TRACKER_KEEP', 'CI'):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv('XDG_STATE_HOME', str(tmp_path / 'state'))
    monkeypatch.setenv('TMPDIR', str(tmp_path / 'tmp'))
    (tmp_path / 'state').mkdir()
    (tmp_path / 'tmp').mkdir()
    return tmp_path / 'state' / 'gpu-tracker' / 'runs'


def test_each_command_is_kept_with_its_end(state: Path) -> None:
    assert gpu_tracker('sh', '-c', 'exit 3').returncode == 3
    assert gpu_tracker('-f', 'summary', 'sh', '-c', 'kill -9 $$').returncode == 137
    assert gpu_tracker('-e', 'exit 4').returncode == 4
    assert sorted(os.listdir(state)) == ['1.db', '2.db']
    assert stat.S_IMODE((state / '1.db').stat().st_mode) == 0o600
    with gput.load(state / '1.db') as first, gput.load(state / '2.db') as second:
        assert (first.meta.command, first.meta.exit_code, first.meta.folder) == (('sh', '-c', 'exit 3'), 3, os.getcwd())
        assert (second.meta.exit_code, second.meta.is_complete) == (-9, True)
        assert second.summary().max_ram.combined.total_rss is not None


def test_regions_are_kept(state: Path) -> None:
    assert gpu_tracker(*PROGRAM, 'region', 'step', '--', 'true').returncode == 0
    with gput.load(state / '1.db') as recording:
        assert [region.name for region in recording.regions] == ['step']


def test_a_run_with_a_live_view_is_kept(state: Path, tmp_path: Path) -> None:
    redirected = f'exec "$@" > {tmp_path}/out.txt 2>&1'
    words = ['sh', '-c', redirected, 'sh', *PROGRAM, '--live', 'sh', '-c', 'sleep 0.3; exit 3']
    with on_terminal(words) as terminal:
        assert terminal.wait() == 3
    assert terminal.shown.count(ENTER) == 1
    assert os.listdir(state) == ['1.db']
    assert os.listdir(tmp_path / 'tmp') == []
    with gput.load(state / '1.db') as recording:
        assert (recording.meta.exit_code, recording.meta.is_complete) == (3, True)


def test_a_command_that_cannot_start_leaves_nothing(state: Path, tmp_path: Path) -> None:
    (tmp_path / 'script').write_text('#!/nowhere\n')
    (tmp_path / 'script').chmod(0o755)
    assert gpu_tracker(str(tmp_path / 'script')).returncode == 127
    assert os.listdir(state) == []


@pytest.mark.parametrize('folder', ['state', 'runs'])
def test_a_folder_that_cannot_be_written_costs_the_run_nothing(state: Path, tmp_path: Path, folder: str) -> None:
    for place in (tmp_path / 'state', tmp_path / 'tmp') if folder == 'state' else ():
        (place / 'gpu-tracker').write_text('a file in the way')
        (place / f'gpu-tracker-{os.geteuid()}').write_text('a file in the way')
    if folder == 'runs':
        state.mkdir(parents=True)
        state.parent.chmod(0o777)  # others might write there
        (tmp_path / 'tmp' / f'gpu-tracker-{os.geteuid()}').write_text('a file in the way')
    done = gpu_tracker('-q', '-f', 'summary', 'sh', '-c', 'exit 3')
    assert (done.returncode, done.stderr) == (3, '')
    assert done.stdout.startswith('Time ')


def test_a_folder_that_is_removed_meanwhile_costs_the_run_nothing(state: Path) -> None:
    done = gpu_tracker('-q', '-f', 'summary', 'sh', '-c', f'rm -r {state}; sleep 0.5; exit 3')
    assert (done.returncode, done.stderr) == (3, '')
    assert done.stdout.startswith('Time ')


def test_a_killed_tracker_leaves_a_killed_run_with_its_recording(state: Path) -> None:
    code = 'import time; print(flush=True); time.sleep(60)'
    with started('-q', sys.executable, '-c', code, stdin=-3, start_new_session=True) as process:
        assert process.stdout.readline() == '\n'
        eventually(lambda: [name for name in os.listdir(state) if name.endswith('.db')])
        os.killpg(process.pid, signal.SIGKILL)
    name = eventually(numbered_runs.newest)
    (entry,) = eventually(lambda: json.loads(called('runs', '--json').stdout))
    assert entry['id'] == name
    with gput.load(state / f'{name}.db') as recording:
        assert recording.meta.command == (sys.executable, '-c', code)
        assert not recording.meta.is_complete


def test_a_tracker_that_is_killed_before_its_command_starts_leaves_nothing(state: Path, tmp_path: Path) -> None:
    code = """
import os, signal
from gpu_tracker.cli import main
from gpu_tracker.running import held_command
def killed(self):
    os.kill(os.getpid(), signal.SIGKILL)
held_command.HeldCommand.release = killed
main(['true'])
"""
    with start(code) as program:
        assert program.wait() == -signal.SIGKILL
    assert eventually(lambda: state.exists() and os.listdir(state) == [])
    assert os.listdir(tmp_path / 'tmp') == []
