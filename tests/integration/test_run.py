"""``gpu_tracker.run``: a command, its exit code, and what it has used, compared with what the command itself says."""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import gpu_tracker as gput
from gpu_tracker import real, tracked_command
from gpu_tracker.running.launcher import CommandLauncher
from gpu_tracker.running.run_files import RunFiles
from support.cli_program import Terminal, number_in, state_of, text_of
from support.deadlines import UNTIL, until
from support.tracked_program import BURN, PACKAGE_PARENT, Samplers, answer, environment, start
from support.truth.figures import COUNTERS
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

UNITS: dict[str, Any] = {'ram_unit': 'bytes', 'time_unit': 'seconds'}
TRUTH = (
    'import resource; {}; used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]'
)
"""A program that prints as its last words what the kernel has counted of it and of its children."""


def python(text: str, *arguments: object) -> list[str]:
    return [sys.executable, '-S', '-c', text, *map(str, arguments)]


def seconds_of(usage: gput.ResourceUsage, group: str = 'combined') -> float:
    assert usage.compute_time.unit == 'seconds'
    return getattr(usage.cpu_utilization, group).mean_sum_percent / 100 * usage.compute_time.time


@pytest.fixture
def samplers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Samplers]:
    """Find the samplers that this test starts, and check that none is left."""
    found = Samplers()
    for name, value in found.environment.items():
        if os.environ.get(name) != value:
            monkeypatch.setenv(name, value)
    yield found
    assert found.none_left()


def test_it_returns_the_exit_code_and_the_usage(capfd: pytest.CaptureFixture[str], samplers: Samplers) -> None:
    code, usage = gput.run(['sh', '-c', 'echo out; echo err >&2; sleep 0.3; exit 3'])
    assert code == 3
    assert usage.max_ram.combined.total_rss > 0
    assert capfd.readouterr() == ('out\n', 'err\n')
    result = gput.run(['sh', '-c', 'kill -9 $$'])
    assert (result.exit_code, result.resource_usage.compute_time.unit) == (-9, 'hours')


@pytest.mark.figures
def test_cpu_time_is_what_the_kernel_reports_of_the_command_and_its_children(tmp_path: Path) -> None:
    program = f"""{BURN}
import os, resource, sys
burn(0.2)
for _ in range(10):  # of 20 ms each, which no sample sees
    if os.fork() == 0:
        burn(0.02)
        os._exit(0)
    os.wait()
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(*(each.ru_utime + each.ru_stime for each in used))
"""
    with (tmp_path / 'truth').open('w') as truth:
        code, usage = gput.run(python(program), stdout=truth, sleep_time=1000, **UNITS)
    main, children = map(float, (tmp_path / 'truth').read_text().split())
    assert code == 0
    assert main <= seconds_of(usage, 'main') <= main + 0.05  # it ends after it has said so
    assert seconds_of(usage, 'descendants') == pytest.approx(children, abs=1e-5)


@pytest.mark.figures
def test_orphans_that_nobody_has_seen_are_counted(tmp_path: Path) -> None:
    program = f"""{BURN}
import os, sys, time
if os.fork() == 0:
    if os.fork() == 0:
        burn(0.1)
        with open(sys.argv[1] + '.new', 'w') as file:
            file.write(str(time.process_time()))
        os.rename(sys.argv[1] + '.new', sys.argv[1])
    os._exit(0)
os.wait()
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
time.sleep(0.05)
"""
    usage = gput.run(python(program, tmp_path / 'truth'), sleep_time=1000, **UNITS).resource_usage
    truth = float((tmp_path / 'truth').read_text())
    assert truth > 0.1
    assert truth <= seconds_of(usage, 'descendants') <= truth + 0.1


def test_a_large_program_hides_no_peak_of_a_small_command(tmp_path: Path) -> None:
    mark = "next(int(line.split()[1]) * 1024 for line in open('/proc/self/status') if line.startswith('VmHWM'))"
    child = f'x = bytearray({60_000_000}); print({mark})'
    program = """
import json, sys, gpu_tracker as gput
much = bytearray(200_000_000)
with open(sys.argv[1], 'w+') as truth:
    usage = gput.run(sys.argv[2:], stdout=truth, sleep_time=1000, ram_unit='bytes').resource_usage
    truth.seek(0)
    found = [int(truth.readline())]
print(json.dumps(found + [usage.max_ram.main.total_rss, usage.max_ram.descendants.total_rss]))
"""
    command = ['sh', '-c', '"$@"; exit 0', 'sh', *python(child)]
    truth, main, descendants = answer(program, tmp_path / 'truth', *command)
    assert main < 10_000_000
    assert truth - COUNTERS <= descendants <= truth * 1.05


