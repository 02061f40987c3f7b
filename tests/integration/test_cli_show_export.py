"""``gpu-tracker show`` and ``gpu-tracker export`` as users run them."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.recording.reading import shown
from gpu_tracker.recording.reading.recording import load
from support.cli_program import PROGRAM, Terminal, called, gpu_tracker, shell
from support.recordings import busy_rows, region, write_recording
from support.trace_rules import checked
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from pathlib import Path

FAILURE = 125
READER_GONE = 141


@pytest.fixture
def file(tmp_path: Path) -> str:
    regions = [region(1, 'train', 0.5, 9.5), region(2, 'step', 1.0, 2.0, parent=1)]
    return write_recording(tmp_path / 'run.db', rows=busy_rows(), regions=regions)


def test_show_prints_what_there_is_to_see(file: str) -> None:
    done = gpu_tracker('show', file)
    with load(file) as recording:
        assert (done.returncode, done.stdout, done.stderr) == (0, f'{shown.as_text(recording)}\n', '')


def test_show_prints_json(file: str) -> None:
    done = called('show', '-f', 'json', file)
    assert (done.returncode, done.stderr) == (0, '')
    assert [one['path'] for one in json.loads(done.stdout)['regions']] == [['train'], ['train', 'step']]


def test_a_result_can_have_other_units_than_its_run(file: str) -> None:
    with load(file) as recording:
        usage = recording.summary()
    assert (usage.max_ram.unit, usage.compute_time.unit) == ('megabytes', 'seconds')
    found = json.loads(called('show', '--json', '--ru=B', '--gru=GiB', '--tu=min', file).stdout)['summary']
    assert [found['max_ram']['unit'], found['max_gpu_ram']['unit']] == ['bytes', 'gibibytes']
    assert found['max_ram']['combined']['total_rss'] == pytest.approx(usage.max_ram.combined.total_rss * 1e6)
    assert found['compute_time'] == {'unit': 'minutes', 'time': pytest.approx(usage.compute_time.time / 60)}
    shown_lines = called('show', '--ru=auto', '--tu=auto', file).stdout.splitlines()
    assert shown_lines[shown_lines.index('Compute time:') + 1] == '   Time: 735.8 ms'
    assert f'      Total RSS: {usage.max_ram.combined.total_rss:.4g} MB' in shown_lines


def test_show_writes_a_file(file: str, tmp_path: Path) -> None:
    done = called('show', file, '-o', str(tmp_path / 'out.txt'))
    assert (done.returncode, done.stdout, done.stderr) == (0, '', '')
    assert (tmp_path / 'out.txt').read_text().startswith('python train.py\n')


def test_a_dash_is_standard_output(file: str, tmp_path: Path) -> None:
    for words in (['show', file], ['export', file, '-f', 'csv']):
        plain, dash = called(*words), called(*words, '-o', '-', cwd=tmp_path)
        assert (dash.returncode, dash.stdout) == (0, plain.stdout)
    assert os.listdir(tmp_path) == ['run.db']


def test_show_fits_a_terminal(file: str) -> None:
    with Terminal([*PROGRAM, 'show', file], {**os.environ, 'COLUMNS': '60'}) as terminal:
        assert terminal.wait() == 0
        lines = terminal.shown.splitlines()
    (title,) = (line for line in lines if line.startswith('Region'))
    assert title == 'Region  Calls  Time s  Share  All CPU s  RAM MB  GPU %'


@pytest.mark.parametrize('command', [('show',), ('export', '-f', 'csv')])
def test_what_is_read_is_never_written(file: str, command: tuple[str, ...]) -> None:
    done = called(*command, file, '-o', file)
    assert (done.returncode, done.stdout) == (FAILURE, '')
    assert done.stderr == f'gpu-tracker: {file} is the recording itself: choose another path for the export\n'
    assert called('show', file).returncode == 0


@pytest.mark.parametrize('command', [('show',), ('export', '-f', 'csv')])
def test_what_is_no_recording_is_said_in_a_line(tmp_path: Path, command: tuple[str, ...]) -> None:
    path = tmp_path / 'x\x1b[2J.db'
    path.write_text('hello')
    done = called(*command, str(path))
    assert (done.returncode, done.stdout) == (FAILURE, '')
    assert done.stderr == (f'gpu-tracker: {tmp_path}/x?[2J.db is not a gpu-tracker recording\n')


FIT = 'these arguments do not fit. Usage:\n'


@pytest.mark.parametrize(
    ('arguments', 'said'),
    [
        (
            ('show', 'x', '--ru=pages'),
            ("--ru must be bytes, kilobytes, megabytes, gigabytes or terabytes, or short as GB or GiB, not 'pages'"),
        ),
        (
            ('show', '.', '--tu=s'),
            ". is the folder of a job: leave out the options for units\nTry 'gpu-tracker show --help'.",
        ),
        (('show', 'x', '-f', 'xml'), "--format must be text, json or summary, not 'xml'"),
        (
            ('export', 'x', '-f', 'xml'),
            "--format must be one of csv, jsonl, parquet, chrome-trace, sub-tracking, not 'xml'",
        ),
        (('show', 'x', 'y'), f"{FIT}  gpu-tracker show [<file>] [options]\nTry 'gpu-tracker show --help'."),
        (
            ('export', 'x'),
            (
                '--format is missing. Usage:\n  gpu-tracker export [<file>] --format=<format> [options]\n'
                "Try 'gpu-tracker export --help'."
            ),
        ),
        (('show', 'no.db'), 'cannot read no.db: No such file or directory'),
    ],
)
def test_what_was_asked_wrongly_is_said(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    done = called(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (FAILURE, '', f'gpu-tracker: {said}\n')


@pytest.mark.parametrize('command', ['show', 'export'])
def test_help_fits_a_terminal(command: str) -> None:
    done = called(command, '--help')
    assert (done.returncode, done.stderr) == (0, '')
    assert f'gpu-tracker {command} [<file>]' in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_export_writes_standard_output(file: str) -> None:
    done = called('export', file, '-f', 'csv')
    assert (done.returncode, done.stderr) == (0, '')
    assert done.stdout.startswith('t,main_gpu_ram,')
    assert done.stdout.count('\n') == 12


def test_export_writes_a_trace_that_is_right(file: str, tmp_path: Path) -> None:
    target = tmp_path / 'trace.json'
    done = called('export', file, '-f', 'chrome-trace', '-o', str(target))
    assert (done.returncode, done.stdout, done.stderr) == (0, '', '')
    assert [event['name'] for event in checked(target.read_bytes()) if event['ph'] == 'X'] == ['train', 'step']


def test_export_writes_no_parquet_to_a_terminal(file: str) -> None:
    with Terminal([*PROGRAM, 'export', file, '-f', 'parquet']) as terminal:
        assert terminal.wait() == FAILURE
        assert terminal.shown == (
            "gpu-tracker: -f parquet needs --output, because the format is binary\nTry 'gpu-tracker export --help'.\n"
        )


def test_export_writes_parquet_to_standard_output(file: str) -> None:
    pytest.importorskip('pyarrow', reason='needs the package pyarrow')
    done = called('export', file, '-f', 'parquet')
    assert (done.returncode, done.stderr) == (0, '')
    assert (done.stdout[:4], done.stdout[-4:]) == ('PAR1', 'PAR1')


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    path = write_recording(tmp_path / 'run.db', rows=busy_rows(3000))
    done = shell('"$@" | head -n 1; exit ${PIPESTATUS[0]}', 'export', path, '-f', 'csv')
    assert (done.returncode, done.stderr) == (READER_GONE, '')
    assert done.stdout.startswith('t,')


def test_a_full_disk_is_said(file: str) -> None:
    done = shell('"$@" > /dev/full', 'show', file)
    assert done.returncode == FAILURE
    assert done.stderr == 'gpu-tracker: cannot write to standard output: No space left on device\n'


def test_a_file_that_was_cut_off_is_salvaged(tmp_path: Path) -> None:
    path = write_recording(tmp_path / 'run.db', rows=busy_rows(2000))
    os.truncate(path, os.path.getsize(path) * 3 // 4)
    refused = called('show', path)
    assert refused.returncode == FAILURE
    assert 'is damaged (database disk image is malformed): ' in refused.stderr
    assert '--salvage (or salvage=True) reads it as far as it goes' in refused.stderr
    done = called('export', path, '-f', 'csv', '--salvage')
    assert (done.returncode, done.stderr) == (0, '')
    assert done.stdout.count('\n') > 1000
    assert called('show', path, '--salvage').returncode == 0


_WRITER = """
import sqlite3, sys, time
writer = sqlite3.connect(sys.argv[1], isolation_level=None)
writer.execute('PRAGMA journal_mode = PERSIST').fetchone()
writer.execute('PRAGMA synchronous = OFF')
writer.execute('PRAGMA cache_size = 5')
t = 10_000_000
while True:
    begun = time.monotonic()
    writer.execute('BEGIN IMMEDIATE')
    for _ in range(2000):
        t += 1
        writer.execute('INSERT INTO samples (t) VALUES (?)', (t,))
    writer.execute('COMMIT')
    print(t, flush=True)
    time.sleep(max(0.05, time.monotonic() - begun))  # or reading would never be done, on a busy machine too
