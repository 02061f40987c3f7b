"""Limits of commands that ignore SIGTERM and leave processes everywhere, as users meet them."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import gpu_tracker
from support.claims.claim_actors import tool
from support.cli_program import PROGRAM, called, number_in, shell, started, state_of, text_of
from support.cli_program import gpu_tracker as run_gpu_tracker
from support.simulated_nvml import Gpu, Process
from support.tracked_program import as_root
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from support.cli_program import Marked
    from support.gpus.gpu_machine import Machine

COMPLETE = 'Resource tracking complete. Process completed with status code: '
GB = 1_000_000_000
QUICK = '--kill-after=0.3'
SECTIONS = ['max_ram', 'max_gpu_ram', 'cpu_utilization', 'gpu_utilization', 'compute_time']

# Ignores whatever may be ignored, with a child, a grandchild that leads a session, a daemon without parent and
# environment, and a process that is stopped, which do so too. Its first argument is a file for the pids of all of them.
# Then the second one, a program, runs in the grandchild.
STUBBORN = """
import os, signal, sys, time

def note():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    handle = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, b'%d\\n' % os.getpid())
    os.close(handle)

def forever():
    while True:
        time.sleep(3600)

note()
if os.fork() == 0:
    note()
    if os.fork() == 0:
        os.setsid()
        note()
        while open(sys.argv[1]).read().count('\\n') < 5:
            time.sleep(0.01)
        exec(sys.argv[2])
        forever()
    forever()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        note()
        code = 'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)'
        os.execve(sys.executable, [sys.executable, '-S', '-c', code], {})
    os._exit(0)
os.wait()
if os.fork() == 0:
    note()
    os.kill(os.getpid(), signal.SIGSTOP)
    forever()
forever()
"""
BURN = 'while True: pass'
FILL = 'kept = bytearray(b"x") * 150_000_000'


def stubborn(pids: Path, then: str = 'pass') -> list[str]:
    return ['--', sys.executable, '-S', '-c', STUBBORN, str(pids), then]


def limited(*arguments: str, **options: Any) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Run gpu-tracker with a report in JSON; return how it has ended, and that report."""
    at = arguments.index('--')
    command = shlex.join(arguments[at + 1 :])
    units = ('--tu=seconds', '--ru=bytes', '--gru=bytes')
    words = [*arguments[:at], '--st=0.1', *units, '-f', 'json', '-e', command]
    run = run_gpu_tracker(*words, **options)
    return run, json.loads(run.stdout)


def check_ended(run: subprocess.CompletedProcess[str], usage: dict[str, Any], reason: str, message: str) -> None:
    """Check that a limit has ended a run, with a complete report."""
    assert run.returncode == 124
    assert usage['termination_reason'] == reason
    assert [name for name in usage if name != 'lower_bounds'] == [*SECTIONS, 'termination_reason']
    assert None not in (usage['max_ram']['combined']['total_rss'], usage['compute_time']['time'])
    said, complete = run.stderr.splitlines()
    assert re.fullmatch(f'gpu-tracker: {message}', said), said
    assert complete.startswith(COMPLETE)


def check_gone(pids: Path, count: int | None = 5) -> None:
    """Check that none of the processes in a file is left, however it has tried."""
    noted = [int(line) for line in pids.read_text().splitlines()]
    if count is not None:
        assert len(noted) == count
    assert [pid for pid in noted if state_of(pid)] == []


@pytest.mark.figures
def test_a_time_limit_ends_what_ignores_it_with_all_that_it_has_started(marked: Marked, tmp_path: Path) -> None:
    pids = tmp_path / 'pids'
    run, usage = limited('--time-limit=5s', QUICK, *stubborn(pids))
    message = (
        r'--time-limit=5s was exceeded: the command and its descendants have run for [\d.]+ s\. '
        r'All of them get SIGTERM, and SIGKILL after 0\.3 s\.'
    )
    check_ended(run, usage, 'time_limit', message)
    seconds = float(re.search(r'have run for ([\d.]+) s', run.stderr)[1])
    assert 5 <= seconds <= usage['compute_time']['time'] - 0.3
    assert run.stderr.endswith(f'{COMPLETE}-9\n')
    check_gone(pids)