def test_streams_folder_and_environment_are_passed_on(tmp_path: Path) -> None:
    (tmp_path / 'in').write_text('given')
    program = 'import os, sys; print(sys.stdin.read(), os.getcwd(), sorted(os.environ)); sys.stderr.write("err")'
    with (tmp_path / 'in').open() as given, (tmp_path / 'out').open('w') as out:
        code, _ = gput.run(
            python(program),
            stdin=given,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=tmp_path,
            env={'PATH': '/bin', 'LC_ALL': 'C'},
        )
    assert code == 0
    assert (tmp_path / 'out').read_text() == f"given {tmp_path} ['LC_ALL', 'PATH']\nerr"


def test_a_program_is_looked_up_as_subprocess_does(tmp_path: Path) -> None:
    (tmp_path / 'own').write_text('#!/bin/sh\nexit 7\n')
    (tmp_path / 'own').chmod(0o755)
    assert gput.run(['./own'], cwd=tmp_path).exit_code == 7
    assert gput.run(['own'], env={'PATH': str(tmp_path)}).exit_code == 7
    assert gput.run([tmp_path / 'own']).exit_code == 7


@pytest.mark.parametrize(
    ('command', 'options', 'error', 'name'),
    [
        (['no-such-program'], {}, FileNotFoundError, 'no-such-program'),
        (['/proc/cpuinfo'], {}, PermissionError, '/proc/cpuinfo'),
        (['true'], {'cwd': '/no/such/folder'}, FileNotFoundError, '/no/such/folder'),
    ],
)
def test_what_cannot_be_started_raises_what_subprocess_raises(
    command: list[str], options: dict[str, str], error: type[OSError], name: str, tmp_path: Path, samplers: Samplers
) -> None:
    with pytest.raises(error) as raised:
        gput.run(command, tracking_file=tmp_path / 'run.db', **options)
    assert raised.value.filename == name
    assert os.listdir(tmp_path) == []


def test_a_file_that_is_no_program_of_this_machine(tmp_path: Path, samplers: Samplers) -> None:
    (tmp_path / 'other').write_bytes(b'\x7fELF\0\0\0')
    (tmp_path / 'other').chmod(0o755)
    with pytest.raises(OSError, match='Exec format error'):
        gput.run([tmp_path / 'other'], tracking_file=tmp_path / 'run.db')
    assert os.listdir(tmp_path) == ['other']


