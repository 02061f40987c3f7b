from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from support.cli_program import PROGRAM, Marked, called, gpu_tracker, number_in, shell, started, state_of, text_of
from support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

COMPLETE = 'Resource tracking complete. Process completed with status code: '


def test_the_report_follows_the_output_of_the_command() -> None:
    run = gpu_tracker('-e', 'echo one; echo two >&2; sleep 0.2')
    first, _, report = run.stdout.partition('\n')
    assert first == 'one'
    assert report.startswith('Max RAM:\n   Unit: gigabytes\n')
    assert report.endswith('\n')
    assert not report.endswith('\n\n')
    assert run.stderr == f'two\n{COMPLETE}0\n'
    assert run.returncode == 0


def test_json_is_all_that_is_on_standard_output() -> None:
    run = gpu_tracker('-e', 'true', '-f', 'json', '--tu=seconds', '--ru=megabytes')
    usage = json.loads(run.stdout)
    assert run.stdout == json.dumps(usage, indent=1) + '\n'
    sections = ['max_ram', 'max_gpu_ram', 'cpu_utilization', 'gpu_utilization', 'compute_time']
    assert [name for name in usage if name != 'lower_bounds'] == sections
    assert usage['compute_time']['unit'] == 'seconds'


@pytest.mark.parametrize(
    ('command', 'status', 'code'),
    [
        ('exit 7', '7', 7),
        ("sh -c 'exit 255'", '255', 255),
        ('kill -TERM $$', '-15', 143),
        ('kill -PIPE $$', '-13', 141),
        ('-x', '127', 127),
    ],
)
def test_the_exit_code_is_that_of_the_command(command: str, status: int | str, code: int) -> None:
    run = gpu_tracker('-e', command)
    # On a busy machine a command of under a millisecond may not be seen, which is said after that line.
    told = [
        line for line in run.stderr.splitlines() if not line.startswith('gpu-tracker: The command has ended before')
    ]
    assert told[-1] == f'{COMPLETE}{status}'
    assert run.stdout.startswith('Max RAM:\n')
    assert run.returncode == code


@pytest.mark.parametrize(
    ('word', 'code', 'reason'),
    [
        ('no-such-program', 127, 'No such file or directory'),
        ('/no/such/program', 127, 'No such file or directory'),
        ('/etc/passwd', 126, 'Permission denied'),
        ('/tmp', 126, 'it is a folder. See "gpu-tracker explain not-started".'),
    ],
)
def test_a_program_that_cannot_be_started(tmp_path: Path, word: str, code: int, reason: str) -> None:
    run = called('-o', str(tmp_path / 'report'), '--', word)
    assert run.stderr == f'gpu-tracker: cannot start {word!r}: {reason}\n'
    assert run.stdout == ''
    assert run.returncode == code
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(('word', 'code'), [('train.py', 127), ('./train.py', 126), ('plot.py', 127)])
def test_a_python_program_without_python(tmp_path: Path, word: str, code: int) -> None:
    """A file that is there was not meant to be a command of gpu-tracker with a similar name."""
    (tmp_path / word).write_text('print()')
    run = called(word, '--epochs=3', cwd=tmp_path)
    assert run.stderr == (
        f'gpu-tracker: cannot start {word!r}: it is a Python program: put python in front of it, as in '
        f'"gpu-tracker python {word}". See "gpu-tracker explain not-started".\n'
    )
    assert (run.returncode, run.stdout) == (code, '')


@pytest.mark.parametrize(
    ('arguments', 'code', 'message'),
    [
        (['true x'], 127, "'true x': No such file or directory: did you mean true x, without quotes around it?"),
        (['-q', 'report', 'x.db'], 127, "'report': No such file or directory: did you mean gpu-tracker report?"),
        (['help'], 127, "'help': No such file or directory: did you mean gpu-tracker --help?"),
    ],
)
def test_a_program_that_cannot_be_started_with_what_was_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, message: str
) -> None:
    (tmp_path / 'bin').mkdir()
    for name in ('python', 'true'):
        (tmp_path / 'bin' / name).symlink_to('/bin/true')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv('PATH', str(tmp_path / 'bin'))
    run = called(*arguments)
    assert (run.stdout, run.stderr, run.returncode) == ('', f'gpu-tracker: cannot start {message}\n', code)