@pytest.mark.figures
def test_a_cpu_limit_counts_the_whole_tree(marked: Marked, tmp_path: Path) -> None:
    pids = tmp_path / 'pids'
    run, usage = limited('--cpu-limit=800ms', QUICK, *stubborn(pids, BURN))
    message = (
        r'--cpu-limit=800ms was exceeded: the command and its descendants have used [\d.]+ m?s of CPU time '
        r'\(a soft limit, checked at each sample\)\. All of them get SIGTERM, and SIGKILL after 0\.3 s\.'
    )
    check_ended(run, usage, 'cpu_limit', message)
    cpu, seconds = usage['cpu_utilization'], usage['compute_time']['time']
    assert cpu['descendants']['mean_sum_percent'] * seconds >= 60
    assert cpu['main']['mean_sum_percent'] * seconds < 60
    check_gone(pids)


def test_a_memory_limit_counts_the_whole_tree(marked: Marked, tmp_path: Path) -> None:
    pids = tmp_path / 'pids'
    run, usage = limited('--memory-limit=100MB', QUICK, *stubborn(pids, FILL))
    message = (
        r'--memory-limit=100MB \(100,000,000 bytes\) was exceeded: '
        r'the command and its descendants have had [\d.]+ MB of memory '
        r'\(a soft limit, checked at each sample\)\. All of them get SIGTERM, and SIGKILL after 0\.3 s\.'
    )
    check_ended(run, usage, 'memory_limit', message)
    assert usage['max_ram']['combined']['total_rss'] > 100_000_000
    assert usage['max_ram']['main']['total_rss'] < 50_000_000
    check_gone(pids)


@pytest.mark.machine(gpus=[Gpu(total=8 * GB)])
def test_a_gpu_memory_limit_counts_the_whole_tree(machine: Machine, marked: Marked, tmp_path: Path) -> None:
    pids, report = tmp_path / 'pids', tmp_path / 'report.json'
    arguments = ('--gpu-memory-limit=2GB', QUICK, '--st=0.1', '--gru=bytes', '-f', 'json', '-o', str(report))
    env = machine.environment({'MARK_OF_A_TEST': os.environ['MARK_OF_A_TEST']})
    with started(*arguments, *stubborn(pids), env=env) as running:
        eventually(lambda: text_of(pids).count('\n') == 5)
        users = [Process(int(pid), memory=GB) for pid in pids.read_text().split()[:2]]
        machine.write(gpus=[Gpu(total=8 * GB, used=2 * GB, processes=users)])
        eventually(lambda: report.exists() and json.loads(report.read_text())['max_gpu_ram']['combined'] == 2 * GB)
        assert running.poll() is None  # as much as the limit is not more than it
        users[0] = Process(users[0].pid, memory=GB + 1000)
        machine.write(gpus=[Gpu(total=8 * GB, used=2 * GB + 1000, processes=users)])
        _, errors = running.communicate(timeout=TIMEOUT)
    usage = json.loads(report.read_text())
    assert running.returncode == 124
    assert usage['termination_reason'] == 'gpu_memory_limit'
    assert usage['max_gpu_ram']['combined'] == 2 * GB + 1000
    assert errors.startswith(
        'gpu-tracker: --gpu-memory-limit=2GB (2,000,000,000 bytes) was exceeded: '
        'the command and its descendants have had 2 GB of GPU memory '
    )
    check_gone(pids)


@pytest.mark.machine(gpus=[Gpu(total=8 * GB)])
def test_gpu_memory_that_is_unknown_has_no_limit(machine: Machine, tmp_path: Path) -> None:
    report = tmp_path / 'report.json'
    command = f'echo $$ > {tmp_path}/pid; read line'
    arguments = ('--gpu-memory-limit=1B', '--st=0.1', '-f', 'json', '-o', str(report), '-e', command)
    with started(*arguments, stdin=subprocess.PIPE, env=machine.environment()) as running:
        machine.write(gpus=[Gpu(total=8 * GB, processes=[Process(number_in(tmp_path / 'pid'), memory=None)])])
        eventually(lambda: report.exists() and json.loads(report.read_text())['max_gpu_ram']['combined'] is None)
        _, errors = running.communicate('\n', timeout=TIMEOUT)
    assert errors.splitlines()[-2:] == [
        f'{COMPLETE}0',
        'gpu-tracker: --gpu-memory-limit cannot be kept: the GPU memory of the command is unknown',
    ]
    assert running.returncode == 0