"""


def test_a_file_that_is_being_written_is_read_and_a_killed_one_as_well(file: str) -> None:
    with subprocess.Popen(
        [sys.executable, '-c', _WRITER, file], stdout=subprocess.PIPE, text=True, stderr=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        try:
            committed = int(writer.stdout.readline())
            for _ in range(3):
                with load(file) as recording:
                    times = [round(row.t * 1e6) for row in recording.samples]
                assert times[11:] == list(range(10_000_001, 10_000_001 + len(times) - 11))
                assert (len(times) - 11) % 2000 == 0
                assert times[-1] >= committed
        finally:
            writer.send_signal(signal.SIGKILL)
            rest = writer.stdout.read()
    # The last line may have been cut by the kill.
    committed = max([committed, *map(int, rest[: rest.rfind('\n') + 1].split())])
    with load(file) as recording:
        last = round(max(row.t for row in recording.samples) * 1e6)
    assert last >= committed
    assert (last - 10_000_000) % 2000 == 0


def test_a_file_that_another_program_locks_is_waited_for(file: str) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as writer:
        writer.execute('BEGIN EXCLUSIVE')
        with subprocess.Popen(
            [*PROGRAM, 'export', file, '-f', 'csv'], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as reader:
            eventually(lambda: _has_open(reader.pid, file))
            writer.execute('ROLLBACK')
            out, errors = reader.communicate(timeout=TIMEOUT)
    assert (reader.returncode, errors) == (0, '')
    assert out.count('\n') == 12


def _has_open(process_id: int, file: str) -> bool:
    folder = f'/proc/{process_id}/fd'
    try:
        return any(os.readlink(f'{folder}/{name}') == file for name in os.listdir(folder))
    except OSError:
        return False
