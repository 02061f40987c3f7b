"""``--cgroup`` where memory, processes and storage are counted by groups of version 1, beside the groups' own files."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

import pytest

from gpu_tracker.control_groups.marks import is_abandoned
from gpu_tracker.control_groups.places import folder_of, group_with, mounts, unified_group
from gpu_tracker.control_groups.places import groups_of as groups_of_process
from gpu_tracker.recording.reading.recording import load
from support.cli_program import PROGRAM, called, gpu_tracker, number_in, started, state_of, text_of
from support.lack_of_memory import LET_ONE_BE_KILLED
from support.own_group import DAEMON, MEBIBYTE, NO_STORAGE, OPTIONS, OWN_FILES
from support.recorder_runs import meta_of
from support.tracked_program import run
from support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

CONTROLLERS = ('memory', 'pids', 'blkio')


def folders() -> list[str]:
    """Return the folders in which groups are made, those of this process."""
    groups, mounted = groups_of_process('self'), mounts()
    found = [group_with(groups, name) for name in CONTROLLERS]
    return [folder for group in (unified_group(groups), *found) if group and (folder := folder_of(group, mounted))]


def groups_of(tracker: int) -> list[str]:
    """Return the groups that a tracker has made; other tests may have some at the same time."""
    mine = f'gpu-tracker-run-{tracker}-'
    return [name for folder in folders() for name in os.listdir(folder) if name.startswith(mine)]


def groups_left() -> list[str]:
    """Return the groups of trackers that are no more."""
    return [name for folder in folders() for name in os.listdir(folder) if is_abandoned(name)]


@pytest.fixture(autouse=True)
def nothing_is_left():
    if len(folders()) < len(CONTROLLERS) + 1:
        pytest.skip('this machine has no control groups of both versions')
    if not all(os.access(folder, os.W_OK) for folder in folders()):
        pytest.skip('needs root, or the right to change control groups')
    yield
    assert eventually(lambda: not groups_left() or None)


def track(*words: str, code: int = 0) -> tuple[Any, dict[str, Any]]:
    """Track a command; return what it has printed, and the figures of its group."""
    with tempfile.NamedTemporaryFile() as report:
        done = gpu_tracker(*OPTIONS, '-o', report.name, '--', *words)
        assert done.returncode == code, done.stderr
        with open(report.name, encoding='utf-8') as file:
            return done.stdout, json.load(file)['own_group']


@pytest.mark.figures
def test_the_figures_are_those_of_the_groups_own_files(tmp_path: Path) -> None:
    program = f"""{OWN_FILES}
import threading
held = bytearray(b'x') * (60 * {MEBIBYTE})
with open({str(tmp_path / 'file')!r}, 'wb') as file:
    file.write(memoryview(held)[: 30 * {MEBIBYTE}])
event = threading.Event()
threads = [threading.Thread(target=event.wait) for _ in range(5)]
for thread in threads: thread.start()
event.set()
for thread in threads: thread.join()
burn(0.1)
stat = own('cpu.stat')
print(json.dumps({{
    'memory_peak': int(own('memory.max_usage_in_bytes', 'memory')[0]),
    'cpu': int(dict(zip(stat[::2], stat[1::2]))['usage_usec']) / 1e6,
    'max_tasks': int(own('pids.peak', 'pids')[0]),
    'storage': own('blkio.throttle.io_service_bytes_recursive', 'blkio'),
}}))
"""
    printed, found = track(sys.executable, '-c', program)
    own = json.loads(printed)
    assert (found['made_in'], found['problem'], found['unit']) == ('cgroup v1 and v2', NO_STORAGE, 'bytes')
    assert own['memory_peak'] <= found['memory_peak'] <= own['memory_peak'] + MEBIBYTE
    assert found['memory_peak'] > 90 * MEBIBYTE
    assert own['cpu'] <= found['cpu_seconds'] <= own['cpu'] + 1
    assert found['user_cpu_seconds'] + found['system_cpu_seconds'] == pytest.approx(found['cpu_seconds'], abs=1e-3)
    assert found['max_tasks'] == own['max_tasks'] == 6
    # Version 1 counts only where a limit of reading was ever set.
    assert own['storage'] == ['Total', '0']
    assert (found['read'], found['written']) == (None, None)
    assert (found['oom_kills'], found['left_processes']) == (0, 0)


@pytest.mark.figures
def test_the_cpu_time_of_a_daemon_counts_exactly() -> None:
    """Nobody waits for it, and it has ended before the command."""
    printed, found = track(sys.executable, '-c', DAEMON)
    of_daemon, of_main = json.loads(printed)
    assert of_daemon + of_main <= found['cpu_seconds'] <= of_daemon + of_main + 0.5
    assert found['left_processes'] == 0


def test_what_a_command_leaves_running_is_ended_with_it(tmp_path: Path) -> None:
    file = tmp_path / 'pid'
    program = f"trap '' TERM HUP; setsid sh -c 'echo $$ > {file}; exec sleep 600' & while [ ! -s {file} ]; do :; done"
    done = gpu_tracker(*OPTIONS, '--', 'sh', '-c', program)
    assert json.loads(done.stdout)['own_group']['left_processes'] == 1
    assert state_of(number_in(file)) in {'', 'Z'}
    said = 'gpu-tracker: --cgroup: 1 process still ran at the end of the command and got SIGKILL\n'
    assert done.stderr.startswith(said)
    quiet = gpu_tracker(*OPTIONS, '--disable-logs', '--', 'sh', '-c', 'setsid sleep 600 &')
    assert (json.loads(quiet.stdout)['own_group']['left_processes'], '--cgroup' in quiet.stderr) == (1, False)


@pytest.mark.parametrize('limit', ['--memory-limit=80MB', '--time-limit=600'])
def test_the_recording_of_a_tracker_that_is_ended_with_the_group_is_completed(tmp_path: Path, limit: str) -> None:
    """Its sampler ends by itself: with the command, and with what a limit ends."""
    path = tmp_path / 'inner.db'
    program = f"""{OWN_FILES}