# Ends between two samples, having used more than it may, and says what the kernel knows of that.
LATE = """
import resource, time
time.sleep(3.2)
while time.process_time() < 0.3: pass
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime)
"""


def test_a_limit_that_was_exceeded_after_the_last_sample_is_reported(tmp_path: Path) -> None:
    path, report = tmp_path / 'run.db', tmp_path / 'report.json'
    arguments = ('--st=1h', '--cpu-limit=200ms', '--memory-limit=1TB', '--tu=seconds', '-f', 'json', '-o', str(report))
    run = run_gpu_tracker(*arguments, '--tf', str(path), '--', sys.executable, '-S', '-c', f'{LATE}raise SystemExit(3)')
    assert run.returncode == 3
    usage = json.loads(report.read_text())
    assert [name for name in usage if name != 'lower_bounds'] == [*SECTIONS, 'exceeded_limits']
    assert usage['exceeded_limits'] == ['cpu_limit']
    said = run.stderr.rstrip('\n')
    found = re.fullmatch(
        r'gpu-tracker: --cpu-limit=200ms was exceeded: '
        r'the command and its descendants have used ([\d.]+) (m?)s of CPU time '
        r'\(a soft limit, checked at each sample\), which was seen only when the command had ended\.',
        said,
    )
    assert found is not None, said
    seen = float(found[1]) / (1000 if found[2] else 1)
    assert seen == pytest.approx(float(run.stdout), abs=0.05)
    recording = gpu_tracker.load(str(path))
    assert recording.summary().exceeded_limits == ('cpu_limit',)
    assert recording.meta.termination_reason is None
    assert said.removeprefix('gpu-tracker: ') in [message.text for message in recording.messages]
    shown = called('show', str(path)).stdout
    assert '\nExceeded limits:\n   cpu_limit\n' in shown


def test_a_command_that_obeys_ends_at_once(marked: Marked) -> None:
    run, usage = limited('--time-limit=0.5', '--kill-after=1h', '--', 'sleep', '3600')
    assert run.stderr.endswith(f'{COMPLETE}-15\n')
    assert run.returncode == 124
    assert usage['termination_reason'] == 'time_limit'


def test_the_code_is_that_of_the_limit_also_where_the_command_ends_well(marked: Marked) -> None:
    program = f'import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n{BURN}'
    run, usage = limited('--cpu-limit=0.3', '--kill-after=1h', '--', sys.executable, '-S', '-c', program)
    assert run.stderr.endswith(f'{COMPLETE}0\n')
    assert run.returncode == 124
    assert usage['termination_reason'] == 'cpu_limit'


def test_a_stopped_command_is_continued_so_that_it_can_obey(marked: Marked) -> None:
    run, _ = limited('--time-limit=0.5', '--kill-after=1h', '--', 'sh', '-c', 'kill -STOP $$; exit 3')
    assert run.stderr.endswith(f'{COMPLETE}-15\n')
    assert run.returncode == 124


def test_no_grace_is_sigkill_at_once(marked: Marked) -> None:
    run, _ = limited('--time-limit=0.5', '--kill-after=0', '--', 'sleep', '3600')
    assert 'All of them get SIGKILL.\n' in run.stderr
    assert run.stderr.endswith(f'{COMPLETE}-9\n')
    assert run.returncode == 124


# Forks and ends at once, again and again, in the process group of gpu-tracker.
COMET = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    end = time.monotonic() + 600
    while time.monotonic() < end:
        if os.fork():
            os._exit(0)
    os._exit(0)
