"""Recordings of real runs: of commands, of processes and of programs that track themselves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

import gpu_tracker as gput
from gpu_tracker.cli import main
from support.cli_program import Marked, gpu_tracker, number_in, started
from support.deadlines import UNTIL, until
from support.recorder_runs import meta_of, rows_of
from support.recordings import write_recording
from support.tracked_program import run
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from pathlib import Path

WITH_A_REGION = (
    r'printf "B\t1\t-\t$$\t1\t-\t$(($(cut -d. -f1 /proc/uptime) * 1000000000))\t-\t-\tstep\t-\n"'
    ' >> $GPU_TRACKER_REGIONS'
)


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_a_command_is_recorded_from_its_start_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / 'run.db'
    report = tmp_path / 'report.json'
    words = ['-f', 'json', '-o', str(report), '--tu=seconds', f'--tf={path}', '--st=0.05']
    done = gpu_tracker(*words, '-e', 'sleep 0.3; exit 3', cwd=tmp_path)
    assert done.returncode == 3
    assert names(tmp_path) == ['report.json', 'run.db']
    meta = meta_of(path)
    assert (meta['ended'], meta['exit_code'], meta['folder']) == ('stopped', 3, str(tmp_path))
    assert json.loads(meta['command'])[-1] == 'sleep 0.3; exit 3'
    assert json.loads(meta['units']) == ['gigabytes', 'gigabytes', 'seconds', None]
    times = [t for (t,) in rows_of(path, 'SELECT t FROM samples')]
    assert times[0] == 0
    assert times[-1] >= 290_000
    assert times == sorted(times)
    totals = json.loads(meta['totals'])
    reported = json.loads(report.read_text())
    assert totals['record']['tracked_seconds'] == reported['compute_time']['time']
    assert totals['ram']['combined'][0] / 1e9 == reported['max_ram']['combined']['total_rss']


def test_the_largest_sample_is_no_more_than_the_result_says(tmp_path: Path) -> None:
    path = tmp_path / 'run.db'
    program = f"""{UNTIL}