import sqlite3, subprocess
words = [sys.executable, '-m', 'gpu_tracker', '--tf={path}', '--st=0.05', '--', 'sleep', '600']
subprocess.Popen(words, start_new_session=True)
def rows():
    try: return sqlite3.connect('file:{path}?mode=ro', uri=True).execute('SELECT count(*) FROM samples').fetchone()[0]
    except sqlite3.OperationalError: return 0
while not rows(): time.sleep(0.01)
grown = bytearray(b'x') * ({MEBIBYTE} * {150 if 'memory' in limit else 1})
"""
    report = tmp_path / 'report.json'
    words = ('-o', str(report), '--', sys.executable, '-c', program)
    done = gpu_tracker(*OPTIONS, limit, '--kill-after=0', *words)
    assert done.returncode == (124 if 'memory' in limit else 0), done.stderr
    assert meta_of(path)['ended'] == 'abandoned'
    assert json.loads(report.read_text())['own_group']['problem'] == NO_STORAGE


def test_without_the_option_it_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / 'pid'
    done = gpu_tracker('-f', 'json', '-e', f'setsid sleep 600 >/dev/null 2>&1 & echo $! > {file}', stderr=None)
    pid = number_in(file)
    assert state_of(pid) == 'S'
    os.kill(pid, signal.SIGKILL)
    assert 'own_group' not in json.loads(done.stdout)


def test_a_child_that_is_killed_for_lack_of_memory_is_reported_though_the_command_ends_well() -> None:
    program = f"""{OWN_FILES}{LET_ONE_BE_KILLED}
with open(f'{{folder_of("memory")}}/memory.limit_in_bytes', 'w') as file: file.write(str(60 * {MEBIBYTE}))
print(let_one_be_killed(f'{{folder_of("memory")}}/memory.usage_in_bytes', '100'))
"""
    printed, found = track(sys.executable, '-c', program)
    assert printed == '-9\n'
    assert found['oom_kills'] == 1
    assert found['memory_peak'] <= 60 * MEBIBYTE


@pytest.mark.figures
def test_what_the_group_of_a_nested_tracker_uses_and_its_kills_count_in_both() -> None:
    """The inner one has removed its group long before the outer one looks into it."""
    program = f"""{OWN_FILES}{LET_ONE_BE_KILLED}
with open(f'{{folder_of("memory")}}/memory.limit_in_bytes', 'w') as file: file.write(str(60 * {MEBIBYTE}))
let_one_be_killed(f'{{folder_of("memory")}}/memory.usage_in_bytes', '100')
burn(0.1)
"""
    printed, outer = track(*PROGRAM, *OPTIONS, '--', sys.executable, '-c', program)
    inner = json.loads(printed)['own_group']
    assert inner['oom_kills'] == outer['oom_kills'] == 1
    assert 0.1 <= inner['cpu_seconds'] < outer['cpu_seconds']
    assert inner['memory_peak'] < outer['memory_peak']


def test_kills_in_a_group_that_the_command_makes_and_removes_count_once_a_sample_has_seen_them(tmp_path: Path) -> None:
    report = tmp_path / 'usage.json'
    program = f"""{OWN_FILES}{LET_ONE_BE_KILLED}