time.sleep(3600)
"""

# Processes that start others all the time, each four at once at most.
BOMB = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.fork()
os.fork()
end = time.monotonic() + 600
children = 0
while time.monotonic() < end:
    if os.fork() == 0:
        if children % 2:
            os.setsid()
        time.sleep(0.01)
        os._exit(0)
    children += 1
    while children and os.waitpid(-1, os.WNOHANG if children < 4 else 0)[0]:
        children -= 1
"""


@pytest.mark.parametrize('program', [COMET, BOMB])
def test_who_forks_all_the_time_is_caught(marked: Marked, program: str) -> None:
    run, usage = limited('--time-limit=1', QUICK, '--', sys.executable, '-S', '-c', program)
    assert run.returncode == 124
    assert usage['termination_reason'] == 'time_limit'
    assert 'still running after SIGKILL' not in run.stderr
    assert marked.processes() == []


def test_a_time_limit_that_passed_unseen_before_the_end_is_reported(tmp_path: Path) -> None:
    command = f'echo $$ > {tmp_path}/pid; kill -STOP $PPID; sleep 0.3; exit 3'
    with started('--time-limit=0.2', '-f', 'json', '-e', command) as running:
        main = number_in(tmp_path / 'pid')
        eventually(lambda: state_of(main) == 'Z')
        running.send_signal(signal.SIGCONT)
        output, errors = running.communicate(timeout=TIMEOUT)
    assert running.returncode == 3
    assert json.loads(output)['exceeded_limits'] == ['time_limit']
    assert 'gpu-tracker: --time-limit=0.2 was exceeded: the command and its descendants have run for ' in errors
    assert errors.endswith(', which was seen only when the command had ended.\n')


def test_a_command_within_its_limits_is_as_without(tmp_path: Path) -> None:
    limits = ['--time-limit=1h', '--cpu-limit=1h', '--memory-limit=1TB', '--gpu-memory-limit=1TB']
    with_limits = run_gpu_tracker(*limits, '-f', 'json', '-e', 'echo one; exit 3')
    without = run_gpu_tracker('-f', 'json', '-e', 'echo one; exit 3')
    assert with_limits.returncode == without.returncode == 3
    assert with_limits.stderr == without.stderr == f'{COMPLETE}3\n'
    # What is unknown of a short command, every figure, and which figures are lower bounds.
    form = re.compile(r'null|\d+(\.\d+)?(e-?\d+)?')
    texts = [re.sub(r',\s+"lower_bounds": \[.*?\]', '', run.stdout, flags=re.DOTALL) for run in (with_limits, without)]
    assert form.sub('0', texts[0]) == form.sub('0', texts[1])


def test_what_a_command_leaves_behind_within_its_limits_goes_on(tmp_path: Path) -> None:
    run = run_gpu_tracker('--time-limit=1h', '-e', f'sleep 3600 >&- 2>&- & echo $! > {tmp_path}/pid')
    left = number_in(tmp_path / 'pid')
    try:
        assert run.returncode == 0
        assert state_of(left) != ''
    finally:
        os.kill(left, signal.SIGKILL)


def test_the_recording_and_its_report_name_the_limit(marked: Marked, tmp_path: Path) -> None:
    path = tmp_path / 'run.db'
    run, usage = limited('--time-limit=1', '--tf', str(path), '--', 'sleep', '3600')
    assert run.returncode == 124
    with sqlite3.connect(path) as database:
        meta = dict(database.execute('SELECT key, value FROM meta'))
    assert (meta['exit_code'], meta['termination_reason']) == (-15, 'time_limit')
    recording = gpu_tracker.load(str(path))
    assert recording.meta.is_complete
    assert recording.meta.termination_reason == 'time_limit'
    assert recording.summary().termination_reason == usage['termination_reason'] == 'time_limit'
    shown = called('show', str(path)).stdout
    assert 'by SIGTERM, ended by its time limit\n' in shown
    summary = called('show', str(path), '-f', 'summary').stdout
    assert re.match(r'Time        [\d.]+ m?s.*, ended by its time limit\n', summary)