import sqlite3
held = bytearray(50_000_000)
recording = sqlite3.connect(sys.argv[1])
until(lambda: recording.execute('SELECT max(main_total_rss) > 50000000 FROM readings').fetchone()[0])
"""
    done = gpu_tracker(f'--tf={path}', '--st=0.02', '--', sys.executable, '-c', program, str(path))
    assert done.returncode == 0
    [(largest, last)] = rows_of(path, 'SELECT max(main_total_rss), max(main_cpu) FROM readings')
    totals = json.loads(meta_of(path)['totals'])
    assert 50_000_000 < largest <= totals['ram']['main'][0] + 1024
    assert 0 < last <= totals['cpu']['main'][0] + 1e-4


def test_a_signal_that_has_ended_the_command_is_its_exit_code(tmp_path: Path) -> None:
    path = tmp_path / 'run.db'
    assert gpu_tracker(f'--tf={path}', '-e', 'kill -9 $$').returncode == 137
    assert meta_of(path)['exit_code'] == -9


def test_a_command_that_cannot_be_started_leaves_no_file(tmp_path: Path) -> None:
    assert gpu_tracker(f'--tf={tmp_path}/run.db', '--', 'no-such-program').returncode == 127
    assert names(tmp_path) == []


def test_a_command_that_cannot_be_started_leaves_the_older_recording(tmp_path: Path) -> None:
    path, script = tmp_path / 'run.db', tmp_path / 'script'
    write_recording(path)
    before = path.read_bytes()
    script.write_text('#!/no/such/interpreter\n')
    script.chmod(0o755)
    assert gpu_tracker(f'--tf={path}', '--overwrite', '--', str(script)).returncode == 127
    assert path.read_bytes() == before
    assert names(tmp_path) == ['run.db', 'script']


def test_a_file_of_others_is_refused_before_the_command_starts(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / 'run.db'
    path.write_text('mine')
    assert main([f'--tf={path}', '-e', f'touch {tmp_path}/started']) == 125
    assert capfd.readouterr().err == (
        f'gpu-tracker: --tf must be a new file, or an older recording, also of gpu-tracker 5, not {str(path)!r}\n'
    )
    assert names(tmp_path) == ['run.db']
    assert path.read_text() == 'mine'


def test_the_name_holds_the_newest_run_and_one_line_names_the_older_one(tmp_path: Path) -> None:
    path = tmp_path / 'run.db'
    assert gpu_tracker(f'--tf={path}', '-e', 'exit 2').returncode == 2
    again = gpu_tracker(f'--tf={path}', '-e', 'exit 3')
    assert again.stderr.splitlines()[0] == 'gpu-tracker: run.db: the older recording is now run-1.db.'
    assert (meta_of(path)['exit_code'], meta_of(tmp_path / 'run-1.db')['exit_code']) == (3, 2)
    with gput.Tracker(tracking_file=path, disable_logs=True):
        pass
    assert names(tmp_path) == ['run-1.db', 'run-2.db', 'run.db']


def test_a_recording_is_overwritten_where_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / 'run.db'
    write_recording(path)
    assert gpu_tracker('--tracking-file', str(path), '--overwrite', '-e', 'exit 2').returncode == 2
    assert meta_of(path)['exit_code'] == 2
    assert names(tmp_path) == ['run.db']


def test_without_a_recording_there_is_nothing_to_overwrite() -> None:
    run = gpu_tracker('--overwrite', '-e', 'exit 3')
    assert (run.returncode, run.stderr) == (3, 'Resource tracking complete. Process completed with status code: 3\n')


def test_figures_of_each_process_need_a_recording(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(['--per-process', '-e', 'true']) == 125
    assert capfd.readouterr().err.startswith('gpu-tracker: --per-process needs --record or --job')


def test_a_recording_does_not_go_where_the_report_goes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / 'run.db')
    assert main(['-o', path, f'--tf={path}', '-e', 'true']) == 125
    assert capfd.readouterr().err.startswith(f'gpu-tracker: --tf and --output name the same file: {path}')
    assert names(tmp_path) == []


def test_a_run_in_progress_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / 'run.db'
    with started(f'--tf={path}', '-e', f'echo $$ > {tmp_path}/pid; exec sleep 1000') as running:
        pid = number_in(tmp_path / 'pid')
        done = gpu_tracker(f'--tf={path}', '--overwrite', '-e', 'true')
        assert 'a file that no other run is writing' in done.stderr
        os.kill(pid, signal.SIGTERM)
        running.wait(TIMEOUT)
    assert meta_of(path)['exit_code'] == -15


def test_processes_have_rows_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / 'run.db'
    script = f'sleep {TIMEOUT} & {until(f"[ -e {tmp_path}/go ]")}; kill $!'
    with started(f'--tf={path}', '--per-process', '--st=0.02', '-e', script) as running:
        eventually(
            lambda: (
                path.exists()
                and path.stat().st_size
                and rows_of(path, 'SELECT count(*) > 10 FROM process_samples WHERE rss > 0') == [(1,)]
            )
        )
        (tmp_path / 'go').touch()
        running.wait(TIMEOUT)
    assert {name for (name,) in rows_of(path, 'SELECT name FROM processes')} >= {'sh', 'sleep'}


def test_a_process_that_runs_already_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / 'run.db'
    with (
        subprocess.Popen(['sleep', '1000']) as process,
        started(f'--tf={path}', f'--pid={process.pid}', '--st=0.02') as running,
    ):
        eventually(lambda: path.exists() and path.stat().st_size and 'totals' in meta_of(path))
        process.kill()
        running.wait(TIMEOUT)
    meta = meta_of(path)
    assert (meta['ended'], meta['exit_code'], json.loads(meta['command'])) == ('stopped', None, ['sleep', '1000'])


def test_the_regions_of_a_command_are_recorded_and_its_log_is_removed(tmp_path: Path) -> None:
    path = tmp_path / 'run.db'
    logs = tmp_path / 'logs'
    logs.mkdir()
    environment = {**os.environ, 'TMPDIR': str(logs)}
    assert gpu_tracker(f'--tf={path}', '-e', WITH_A_REGION, env=environment).returncode == 0
    assert rows_of(path, 'SELECT id, name, stop FROM regions') == [(1, 'step', None)]
    assert names(logs) == []


@pytest.mark.parametrize('options', [[], ['--tf=run.csv']])
def test_a_command_has_no_log_where_nothing_records_regions(tmp_path: Path, options: list[str]) -> None:
    done = gpu_tracker(*options, '-e', 'echo "<$GPU_TRACKER_REGIONS>"', cwd=tmp_path)
    assert '<>' in done.stdout


def test_the_log_of_a_tracker_that_was_killed_is_removed(tmp_path: Path) -> None:
    path = tmp_path / 'run.db'
    logs = tmp_path / 'logs'
    logs.mkdir()
    marked = Marked()
    environment = {**marked.environment, 'TMPDIR': str(logs)}
    with started(f'--tf={path}', '-e', f'{WITH_A_REGION}; sleep 1000', env=environment) as running:
        eventually(
            lambda: path.exists() and path.stat().st_size and names(logs) and (logs / names(logs)[0]).stat().st_size
        )
        running.kill()
        eventually(lambda: not names(logs))
        eventually(lambda: meta_of(path).get('ended') == 'abandoned')
        marked.kill()
    assert rows_of(path, 'SELECT name FROM regions') == [('step',)]


OWN = """
    import os, time
    import gpu_tracker as gput

    def region(number, name):
        with open(os.environ['GPU_TRACKER_REGIONS'].rpartition(os.pathsep)[2], 'a') as log:
            log.write(f'B\\t{number}\\t-\\t{os.getpid()}\\t1\\t-\\t{time.monotonic_ns()}\\t-\\t-\\t{name}\\t-\\n')
