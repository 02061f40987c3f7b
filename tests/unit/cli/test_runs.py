from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from support.cli_program import called
from support.recordings import busy_rows, totals_of, write_recording

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the user's runs, with two kept ones; the second has ended last."""
    monkeypatch.setenv('XDG_STATE_HOME', str(tmp_path / 'state'))
    monkeypatch.setenv('TMPDIR', str(tmp_path / 'no-tmp'))
    monkeypatch.setenv('TZ', 'UTC')
    (tmp_path / 'here').mkdir()
    monkeypatch.chdir(tmp_path / 'here')
    folder = tmp_path / 'state' / 'gpu-tracker' / 'runs'
    folder.mkdir(parents=True, mode=0o700)
    folder.parent.chmod(0o700)
    for number, code in ((1, 0), (2, -9)):
        meta = {'exit_code': code, 'command': json.dumps(['train', str(number)])}
        path = write_recording(folder / f'{number}.db', rows=busy_rows(3), meta=meta)
        os.utime(path, (number, number))
    return folder


def printed(*words: str) -> str:
    done = called(*words)
    assert (done.returncode, done.stderr) == (0, '')
    return done.stdout


def refused(*words: str) -> str:
    done = called(*words)
    assert (done.returncode, done.stdout) == (125, '')
    return done.stderr


def test_the_list(runs: Path) -> None:
    lines = printed('runs').splitlines()
    assert lines[0].split() == ['Run', 'Started', 'Time', 'Exit', 'Max', 'RAM', 'GPU', 'RAM', 'Command']
    assert [(line.split()[0], line.split()[5], line[-7:]) for line in lines[1:]] == [
        ('1', '0', 'train 1'),
        ('2', 'SIGKILL', 'train 2'),
    ]


def test_a_bound_that_says_nothing_is_not_in_the_list(runs: Path) -> None:
    totals = totals_of()
    totals['lower_bounds'] = ['max_ram.combined.total_rss']
    totals['ram']['combined'][0] = 12_300
    write_recording(runs / '3.db', rows=busy_rows(3), meta={'totals': json.dumps(totals)})
    assert '  too short  ' in printed('runs').splitlines()[3]


def test_the_list_by_use(runs: Path) -> None:
    totals = totals_of()
    totals['ram']['combined'][0] *= 2
    write_recording(runs / '3.db', rows=busy_rows(3), meta={'totals': json.dumps(totals)})
    assert [line.split()[0] for line in printed('runs', '--sort=ram').splitlines()[1:]] == ['3', '1', '2']
    assert refused('runs', '--sort=pid').startswith("gpu-tracker: --sort must be time, ram or gpu-ram, not 'pid'")


def test_the_list_for_programs(runs: Path) -> None:
    first, second = json.loads(printed('runs', '--json'))
    assert (first['id'], first['command'], first['exit_code']) == ('1', ['train', '1'], 0)
    assert (second['id'], second['path'], second['exit_code']) == ('2', f'{runs}/2.db', -9)


@pytest.mark.parametrize('words', [(), ('last',), ('2',)])
def test_the_last_run_is_shown_by_its_number_and_without_one(runs: Path, words: tuple[str, ...]) -> None:
    assert printed('show', *words).startswith('train 2\n')
    assert printed('export', *words, '--format=csv').startswith('t,')


def test_a_killed_run_that_is_recorded_may_be_the_last(runs: Path) -> None:
    (runs / '1.db').rename(runs / '20260101-000000-abcdef.db')
    (runs / '20260101-000000-abcdef.run').write_bytes(b'')
    os.utime(runs / '20260101-000000-abcdef.db', (9, 9))
    assert refused('show') == (
        f'gpu-tracker: {runs}/20260101-000000-abcdef.run has nothing to show, '
        'because its run ended normally or never started\n'
    )


def test_the_page_of_a_run_is_in_the_present_folder(runs: Path, tmp_path: Path) -> None:
    assert called('report').stderr == 'The report is in run-2.html\n'
    assert called('report', '1').stderr == 'The report is in run-1.html\n'
    assert sorted(os.listdir(tmp_path / 'here')) == ['run-1.html', 'run-2.html']
    assert sorted(os.listdir(runs)) == ['1.db', '2.db']


def test_the_last_two_runs_are_compared(runs: Path) -> None:
    assert printed('compare').splitlines()[0] == '1 run of run 1, 1 run of run 2'
    (runs / '1.db').unlink()
    assert refused('compare').startswith(
        'gpu-tracker: compare needs two groups of recordings with different names, as in: gpu-tracker compare '
    )


def test_a_file_comes_before_a_run_of_that_name(runs: Path, tmp_path: Path) -> None:
    for name in ('1', 'last'):
        write_recording(tmp_path / 'here' / name, rows=busy_rows(3), meta={'command': '["mine"]'})
        assert printed('show', name).startswith('mine\n')


def test_a_run_that_is_not_there_is_named(runs: Path) -> None:
    for command in (('show', '3'), ('report', '3'), ('runs', '--remove=3')):
        assert refused(*command) == 'gpu-tracker: there is no run 3: list the runs with "gpu-tracker runs"\n'
    called('runs', '--remove=all')
    assert refused('report') == 'gpu-tracker: there is no run yet: start one with gpu-tracker COMMAND\n'
    assert printed('runs') == ''


def test_watch_names_the_command_for_runs_that_ended(runs: Path) -> None:
    assert refused('watch', 'last') == (
        'gpu-tracker: watch shows only runs in progress. For the last finished run, use gpu-tracker show\n'
    )


def test_runs_are_removed(runs: Path) -> None:
    assert called('runs', '--remove=1').stderr == 'Removed: 1\n'
    assert (
        called('runs', '--remove=2,1').stderr
        == 'gpu-tracker: there is no run 1: list the runs with "gpu-tracker runs"\n'
    )
    assert os.listdir(runs) == ['2.db']
    assert called('runs', '--remove=all').stderr == 'Removed: 2\n'
    assert called('runs', '--remove=all').stderr == 'Removed: nothing\n'
    assert os.listdir(runs) == []


def test_a_damaged_recording_is_reported_and_can_be_removed(runs: Path) -> None:
    (runs / '1.db').write_bytes(b'x' * 100)
    done = called('runs')
    assert done.returncode == 0
    assert done.stderr.startswith(f'gpu-tracker: {runs}/1.db ')
    assert len(done.stdout.splitlines()) == 2
    assert called('runs', '--remove=1').returncode == 0