def test_a_rank_of_a_job_is_ended_with_a_complete_record(marked: Marked, tmp_path: Path) -> None:
    env = {**os.environ, 'SLURM_JOB_ID': '4711', 'SLURM_STEP_ID': '0', 'SLURM_PROCID': '1', 'SLURM_NTASKS': '2'}
    run = run_gpu_tracker('--time-limit=0.5', f'--job={tmp_path}/job', '--', 'sleep', '3600', env=env)
    assert run.returncode == 124
    merged = json.loads(called('merge', f'{tmp_path}/job', '-f', 'json').stdout)
    assert [(rank['exit_code'], rank['termination_reason']) for rank in merged['ranks']] == [(-15, 'time_limit')]
    assert 'killed by SIGTERM, ended by its time limit' in called('merge', f'{tmp_path}/job').stdout
    records = [json.loads(path.read_text()) for path in Path(f'{tmp_path}/job').rglob('*.json')]
    assert [record['totals']['termination_reason'] for record in records if record.get('totals')] == ['time_limit']


def test_the_record_of_a_rank_has_the_limits_that_were_seen_too_late(tmp_path: Path) -> None:
    env = {**os.environ, 'SLURM_JOB_ID': '4711', 'SLURM_STEP_ID': '0', 'SLURM_PROCID': '1', 'SLURM_NTASKS': '1'}
    arguments = ('--st=1h', '--cpu-limit=200ms', f'--job={tmp_path}/job')
    run = run_gpu_tracker(*arguments, '--', sys.executable, '-S', '-c', LATE, env=env)
    assert run.returncode == 0
    assert run.stderr.startswith('gpu-tracker: --cpu-limit=200ms was exceeded: ')
    merged = json.loads(called('merge', f'{tmp_path}/job', '-f', 'json').stdout)
    assert [(rank['termination_reason'], rank['exceeded_limits']) for rank in merged['ranks']] == [
        (None, ['cpu_limit'])
    ]
    assert ', exceeded its CPU limit' in called('merge', f'{tmp_path}/job').stdout


def test_the_time_limit_holds_where_the_sampler_was_killed(marked: Marked, tmp_path: Path) -> None:
    command = f'echo $$ > {tmp_path}/pid; exec sleep 3600'
    with started('--time-limit=5', '--memory-limit=1GB', '--cpu-limit=1h', '-e', command) as running:
        number_in(tmp_path / 'pid')
        os.kill(marked.processes('gpu-tracker-sampler')[0], signal.SIGKILL)
        _, errors = running.communicate(timeout=TIMEOUT)
    assert running.returncode == 124
    lines = errors.splitlines()
    assert lines[0] == 'gpu-tracker: --cpu-limit and --memory-limit cannot be kept: the sampler was ended from outside'
    assert lines[1].startswith('gpu-tracker: --time-limit=5 was exceeded: ')
    assert lines[2].startswith('gpu-tracker: The sampler was ended from outside')
    assert lines[3] == f'{COMPLETE}-15'


def test_a_signal_during_the_grace_reaches_the_command_that_still_runs(marked: Marked, tmp_path: Path) -> None:
    program = (
        'import signal, sys\n'
        'signal.signal(signal.SIGTERM, lambda *_: print("term", flush=True))\n'
        'signal.signal(signal.SIGUSR1, lambda *_: sys.exit(5))\n'
        'print("ready", flush=True)\n'
        f'{BURN}\n'
    )
    command = shlex.join([sys.executable, '-S', '-c', program])
    with started('--cpu-limit=0.3', '--st=0.1', '--kill-after=1h', '-e', command) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == 'ready\n'
        assert running.stdout.readline() == 'term\n'
        running.send_signal(signal.SIGUSR1)
        _, errors = running.communicate(timeout=TIMEOUT)
    assert errors.endswith(f'{COMPLETE}5\n')
    assert running.returncode == 124