@pytest.mark.parametrize(
    ('given', 'error', 'text'),
    [
        ({'command': 'ls -l'}, TypeError, "run needs a list of words, such as ['sort', 'numbers'], not 'ls -l'"),
        ({'command': []}, ValueError, 'run needs the words of a command, but the list is empty'),
        ({'command': ['ls'], 'stdout': subprocess.PIPE}, ValueError, 'run cannot use PIPE, because no process would'),
        ({'command': ['ls'], 'process_id': 1}, TypeError, 'run tracks the command that it starts'),
        ({'command': ['ls'], 'sleep_time': 0}, ValueError, 'sleep_time must be a positive number of seconds, not 0'),
        ({'command': ['ls', 'a\0b']}, ValueError, 'embedded null byte'),
        ({'command': ['ls'], 'env': {'A': 'x\0y'}}, ValueError, 'embedded null byte'),
        ({'command': ['ls'], 'env': {'a=b': '1'}}, ValueError, 'illegal environment variable name'),
        ({'command': ['ls'], 'env': {'A': 1}}, TypeError, 'expected str, bytes or os.PathLike object, not int'),
        ({'command': ['ls'], 'sleep': 1}, TypeError, "there is no option 'sleep'"),
    ],
)
def test_wrong_parameters_are_refused(
    given: dict[str, Any], error: type[Exception], text: str, samplers: Samplers, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(error) as raised:
        gput.run(**given)
    assert text in str(raised.value)
    assert capfd.readouterr() == ('', '')


def test_several_threads_run_commands_at_once() -> None:
    results: dict[str, tracked_command.CommandResult] = {}

    def run(name: str, *command: str) -> None:
        results[name] = gput.run(command, **UNITS)

    burning = f'{BURN}\nburn(0.2)'
    threads = [threading.Thread(target=run, args=('burns', *python(burning)))]
    threads += [threading.Thread(target=run, args=(name, 'sleep', '0.2')) for name in ('sleeps', 'sleeps too')]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {name: result.exit_code for name, result in results.items()} == dict.fromkeys(results, 0)
    assert len(results) == 3
    used = {name: seconds_of(result.resource_usage) for name, result in results.items()}
    assert used['burns'] >= 0.2
    assert max(used['sleeps'], used['sleeps too']) < 0.1
    assert results['burns'].resource_usage.cpu_utilization.descendants_n_threads == 0


def test_report_and_recording_have_the_result(tmp_path: Path) -> None:
    program = 'import gpu_tracker as gput\nwith gput.region("part"):\n    pass\nraise SystemExit(4)'
    report, recording = tmp_path / 'usage.json', tmp_path / 'run.db'
    code, usage = gput.run(
        [sys.executable, '-c', program],
        env={**os.environ, 'PYTHONPATH': str(PACKAGE_PARENT)},
        resource_usage_file=report,
        tracking_file=recording,
    )
    assert code == 4
    assert gput.ResourceUsage.from_json(report.read_bytes()) == usage
    with gput.load(recording) as loaded:
        assert loaded.summary() == usage
        assert loaded.meta.exit_code == 4
        assert loaded.meta.command == (sys.executable, '-c', program)
        assert [region.name for region in loaded.regions] == ['part']


def test_a_sampler_that_was_ended_from_outside_costs_the_result_and_not_the_exit_code(
    tmp_path: Path, samplers: Samplers
) -> None:
    def kill() -> None:
        number_in(tmp_path / 'pid')
        os.kill(samplers.only(), signal.SIGKILL)
        (tmp_path / 'go').touch()

    script = f'echo $$ > {tmp_path}/pid; while ! [ -e {tmp_path}/go ]; do sleep 0.01; done; exit 6'
    killer = threading.Thread(target=kill)
    killer.start()
    code, usage = gput.run(['sh', '-c', script], disable_logs=True)
    killer.join()
    assert code == 6
    assert usage.cpu_utilization.combined.mean_sum_percent > 0


def test_nothing_is_left_open() -> None:
    before = os.listdir('/proc/self/fd')
    gput.run(['true'])
    with pytest.raises(FileNotFoundError):
        gput.run(['no-such-program'])
    with pytest.raises(FileNotFoundError):
        gput.run(['true'], cwd='/no/such/folder')
    assert os.listdir('/proc/self/fd') == before


def test_an_ignored_child_signal_loses_nothing() -> None:
    program = """
import json, signal, gpu_tracker as gput
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
code, usage = gput.run(['sh', '-c', 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exit 5'])
print(json.dumps([code, usage.cpu_utilization.main.mean_sum_percent > 0]))
"""
    assert answer(program) == [5, True]


def test_the_program_imports_neither_the_command_line_nor_what_measures() -> None:
    program = """
import json, sys, gpu_tracker as gput
gput.run(['true'])
print(json.dumps([name for name in sys.modules if name.startswith('gpu_tracker.cli') or name in ('psutil', 'pynvml')]))
"""
    assert answer(program) == []


LISTENER = """
import os, signal, sys
log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def end(*_):
    os.write(log, b'ended\\n')
    sys.exit(9)
signal.signal(signal.SIGINT, lambda *_: os.write(log, b'SIGINT\\n'))
signal.signal(signal.SIGTERM, end)
os.write(log, b'%d\\n' % os.getpid())
while True:
    signal.pause()
"""
INTERRUPTED = """
import sys, gpu_tracker as gput
from gpu_tracker.tracked_command import CommandInterrupted
try:
    gput.run(sys.argv[1:])
except KeyboardInterrupt as stop:
    print(type(stop).__name__, stop.result.exit_code, stop.result.resource_usage.max_ram.main.total_rss > 0, flush=True)
"""


def end_interrupted(pid: int, log: Path) -> None:
    """Wait until the listener has got SIGINT, and end it."""
    eventually(lambda: 'SIGINT\n' in text_of(log))
    os.kill(pid, signal.SIGTERM)


def test_ctrl_c_reaches_the_command_once_and_the_result_is_kept(tmp_path: Path) -> None:
    log = tmp_path / 'log'
    with Terminal([sys.executable, '-c', INTERRUPTED, *python(LISTENER, log)]) as terminal:
        pid = number_in(log)
        terminal.press('\x03')
        end_interrupted(pid, log)
        assert terminal.wait() == 0
        assert 'CommandInterrupted 9 True' in terminal.shown
    assert text_of(log).split('\n', 1)[1] == 'SIGINT\nended\n'


def test_an_interrupt_that_nobody_catches_leaves_no_other_error(tmp_path: Path) -> None:
    log = tmp_path / 'log'
    program = [
        sys.executable,
        '-c',
        'import sys\nimport gpu_tracker as gput\ngput.run(sys.argv[1:])',
        *python(LISTENER, log),
    ]
    with Terminal(program) as terminal:
        pid = number_in(log)
        terminal.press('\x03')
        end_interrupted(pid, log)
        assert terminal.wait() == 1
        assert 'CommandInterrupted' in terminal.shown
        assert 'Exception ignored' not in terminal.shown


def test_an_interrupt_of_the_program_alone_is_passed_on_once(tmp_path: Path) -> None:
    log = tmp_path / 'log'
    with start(INTERRUPTED, *python(LISTENER, log)) as program:
        pid = number_in(log)
        program.send_signal(signal.SIGINT)
        end_interrupted(pid, log)
        assert program.communicate(timeout=TIMEOUT)[0] == 'CommandInterrupted 9 True\n'
    assert text_of(log).split('\n', 1)[1] == 'SIGINT\nended\n'


def test_any_other_exception_ends_the_command_and_keeps_what_is_recorded(tmp_path: Path) -> None:
    program = """
import json, os, signal, sys, time, gpu_tracker as gput
def handle(*_):
    raise TimeoutError('enough')
signal.signal(signal.SIGUSR1, handle)
try:
    gput.run(sys.argv[2:], tracking_file=sys.argv[1])
except TimeoutError as error:
    print(json.dumps([str(error), gput.load(sys.argv[1]).meta.exit_code]))
"""
    script = f'echo $$ > {tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; exec sleep 1000'
    with start(program, tmp_path / 'run.db', 'sh', '-c', f'trap "" INT TERM; {script}') as running:
        pid = number_in(tmp_path / 'pid')
        running.send_signal(signal.SIGUSR1)
        assert json.loads(running.communicate(timeout=TIMEOUT)[0]) == ['enough', -9]
    assert not Path(f'/proc/{pid}').exists()


def test_a_command_that_is_killed_before_it_may_run_has_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = CommandLauncher._ask

    def killed_before(launcher: CommandLauncher, what: bytes) -> None:
        if what == b'g':
            os.kill(launcher.command, signal.SIGKILL)
            eventually(lambda: state_of(launcher.command) == 'Z')
        ask(launcher, what)

    monkeypatch.setattr(CommandLauncher, '_ask', killed_before)
    exit_code, usage = gput.run(['true'])
    assert exit_code == -9
    assert usage.max_ram.main.total_rss is None


def test_ctrl_c_before_it_is_known_that_a_command_cannot_be_started_is_raised_and_nobody_is_killed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / 'script'
    script.write_text('#!/no/such/interpreter\n')
    script.chmod(0o755)
    answer, kill, commands, killed = CommandLauncher._answer, os.kill, [], []

    def interrupted(launcher: CommandLauncher, expected: str) -> list[str]:
        if expected == 'started':
            commands.append(launcher.command)
            raise KeyboardInterrupt
        return answer(launcher, expected)

    def noting(pid: int, number: int) -> None:
        killed.extend([number] if pid in commands and number else [])  # 0 asks whether there is such a process
        kill(pid, number)

    monkeypatch.setattr(CommandLauncher, '_answer', interrupted)
    monkeypatch.setattr(real.os, 'kill', noting)
    with pytest.raises(KeyboardInterrupt):
        gput.run([str(script)])
    assert killed == []  # another process may have got its ID


@pytest.mark.parametrize(('error', 'number'), [(KeyboardInterrupt, signal.SIGINT), (TimeoutError, signal.SIGKILL)])
def test_what_is_raised_at_the_start_of_the_command_is_as_what_is_raised_while_it_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: type[BaseException], number: int
) -> None:
    keep = RunFiles.keep
    given = [error]

    def interrupted(files: RunFiles) -> None:
        if given:
            raise given.pop()
        keep(files)

    monkeypatch.setattr(RunFiles, 'keep', interrupted)
    with pytest.raises(error):
        gput.run(['sleep', '1000'], tracking_file=tmp_path / 'run.db')
    with gput.load(tmp_path / 'run.db') as recording:
        assert recording.meta.exit_code == -number


