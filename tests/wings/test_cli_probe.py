"""``gpu-tracker probe`` with real commands and processes, and with a probe that sees what it is told to."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.cli_program import called, gpu_tracker, number_in, text_of
from support.tracked_program import PACKAGE_PARENT, environment
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = Path(__file__).resolve().parent.parent
MISSING = {'STAGED_PROBLEM': 'CUDA calls cannot be probed: CAP_BPF is missing.'}
COMPLETE = 'CUDA probing complete.'
COMMAND_ENDED = 'Process completed with status code:'


def words(log: Path, *arguments: object) -> list[str]:
    return [sys.executable, '-m', 'support.cuda.scripted_probe', str(log), *map(str, arguments)]


def settings(env: dict[str, str] | None, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options with which subprocess starts the program."""
    variables = environment({'PYTHONPATH': f'{PACKAGE_PARENT}:{TESTS}', **(env or {})})
    return {'env': variables, 'stdout': subprocess.PIPE, 'stderr': subprocess.PIPE, 'text': True} | options


def probed(
    log: Path, *arguments: object, env: dict[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words(log, *arguments), check=False, timeout=TIMEOUT, **settings(env, options))


@contextlib.contextmanager
def probing(
    log: Path, *arguments: object, env: dict[str, str] | None = None, **options: Any
) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(words(log, *arguments), **settings(env, options)) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def test_a_command_is_held_back_until_the_probe_looks_and_keeps_its_streams(log: Path, tmp_path: Path) -> None:
    script = f'echo $$ > {tmp_path}/pid; echo ran >> {log}; cat; echo problem >&2; exit 3'
    run = probed(log, '--top=1', '-e', script, input='typed\n')
    pid = number_in(tmp_path / 'pid')
    assert log.read_text().splitlines() == [
        f'limits 16384 libraries  command /bin/sh -c -- {script}',
        'open',
        f'follow {pid}',
        'start',
        'ran',
        'finish',
        'close',
    ]
    printed, _, report = run.stdout.partition('\n')
    assert printed == 'typed'
    assert report.startswith('CUDA calls, seen for 1.0 s through staged\n\n')
    assert f'\n{pid:>{len(str(pid))}}  ?[2Jprogram (ended)     1,000       1,000' in report
    assert 'It is not GPU time' in ' '.join(report.split())
    assert report.endswith('as the GPU driver reports them.\n')
    assert run.stderr == f'problem\n{COMPLETE} {COMMAND_ENDED} 3\n'
    assert run.returncode == 3


@pytest.mark.parametrize(
    ('command', 'status', 'code'), [('kill -TERM $$', '-15', 143), ('no-such-program', '127', 127)]
)
def test_the_exit_code_is_that_of_the_command(log: Path, command: str, status: str, code: int) -> None:
    run = probed(log, '-e', command)
    assert run.stderr.endswith(f'{COMPLETE} {COMMAND_ENDED} {status}\n')
    assert run.stdout.startswith('CUDA calls, seen for')
    assert run.returncode == code


@pytest.mark.parametrize('content', ['', '#!/no/such/interpreter\n'])
def test_a_program_that_cannot_be_started_leaves_nothing_behind(log: Path, tmp_path: Path, content: str) -> None:
    program = tmp_path / 'program'
    program.write_text(content)
    program.chmod(0o755 if content else 0o644)
    run = probed(log, '-o', tmp_path / 'report', '--', program)
    assert run.stderr.startswith(f'gpu-tracker: cannot start {str(program)!r}: ')
    assert run.stdout == ''
    assert run.returncode == (127 if content else 126)
    assert not (tmp_path / 'report').exists()
    assert text_of(log).splitlines()[-2:] in ([], ['finish', 'close'])


def test_json_and_the_options_of_the_probe(log: Path) -> None:
    run = probed(log, '--json', '--limit=kernels=7', f'--library={sys.executable}', '--', 'true')
    document = json.loads(run.stdout)
    assert run.stdout == json.dumps(document, indent=2) + '\n'
    assert [process['launches'] for process in document['processes']] == [1000]
    assert log.read_text().startswith(f'limits 7 libraries {sys.executable} command true\n')


@pytest.mark.parametrize('words', [['-e', 'true'], ['--duration=0.01', '-e', 'sleep 0.2']])
def test_nobody_waits_for_the_report_until_the_probe_is_detached(log: Path, tmp_path: Path, words: list[str]) -> None:
    detaching = tmp_path / 'detaching'
    os.mkfifo(detaching)
    path = tmp_path / 'report'
    with probing(log, '-o', path, *words, env={'STAGED_DETACHING': str(detaching)}) as process:
        eventually(lambda: text_of(log).endswith('finish\nclose\n'))
        assert path.read_text().startswith('CUDA calls, seen for 1.0 s')
        assert process.poll() is None
        detaching.write_text('')
        assert process.wait(TIMEOUT) == 0


def test_a_signal_while_the_probe_is_detached_leaves_the_exit_code_as_it_was(log: Path, tmp_path: Path) -> None:
    detaching = tmp_path / 'detaching'
    os.mkfifo(detaching)
    with probing(log, '-e', 'exit 3', env={'STAGED_DETACHING': str(detaching)}) as process:
        eventually(lambda: text_of(log).endswith('close\n'))
        process.send_signal(signal.SIGINT)
        detaching.write_text('')
        process.communicate()
    assert process.returncode == 3


def test_where_no_probe_is_possible_the_command_runs_all_the_same(log: Path, tmp_path: Path) -> None:
    told = f'gpu-tracker: {MISSING["STAGED_PROBLEM"]} The command runs without the probe.\n'
    run = probed(log, '-e', 'echo one; exit 4', env=MISSING)
    assert run.stdout == f'one\n{MISSING["STAGED_PROBLEM"]}\n'
    assert run.stderr == f'{told}{COMMAND_ENDED} 4\n'
    assert run.returncode == 4
    path = tmp_path / 'report'
    run = probed(log, '--live', '--duration=0.01', '--json', '-o', path, '--', 'true', env=MISSING)
    assert (run.stdout, run.stderr, run.returncode) == ('', f'{told}{COMMAND_ENDED} 0\n', 0)
    assert json.loads(path.read_text()) == {'problem': MISSING['STAGED_PROBLEM']}


def test_where_the_probe_has_a_fault_the_command_runs_all_the_same(log: Path) -> None:
    run = probed(log, '--', 'sh', '-c', 'exit 4', env={'STAGED_FAULT': 'no such map'})
    fault = 'CUDA calls cannot be probed: internal error: RuntimeError: no such map'
    assert run.stderr == f'gpu-tracker: {fault}. The command runs without the probe.\n{COMMAND_ENDED} 4\n'
    assert run.stdout == f'{fault}\n'
    assert run.returncode == 4


def test_where_no_probe_is_possible_a_process_is_left_alone(
    log: Path, target: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    run = probed(log, '--pid', target.pid, '-o', tmp_path / 'report', env=MISSING)
    # The program under test has no last resort of its own: what is raised is what gpu-tracker says, see below.
    assert run.stderr.endswith(f'GpuTrackerError: {MISSING["STAGED_PROBLEM"]}\n')
    assert run.stdout == ''
    assert not (tmp_path / 'report').exists()
    assert target.poll() is None


def test_wrong_arguments_are_told_by_the_real_program() -> None:
    run = gpu_tracker('probe', '--top=x', '-e', 'true')
    assert run.stderr == "gpu-tracker: --top must be a whole number, 0 for no kernels, not 'x'\n"
    assert run.returncode == 125
    run = called('probe')
    assert run.stderr == (
        'gpu-tracker: the command is missing. Usage:\n'
        '  gpu-tracker probe [options] [--library=<path>]... [--limit=<limit>]...\n'
        '                    [--] <command> [<argument>...]\n'
        '  gpu-tracker probe -e <command> [options] [--library=<path>]... [--limit=<limit>]...\n'
        '  gpu-tracker probe --pid=<pid> [options] [--library=<path>]... [--limit=<limit>]...\n'
        "Try 'gpu-tracker probe --help'.\n"
    )
    assert run.returncode == 125
    with subprocess.Popen(['true']) as ended:
        pass
    run = called('probe', '--pid', str(ended.pid))
    assert run.stderr == (
        f"gpu-tracker: --pid must be the ID of a running process, not '{ended.pid}'. It has ended, or "
        'it is in a container and has another ID there. See "gpu-tracker explain no-such-process".\n'
    )
    assert run.returncode == 125


@pytest.mark.parametrize('name', ['SIGINT', 'SIGUSR1'])
def test_a_signal_reaches_the_command_and_the_report_comes(log: Path, tmp_path: Path, name: str) -> None:
    number = signal.Signals[name]
    with probing(log, '-e', f'ulimit -c 0; echo $$ > {tmp_path}/pid; exec sleep 1000') as process:
        number_in(tmp_path / 'pid')
        process.send_signal(number)
        output, errors = process.communicate()
    assert errors == f'{COMPLETE} {COMMAND_ENDED} -{number}\n'
    assert output.startswith('CUDA calls, seen for 1.0 s')
    assert process.returncode == 128 + number


def test_after_its_duration_the_report_comes_and_the_command_goes_on(log: Path) -> None:
    with probing(log, '--duration=0.01', '-e', 'read line; exit 6', stdin=subprocess.PIPE) as process:
        assert process.stderr.readline() == f'{COMPLETE}\n'
        assert process.stdout.readline() == 'CUDA calls, seen for 1.0 s through staged\n'
        eventually(lambda: text_of(log).endswith('finish\nclose\n'))
        assert process.poll() is None
        output, errors = process.communicate('\n')
    assert 'CUDA calls' not in output
    assert errors == f'{COMMAND_ENDED} 6\n'
    assert process.returncode == 6


def test_a_process_is_looked_at_until_it_ends(log: Path, target: subprocess.Popen[bytes]) -> None:
    with probing(log, '--pid', target.pid, '--json') as process:
        eventually(lambda: 'start\n' in text_of(log))
        target.stdin.close()
        target.wait()
        output, errors = process.communicate()
    assert errors == f'{COMPLETE}\n'
    assert [shown['pid'] for shown in json.loads(output)['processes']] == [target.pid]
    assert process.returncode == 0


@pytest.mark.parametrize('name', ['SIGINT', 'SIGQUIT'])
def test_a_signal_ends_the_looking_only(log: Path, target: subprocess.Popen[bytes], name: str) -> None:
    with probing(log, '--pid', target.pid) as process:
        eventually(lambda: 'start\n' in text_of(log))
        process.send_signal(signal.Signals[name])
        output, errors = process.communicate()
    assert errors == f'{COMPLETE}\n'
    assert output.startswith('CUDA calls, seen for 1.0 s')
    assert process.returncode == 0
    assert target.poll() is None


def test_a_duration_ends_the_looking_only(log: Path, target: subprocess.Popen[bytes]) -> None:
    run = probed(log, '--pid', target.pid, '--duration', '0.01')
    assert run.stderr == f'{COMPLETE}\n'
    assert run.stdout.count('CUDA calls, seen for') == 1
    assert run.returncode == 0
    assert target.poll() is None


def test_without_descriptors_of_processes_ends_are_seen_as_well(log: Path, target: subprocess.Popen[bytes]) -> None:
    # Where a container forbids them.
    program = (
        "import os, runpy; del os.pidfd_open; runpy.run_module('support.cuda.scripted_probe', run_name='__main__')"
    )
    start = [sys.executable, '-c', program, str(log), '--pid', str(target.pid)]
    run = subprocess.run([*start, '--duration=0.01'], check=False, timeout=TIMEOUT, **settings(None, {}))
    assert (run.stderr, run.returncode) == (f'{COMPLETE}\n', 0)
    log.unlink()
    with subprocess.Popen(start, **settings(None, {})) as process:
        eventually(lambda: 'start\n' in text_of(log))
        target.stdin.close()
        target.wait()
        _, errors = process.communicate()
    assert (errors, process.returncode) == (f'{COMPLETE}\n', 0)