def test_ctrl_c_ends_the_grace_of_what_the_command_has_left(marked: Marked, tmp_path: Path) -> None:
    left = tmp_path / 'left.sh'
    left.write_text(f"trap '' TERM INT\necho $$ > {tmp_path}/left\nwhile :; do sleep 0.05; done\n")
    waits = f'until [ -s {tmp_path}/left ]; do sleep 0.05; done'
    command = f'echo $$ > {tmp_path}/main; setsid sh {left} & {waits}; while :; do :; done'
    with started('--cpu-limit=0.3', '--st=0.1', '--kill-after=1h', '-e', command) as running:
        main = number_in(tmp_path / 'main')
        eventually(lambda: state_of(main) == 'Z')
        assert state_of(number_in(tmp_path / 'left')) != ''
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=TIMEOUT)
    assert running.returncode == 124
    assert errors.endswith(f'{COMPLETE}-15\n')
    assert state_of(number_in(tmp_path / 'left')) == ''


def test_a_nested_tracker_completes_its_report_and_its_limit_is_its_own(marked: Marked, tmp_path: Path) -> None:
    program = [sys.executable, '-S', '-c', BURN]
    inner = [sys.executable, '-m', 'gpu_tracker', '-o', f'{tmp_path}/inner', '-f', 'json', '--', *program]
    run, usage = limited('--cpu-limit=1', '--kill-after=1h', '--', *inner)
    assert run.returncode == 124
    assert usage['termination_reason'] == 'cpu_limit'
    assert 'termination_reason' not in json.loads((tmp_path / 'inner').read_text())
    assert run.stderr.endswith(f'{COMPLETE}143\n')


def test_wrong_limits_are_refused_before_the_command_starts(tmp_path: Path) -> None:
    run = called('--memory-limit=2', '-e', f'touch {tmp_path}/ran')
    accepted = 'a size above 0 with its unit, such as 10GB (powers of 1000), 8GiB or 8G (powers of 1024)'
    assert run.stderr == f"gpu-tracker: --memory-limit must be {accepted}, not '2'\n"
    assert run.returncode == 125
    assert os.listdir(tmp_path) == []


def test_the_time_limit_holds_where_nothing_can_be_measured(marked: Marked) -> None:
    run = shell('ulimit -n 10; exec "$@"', '--time-limit=0.5', '--cpu-limit=1h', '-e', 'sleep 3600')
    lines = run.stderr.splitlines()
    assert lines[0].startswith('gpu-tracker: the command runs unmeasured: ')
    assert lines[1] == 'gpu-tracker: --cpu-limit cannot be kept: the command runs unmeasured'
    assert lines[2].startswith('gpu-tracker: --time-limit=0.5 was exceeded: ')
    assert lines[3:] == ['Process completed with status code: -15']
    assert run.returncode == 124


def test_children_that_gpu_tracker_has_from_before_are_not_ended(marked: Marked, tmp_path: Path) -> None:
    script = f'sleep 3600 >&- 2>&- & echo $! > {tmp_path}/stranger; exec "$@"'
    run = shell(script, '--time-limit=0.5', QUICK, '--', 'sh', '-c', "trap '' TERM; sleep 3600 & wait; sleep 3600")
    stranger = number_in(tmp_path / 'stranger')
    try:
        assert run.returncode == 124
        assert marked.processes('3600') == [stranger]
    finally:
        os.kill(stranger, signal.SIGKILL)


@as_root
def test_the_time_limit_of_the_command_itself_holds_without_proc() -> None:
    words = tool('unshare', '--mount', 'sh', '-c', 'umount --lazy /proc && exec "$@"', 'sh')
    command = 'trap "" TERM; while :; do sleep 0.1; done'
    run = subprocess.run(
        [*words, *PROGRAM, '--time-limit=1', QUICK, '-e', command],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )
    lines = run.stderr.splitlines()
    assert lines[0].startswith('gpu-tracker: the command runs unmeasured: /proc is not mounted')
    assert lines[1].startswith('gpu-tracker: --time-limit=1 was exceeded: ')
    assert lines[2].startswith(
        'gpu-tracker: only the command itself is ended, for its descendants cannot be found: /proc is not mounted'
    )
    assert lines[3:] == ['Process completed with status code: -9']
    assert run.returncode == 124