below, around = folder_of('memory') + '/below', folder_of('memory')
os.mkdir(below)
with open(f'{{below}}/memory.limit_in_bytes', 'w') as file: file.write(str(60 * {MEBIBYTE}))
with open(f'{{below}}/cgroup.procs', 'w') as file: file.write('0')
let_one_be_killed(f'{{below}}/memory.usage_in_bytes', '100')
with open(f'{{around}}/cgroup.procs', 'w') as file: file.write('0')
def kills():
    try: return json.load(open({str(report)!r}))['control_group']['oom_kills']
    except (FileNotFoundError, KeyError, json.JSONDecodeError): return 0
while not kills(): time.sleep(0.01)
while True:
    try: os.rmdir(below)
    except OSError: continue
    break
"""
    done = gpu_tracker(*OPTIONS, '--st=0.1', '-o', str(report), '--', sys.executable, '-c', program)
    found = json.loads(report.read_text())
    assert done.returncode == 0, done.stderr
    assert found['own_group']['oom_kills'] == found['control_group']['oom_kills'] == 1


def test_a_limit_of_memory_holds_also_in_groups_that_the_command_makes(tmp_path: Path) -> None:
    report = tmp_path / 'usage.json'
    program = f"""{OWN_FILES}{LET_ONE_BE_KILLED}