@pytest.mark.parametrize(
    ('content', 'before'), [('', 'old'), ('#!/no/such/interpreter\n', None), ('#!/no/such/interpreter\n', 'old')]
)
def test_a_report_file_is_as_it_was_where_only_the_exec_fails(tmp_path: Path, content: str, before: str | None) -> None:
    program = tmp_path / 'program'
    program.write_text(content)
    program.chmod(0o755 if content else 0o644)
    path = tmp_path / 'report'
    if before is not None:
        path.write_text(before)
    run = gpu_tracker('-o', str(path), '--', str(program))
    assert run.returncode == (127 if content else 126)
    assert run.stdout == ''
    assert (path.read_text() if path.exists() else None) == before


def test_a_script_that_names_no_interpreter_is_run_by_the_shell_and_a_binary_is_not(tmp_path: Path) -> None:
    script = tmp_path / 'script'
    script.write_text('echo "$1"; exit 3\n')
    script.chmod(0o755)
    run = gpu_tracker('-f', 'text', '--', str(script), 'a  b')
    assert run.stdout.startswith('a  b\nMax RAM:')
    assert run.returncode == 3
    binary = tmp_path / 'binary'
    binary.write_bytes(b'\x7fNOT\0\0\0')
    binary.chmod(0o755)
    run = gpu_tracker('--', str(binary))
    assert run.stderr == f'gpu-tracker: cannot start {str(binary)!r}: Exec format error\n'
    assert run.returncode == 126


@pytest.mark.parametrize(
    ('command', 'printed'),
    [
        ('printf "%s-" a "b  c" \'$HOME\'', 'a-b  c-$HOME-'),
        (
            (
                'echo x | tr x y; false || echo "a b" && cd / && pwd; echo a >&2; VALUE=3; echo $((VALUE + 1)) '
                '/etc/pass[w]d; VALUE=5 sh -c \'echo "$VALUE"\''
            ),
            'y\na b\n/\n4 /etc/passwd\n5\n',
        ),
    ],
)
def test_a_whole_shell_command(command: str, printed: str) -> None:
    run = gpu_tracker('-o', '/dev/null', '-e', command)
    assert run.stdout == printed
    assert run.returncode == 0


def test_a_plain_command_is_started_without_a_shell() -> None:
    command = f"{sys.executable} -c 'import os; print(os.getppid())'"
    with started('-o', '/dev/null', '-e', command) as process:
        output, _ = process.communicate()
        assert int(output) == process.pid


def test_arguments_after_the_dashes_are_passed_on_untouched() -> None:
    words = ['$HOME', '*', '--pid=1', '-h', '--', '', 'a b', "'", '\\']
    run = gpu_tracker('-o', '/dev/null', '--', 'printf', '<%s>', *words)
    assert run.stdout == ''.join(f'<{word}>' for word in words)


def test_the_command_reads_our_standard_input() -> None:
    run = gpu_tracker('-o', '/dev/null', '-e', 'cat', input='text\n', stdin=None)
    assert run.stdout == 'text\n'


@pytest.mark.parametrize(
    ('before', 'closed'), [('', ''), ('', '<&-'), ("trap '' HUP INT CHLD;", ''), ("trap '' HUP INT CHLD;", '<&- 2>&-')]
)
def test_the_command_finds_what_it_would_find_without_us(tmp_path: Path, before: str, closed: str) -> None:
    # Native code looks, because an interpreter itself ignores SIGPIPE: grep on its own status.
    command = 'grep -E "^Sig(Ign|Blk|Pnd)" /proc/self/status; ls -l /proc/self/fd | sed "s/.* \\([0-9]* ->\\)/\\1/"'
    script = f'{before} exec 5<&-; sh -c \'{command}\' {closed} > {tmp_path}/without; "$@" {closed} > {tmp_path}/with'
    run = shell(script, '-o', '/dev/null', '--', 'sh', '-c', command)
    assert run.returncode == 0

    def found(name: str) -> list[str]:
        lines = (tmp_path / name).read_text().replace(f'{tmp_path}/{name}', 'OUTPUT').splitlines()
        return [line for line in lines if '/proc/' not in line and 'pipe:' not in line]

    assert found('with') == found('without')
    assert 'SigBlk:\t0000000000000000' in found('with')


def test_a_closed_standard_output_stays_closed_for_the_command(tmp_path: Path) -> None:
    script = f'"$@" >&- 2> {tmp_path}/errors'
    command = f'test -e /proc/self/fd/1; echo $? > {tmp_path}/seen; sleep 0.2'
    run = shell(script, '-o', str(tmp_path / 'report'), '-e', command)
    assert run.returncode == 0
    assert (tmp_path / 'seen').read_text() == '1\n'
    assert (tmp_path / 'errors').read_text() == f'{COMPLETE}0\n'
    assert (tmp_path / 'report').read_text().startswith('Max RAM:\n')