def test_a_command_outlives_the_program_that_was_killed(tmp_path: Path) -> None:
    script = f'echo $$ > {tmp_path}/pid; read line; echo done > {tmp_path}/done'
    reader, writer = os.pipe()
    with start('import sys, gpu_tracker as gput; gput.run(sys.argv[1:])', 'sh', '-c', script, stdin=reader) as running:
        number_in(tmp_path / 'pid')
        running.kill()
    os.write(writer, b'\n')
    eventually(lambda: text_of(tmp_path / 'done') == 'done\n')
    os.close(reader)
    os.close(writer)


def test_without_the_process_that_launches_there_is_no_result(tmp_path: Path, samplers: Samplers) -> None:
    script = f'echo $PPID > {tmp_path}/pid; {until(f"[ -e {tmp_path}/go ]")}'
    killer = threading.Thread(target=lambda: os.kill(number_in(tmp_path / 'pid'), signal.SIGKILL))
    killer.start()
    try:
        with pytest.raises(RuntimeError, match='The helper process that starts the command was killed'):
            gput.run(['sh', '-c', script])
    finally:
        killer.join()
        (tmp_path / 'go').touch()  # the command has outlived it


def test_without_an_interpreter_the_command_is_not_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, samplers: Samplers
) -> None:
    monkeypatch.setattr(sys, 'executable', '')
    with pytest.raises(RuntimeError, match=r'sys\.executable is not set'):
        gput.run(['touch', str(tmp_path / 'file')])
    assert os.listdir(tmp_path) == []