below = folder_of('memory') + '/below'
os.mkdir(below)
with open(f'{{below}}/cgroup.procs', 'w') as file: file.write('0')
let_one_be_killed(f'{{below}}/memory.usage_in_bytes', '150')
"""
    words = ('--memory-limit=80MB', '-o', str(report), '--', sys.executable, '-c', program)
    done = gpu_tracker(*OPTIONS, *words)
    assert done.returncode == 124, done.stderr
    assert (
        '--memory-limit=80MB (80,000,000 bytes) was exceeded: for lack of memory the kernel has ended 1 process'
        in done.stderr
    )
    found = json.loads(report.read_text())
    assert (found['termination_reason'], found['own_group']['oom_kills']) == ('memory_limit', 1)


def test_a_limit_below_a_page_is_soft() -> None:
    done = gpu_tracker('--cgroup', '--memory-limit=1kB', '-f', 'summary', '--', 'sleep', '600')
    assert done.returncode == 124
    reason = 'the limit is smaller than one page of memory'
    assert done.stderr.startswith(
        f'gpu-tracker: --memory-limit=1kB is a soft limit in this run, checked at each sample: {reason}\n'
    )
    assert 'Allowed' not in done.stdout


def test_a_limit_of_memory_is_kept_by_the_kernel(tmp_path: Path) -> None:
    """The first sample in a long interval would be too late; what ignores SIGTERM is ended all the same."""
    report = tmp_path / 'report.json'
    program = f"""
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    grown = bytearray(b'x') * (200 * {MEBIBYTE})
print(os.getpid(), flush=True)
while True: time.sleep(60)
"""
    options = ('--cgroup', '--memory-limit=80MB', '--kill-after=0.2', '--st=60', '--ru=bytes', '-f', 'json')
    done = gpu_tracker(*options, '-o', str(report), '--', sys.executable, '-c', program)
    assert done.returncode == 124, done.stderr
    assert done.stderr.splitlines()[0] == (
        'gpu-tracker: --memory-limit=80MB (80,000,000 bytes) was exceeded: '
        'for lack of memory the kernel has ended 1 process of its control group '
        '(a hard limit, kept by the kernel). All that are left get SIGTERM, and SIGKILL after 0.2 s.'
    )
    assert 'killed for lack of memory' not in done.stderr  # once is enough
    found = json.loads(report.read_text())
    assert found['termination_reason'] == 'memory_limit'
    assert found['own_group']['oom_kills'] == 1
    assert 70_000_000 < found['own_group']['memory_peak'] <= 80_000_000
    assert {state_of(int(pid)) for pid in done.stdout.split()} <= {'', 'Z'}


def test_a_limit_of_memory_that_is_not_reached_changes_nothing() -> None:
    grown = f"held = bytearray(b'x') * (20 * {MEBIBYTE})"
    done = gpu_tracker('--cgroup', '--memory-limit=200MB', '-f', 'json', '--', sys.executable, '-c', grown)
    assert (done.returncode, 'termination_reason' in done.stdout) == (0, False), done.stderr


def test_a_limit_of_memory_without_a_group_is_soft() -> None:
    """A group that is already larger takes no limit."""
    done = gpu_tracker('--cgroup', '--memory-limit=1B', '--kill-after=0', '--', 'sleep', '600')
    assert done.returncode == 124
    assert done.stderr.startswith('gpu-tracker: --memory-limit=1B ')


def test_the_exit_code_and_the_figures_of_a_command_that_a_signal_ends() -> None:
    _, found = track('sh', '-c', 'kill -TERM $$', code=143)
    assert found['made_in'] == 'cgroup v1 and v2'


def test_a_command_that_cannot_be_started_leaves_no_group(tmp_path: Path) -> None:
    script = tmp_path / 'script'
    script.write_text('#!/no/such/interpreter\n')
    script.chmod(0o755)
    done = gpu_tracker('--cgroup', '--', str(script))
    assert (done.returncode, done.stdout) == (127, '')


@pytest.mark.parametrize(
    ('name', 'later'),
    [('SIGTERM', 0), ('SIGINT', 10), ('SIGHUP', 20), ('SIGTERM', 30), ('SIGINT', 40), ('SIGHUP', 50)],
)
def test_a_signal_before_the_command_runs_leaves_nothing(name: str, later: int, tmp_path: Path) -> None:
    """It comes so many milliseconds after the group was made."""
    file = tmp_path / 'pid'
    log = tmp_path / 'tmp'
    log.mkdir()
    words = (
        '--cgroup',
        f'--tf={tmp_path / "run.db"}',
        '-f',
        'json',
        '--',
        'sh',
        '-c',
        f'echo $$ > {file}; exec sleep 600',
    )
    with started(*words, env={**os.environ, 'TMPDIR': str(log)}) as tracker:
        eventually(lambda: groups_of(tracker.pid))
        time.sleep(later / 1000)
        tracker.send_signal(signal.Signals[name])
        output, _ = tracker.communicate()
    number = signal.Signals[name].value
    # By the signal itself, or with the command that has got it.
    assert (tracker.returncode, bool(output)) in {(-number, False), (128 + number, True)}
    assert groups_of(tracker.pid) == []
    written = text_of(file)  # the shell may have been ended before it wrote
    assert not written or state_of(int(written)) in {'', 'Z'}
    assert list(log.iterdir()) == []


def test_an_interrupt_reaches_the_command(tmp_path: Path) -> None:
    file = tmp_path / 'pid'
    with started('--cgroup', '-f', 'json', '-e', f'echo $$ > {file}; exec sleep 600') as tracker:
        number_in(file)
        tracker.send_signal(signal.SIGTERM)
        output, _ = tracker.communicate()
    assert tracker.returncode == 143
    assert json.loads(output)['own_group']['left_processes'] == 0


def test_the_group_of_a_tracker_that_was_killed_goes_with_the_next_run(tmp_path: Path) -> None:
    file = tmp_path / 'pid'
    with started('--cgroup', '-e', f'echo $$ > {file}; exec sleep 600', stdout=None, stderr=None) as tracker:
        pid = number_in(file)
        tracker.kill()
        tracker.communicate()
    assert len(groups_of(tracker.pid)) == len(folders())
    track('true')
    assert len(groups_of(tracker.pid)) == len(folders())  # its command runs on
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: state_of(pid) in {'', 'Z'})
    track('true')
    assert groups_of(tracker.pid) == []


def test_a_running_process_stays_in_its_group() -> None:
    done = called('--cgroup', f'--pid={os.getpid()}')
    assert done.returncode == 125
    assert '--cgroup and --pid do not go together: a process that runs stays in its control group' in done.stderr


def test_an_ordinary_user_is_given_the_reason() -> None:
    program = """
import os, subprocess
from gpu_tracker.control_groups.obtaining import NoGroupError, obtain
os.setresuid(65534, 65534, 65534)
try:
    obtain(os.getpid())
except NoGroupError as error:
    print(error)
"""
    reasons = [f'this user may make none in {folder}' for folder in folders()[:2]]
    assert run(program).stdout == f'{"; ".join([*reasons, "systemd does not run here"])}\n'


def test_recordings_and_texts_have_the_figures(tmp_path: Path) -> None:
    path = tmp_path / 'run.db'
    done = gpu_tracker('--cgroup', '--ru=bytes', f'--tf={path}', '-e', 'true')
    with load(path) as recording:
        found = recording.summary().own_group
    assert found is not None
    assert (
        f'Own group:\n   Unit: bytes\n   Made in: cgroup v1 and v2\n   Memory peak: {found.memory_peak}\n'
        in done.stdout
    )
    assert '   OOM kills: 0\n   Left processes: 0\n' in done.stdout
    shown = called('show', '-f', 'summary', str(path)).stdout
    assert [line for line in shown.splitlines() if line.startswith('Own group   ')]