def test_what_the_command_leaves_in_the_background_is_neither_waited_for_nor_ended(tmp_path: Path) -> None:
    marked = Marked()
    command = f'sleep 1000 >/dev/null 2>&1 & echo $! > {tmp_path}/pid; exit 4'
    run = gpu_tracker('-e', command, env=marked.environment)
    left = number_in(tmp_path / 'pid')
    try:
        assert run.returncode == 4
        assert state_of(left) not in {'', 'Z'}
        assert marked.processes('gpu_tracker') == []
    finally:
        os.kill(left, 9)


def test_orphans_that_end_are_reaped_while_the_command_goes_on(tmp_path: Path) -> None:
    # The shell between ends at once, so that its child is handed on.
    command = f"sh -c 'sleep 0.05 & echo $! > {tmp_path}/pid'; read line"
    with started('-o', '/dev/null', '-e', command, stdin=subprocess.PIPE) as process:
        orphan = number_in(tmp_path / 'pid')
        eventually(lambda: state_of(orphan) == '')
        assert process.poll() is None
        process.communicate('\n')
        assert process.returncode == 0


def test_a_thousand_arguments_and_a_long_one() -> None:
    words = ['x' * 100_000, *(['y'] * 1000)]
    assert gpu_tracker('-o', '/dev/null', '--', 'true', *words).returncode == 0


def test_in_a_pipeline_and_in_the_background() -> None:
    run = shell('echo text | "$@" | cat; echo ${PIPESTATUS[@]}', '-o', '/dev/null', '-e', 'cat; exit 3')
    assert run.stdout == 'text\n0 3 0\n'
    run = shell('"$@" & wait $!', '-o', '/dev/null', '-e', 'exit 3')
    assert run.returncode == 3


def test_killed_we_leave_the_last_whole_report_and_no_sampler(tmp_path: Path) -> None:
    marked = Marked()
    path = tmp_path / 'report'
    command = f'echo $$ > {tmp_path}/pid; sleep 1000'
    with started('--st=0.1', '-f', 'json', '-o', str(path), '-e', command, env=marked.environment) as process:
        child = number_in(tmp_path / 'pid')
        eventually(lambda: text_of(path))
        process.kill()
        process.wait()
        eventually(lambda: marked.processes('gpu_tracker') == [])
        for left in marked.processes():
            os.kill(left, 9)
    assert child
    usage = json.loads(path.read_text())
    assert usage['max_ram']['combined']['total_rss'] > 0
    assert os.listdir(tmp_path).count('report') == 1


def test_a_command_that_is_held_never_runs_where_we_are_killed(tmp_path: Path) -> None:
    hold = (
        'import os, sys, time\n'
        'from gpu_tracker.running.held_command import HeldCommand\n'
        f"held = HeldCommand(['touch', {str(tmp_path / 'ran')!r}])\n"
        'print(held.process_id, flush=True)\n'
        'time.sleep(1000)\n'
    )
    with subprocess.Popen([sys.executable, '-c', hold], stdout=subprocess.PIPE, text=True) as process:
        held = int(process.stdout.readline())
        assert state_of(held) not in {'', 'Z'}
        process.kill()
        eventually(lambda: state_of(held) in {'', 'Z'})
    assert os.listdir(tmp_path) == []


def test_the_size_of_our_caller_is_not_the_size_of_the_command() -> None:
    large = "import subprocess, sys\nmemory = b'x' * 100_000_000\nsys.exit(subprocess.run(sys.argv[1:]).returncode)\n"
    words = [sys.executable, '-c', large, *PROGRAM, '-f', 'json', '--ru=megabytes', '-e', 'sleep 0.2']
    run = subprocess.run(words, capture_output=True, text=True, check=True)
    peak = json.loads(run.stdout)['max_ram']['main']['total_rss']
    assert 0 < peak < 30


@pytest.mark.figures
def test_the_cpu_time_of_a_short_command_is_exact() -> None:
    # Counted from its own start: the clock of the process includes the time that it was held.
    burn = f"{sys.executable} -c 'import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass'"
    run = gpu_tracker('-f', 'json', '--tu=seconds', '-e', burn)
    usage = json.loads(run.stdout)
    seconds = usage['cpu_utilization']['main']['mean_sum_percent'] / 100 * usage['compute_time']['time']
    assert 0.2 <= seconds < 0.4