def test_where_a_command_cannot_be_held_back_it_is_sampled_from_its_start(tmp_path: Path, samplers: Samplers) -> None:
    streams = {'stdin': None, 'stdout': None, 'stderr': None, 'cwd': None}
    program = f"""{BURN}{UNTIL}
import os

def rows():
    if not os.path.exists(sys.argv[1]):
        return 0
    with open(sys.argv[1], 'rb') as file:
        return len(file.readlines())

burn(0.5)
time.sleep(0.5)
enough = max(rows(), 3) + 2  # below the head, a sample that began when all was used
until(lambda: rows() >= enough)
raise SystemExit(3)
"""
    options = {**UNITS, 'tracking_file': tmp_path / 'run.csv', 'sleep_time': 0.05}
    result = tracked_command._run_started(python(program, tmp_path / 'run.csv'), streams, environment(), None, options)
    assert result.exit_code == 3
    assert result.resource_usage.compute_time.time >= 1
    assert seconds_of(result.resource_usage) == pytest.approx(0.5, abs=0.1)


def test_it_takes_the_parameters_of_the_tracker() -> None:
    source = inspect.getsource(sys.modules['gpu_tracker.running.options'])
    options = source.partition('class TrackerOptions')[2].partition('\n\n\n')[0]
    names = [line.split(':')[0].strip() for line in options.splitlines()[3:] if ': ' in line]
    parameters = inspect.signature(gput.Tracker).parameters
    assert names == [name for name in parameters if name != 'process_id']
    types = [line.partition(': ')[2] for line in options.splitlines()[3:] if ': ' in line]
    assert types == [parameters[name].annotation for name in names]