"""


def test_a_program_records_itself(tmp_path: Path) -> None:
    path = tmp_path / 'run.db'
    with gput.Tracker(sleep_time=0.02, tracking_file=path, disable_logs=True) as tracker:
        assert 'totals' in eventually(lambda: meta_of(path))
    meta = meta_of(path)
    assert (meta['ended'], meta['root_pid']) == ('stopped', os.getpid())
    assert json.loads(meta['totals'])['samples'] == tracker.sampling.samples
    assert names(tmp_path) == ['run.db']


def test_two_trackers_one_in_the_other_have_each_their_file(tmp_path: Path) -> None:
    program = (
        OWN
        + f"""
    with gput.Tracker(tracking_file={str(tmp_path / 'outer.db')!r}):
        with gput.Tracker(tracking_file={str(tmp_path / 'inner.db')!r}):
            region(1, 'both')
        region(2, 'outer')
    """
    )
    run(textwrap.dedent(program))
    assert rows_of(tmp_path / 'inner.db', 'SELECT name FROM regions') == [('both',)]
    assert names(tmp_path) == ['inner.db', 'outer.db']


def test_a_program_that_records_imports_no_database(tmp_path: Path) -> None:
    program = (
        OWN
        + f"""
    import sys
    with gput.Tracker(tracking_file={str(tmp_path / 'run.db')!r}):
        pass
    print(sorted({{'sqlite3', '_sqlite3', 'json', 'tempfile'}} & set(sys.modules)))
    """
    )
    assert run(textwrap.dedent(program)).stdout.strip() == '[]'


def test_a_sampler_that_was_killed_leaves_an_incomplete_file_and_a_result(tmp_path: Path) -> None:
    path = tmp_path / 'run.db'
    tracker = gput.Tracker(sleep_time=0.02, tracking_file=path, disable_logs=True)
    tracker.start()
    session = tracker._run.session
    assert session is not None
    assert session.pid is not None
    os.kill(session.pid, signal.SIGKILL)
    tracker.stop()
    assert tracker.resource_usage is not None
    assert 'ended' not in meta_of(path)


def test_a_file_that_cannot_be_made_stops_the_start_and_leaves_nothing(tmp_path: Path) -> None:
    tracker = gput.Tracker(tracking_file=tmp_path / 'run.db')
    (tmp_path / 'run.db').write_text('made meanwhile')
    with pytest.raises(ValueError, match='must be a new file'):
        tracker.start()
    assert (tmp_path / 'run.db').read_text() == 'made meanwhile'


def test_samples_alone_go_into_a_csv_file(tmp_path: Path) -> None:
    path = tmp_path / 'run.csv'
    script = until(f'[ $(wc -l < {path}) -gt 8 ]')
    assert gpu_tracker(f'--tf={path}', '--st=0.02', '-e', script).returncode == 0
    lines = path.read_text().splitlines()
    assert lines[0].startswith('ram_unit,gpu_ram_unit,time_unit,')
    assert lines[2].startswith('main_ram,descendants_ram,')
    assert {line.count(',') for line in lines[2:]} == {21}
    assert len(lines) > 8
