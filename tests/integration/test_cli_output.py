from __future__ import annotations

import json
import os
import re
import shlex
import signal
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from support.cli_program import called, gpu_tracker, shell, started
from support.deadlines import UNTIL

if TYPE_CHECKING:
    from pathlib import Path

COMPLETE = 'Resource tracking complete. Process completed with status code: '
HINT = "Try 'gpu-tracker --help'."


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (['--st=0'], "--st must be .*positive.*, not '0'"),
        (['--st=nan'], "--st must be .*positive.*, not 'nan'"),
        (['--st=inf'], "--st must be .*positive.*, not 'inf'"),
        (['--st=abc'], "--st must be a positive number of seconds, or a time with its unit such as 100ms, not 'abc'"),
        (['--ru=miles'], "--ru must be .*gigabytes.*, not 'miles'"),
        (['--gru=miles'], "--gru must be .*gigabytes.*, not 'miles'"),
        (['--tu=miles'], "--tu must be .*hours.*, not 'miles'"),
        (['--nec=0'], "--nec must be a whole number of at least 1, or 'allowed', not '0'"),
        (['--nec=two'], "--nec must be a whole number of at least 1, or 'allowed', not 'two'"),
        (['--gb=none'], "--gb must be .*nvidia.*, not 'none'"),
        (['--guuids=,'], "--guuids must be .*UUIDs.*, not ','"),
        (['--max-overhead=0'], "--max-overhead must be a percentage of one core, above 0 and at most 100, not '0'"),
        (['--max-overhead=all'], "--max-overhead must be a percentage of one core, .*, not 'all'"),
        (['-f', 'xml'], "--format must be text, json, summary or csv, not 'xml'"),
        (['-o', '/no/such/folder/report'], '--output must be .*there is no folder /no/such/folder.*'),
        (['-o', '/tmp'], '--output must be .*Is a directory.*'),
        (['-o', ''], '--output must be .*No such file or directory.*'),
    ],
)
def test_a_wrong_value_is_found_before_the_command_starts(tmp_path: Path, arguments: list[str], message: str) -> None:
    run = called(*arguments, '--', 'touch', str(tmp_path / 'ran'))
    assert run.returncode == 125
    assert run.stdout == ''
    lines = run.stderr.splitlines()
    assert len(lines) == 1
    assert re.fullmatch(f'gpu-tracker: {message}', lines[0])
    assert os.listdir(tmp_path) == []


def test_a_gpu_that_is_not_there_is_found_before_the_command_starts(tmp_path: Path) -> None:
    run = gpu_tracker('--guuids=GPU-none', '--', 'touch', str(tmp_path / 'ran'))
    assert (run.returncode, run.stdout) == (125, '')
    assert re.fullmatch('gpu-tracker: --guuids must be .*\n', run.stderr)
    assert os.listdir(tmp_path) == []


USAGE = (
    'these arguments do not fit. Usage:\n'
    '  gpu-tracker [options] [--] <command> [<argument>...]\n'
    '  gpu-tracker -e <command> [options]\n'
    '  gpu-tracker --pid=<pid> [options]'
)
NO_COMMAND = USAGE.replace('these arguments do not fit', 'the command is missing')


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (['--st=1'], NO_COMMAND),
        (['-e', ''], 'the command is empty'),
        (['--foo', '-e', 'true'], 'unknown option --foo'),
        (['-e', 'true', '--st'], '--st needs a value'),
    ],
)
def test_wrong_options_are_named_with_a_hint(arguments: list[str], message: str) -> None:
    run = called(*arguments)
    assert run.stderr == f'gpu-tracker: {message}\n{HINT}\n'
    assert run.stdout == ''
    assert run.returncode == 125


def test_without_arguments_it_shows_examples_and_commands() -> None:
    run = called()
    assert run.stderr.startswith(
        'Examples:\n'
        '  gpu-tracker python train.py\n'
        '  gpu-tracker --time-limit=2h --record=run.db python train.py\n'
        '  gpu-tracker report run.db\n'
        '\n'
        'Other commands:\n'
        '  gpu-tracker gpus        Show the GPUs of this machine. Also: gpu-tracker ls.\n'
    )
    assert run.stderr.endswith(f'\n\n{HINT}\n')
    assert (run.stdout, run.returncode) == ('', 125)


def test_help_in_front_of_a_command_is_that_of_the_command() -> None:
    assert called('-h', 'gpus').stdout == called('--help', 'gpus').stdout == called('gpus', '-h').stdout
    assert called('-h', 'no-command').stdout == called('-h').stdout


def test_a_csv_file_is_announced_as_no_recording(tmp_path: Path) -> None:
    text = 'gpu-tracker show and report cannot read a CSV file, which has only samples\n'
    run = gpu_tracker(f'--record={tmp_path}/run.csv', '-o', '/dev/null', 'true')
    assert run.stderr.startswith(f'gpu-tracker: --record: {text}')
    assert gpu_tracker(f'--tf={tmp_path}/quiet.csv', '-q', '-o', '/dev/null', 'true').stderr == ''


def test_a_command_of_gpu_tracker_that_is_misspelt() -> None:
    run = called('reprot', 'run.db')
    assert run.stderr == (
        "gpu-tracker: cannot start 'reprot': No such file or directory: did you mean gpu-tracker report?\n"
    )
    assert run.returncode == 127


def test_the_name_of_a_command_of_gpu_tracker_counts_in_the_first_place_alone(tmp_path: Path) -> None:
    program = tmp_path / 'report'
    program.write_text('#!/bin/sh\necho "my own $1"\n')
    program.chmod(0o755)
    for arguments in (['--', 'report'], ['--quiet', 'report']):
        run = shell(f'PATH={tmp_path}:$PATH; export PATH; "$@"', *arguments, 'figures')
        assert run.stdout.startswith('my own figures\n')
    run = called('report', 'figures', env=os.environ | {'PATH': f'{tmp_path}:{os.environ["PATH"]}'})
    assert run.returncode == 125
    assert run.stdout == ''


@pytest.mark.parametrize('options', [('-q',), (), ('-f', 'json')])
def test_a_failure_is_said_in_one_line_if_the_report_is_in_a_file(options: tuple[str, ...]) -> None:
    run = gpu_tracker(*options, '-o', '/dev/null', 'sh', '-c', 'echo mine >&2; exit 3')
    mine, failed = run.stderr.splitlines()
    assert (run.stdout, mine, run.returncode) == ('', 'mine', 3)
    assert re.fullmatch(r"sh -c 'echo mine >&2; exit 3'   failed with exit code 3 after \S+ m?s(econds)?", failed)


def test_quiet_leaves_a_command_alone_that_ends_well() -> None:
    run = gpu_tracker('-q', '-o', '/dev/null', 'sh', '-c', 'echo mine >&2')
    assert (run.stdout, run.stderr, run.returncode) == ('', 'mine\n', 0)


def test_help_and_version() -> None:
    run = called('--help')
    assert run.stdout.startswith('Runs a command, or watches')
    assert (run.stderr, run.returncode) == ('', 0)
    run = called('--version')
    assert (run.stdout, run.stderr, run.returncode) == ('gpu-tracker 6.0.0\n', '', 0)


def test_an_existing_file_is_as_it_was_while_the_command_starts(tmp_path: Path) -> None:
    path = tmp_path / 'report'
    path.write_text('old\n')
    path.chmod(0o604)
    run = gpu_tracker('-o', str(path), '-e', f'cat {path}')
    assert run.stdout == 'old\n'
    assert path.read_text().startswith('Max RAM:')
    assert stat.S_IMODE(path.stat().st_mode) == 0o604


def test_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / 'folder').mkdir()
    (tmp_path / 'link').symlink_to('folder/report')
    assert gpu_tracker('-o', str(tmp_path / 'link'), '-e', 'true').returncode == 0
    assert (tmp_path / 'link').is_symlink()
    assert (tmp_path / 'folder' / 'report').read_text().startswith('Max RAM:')


def test_devices_are_written_in_place() -> None:
    run = gpu_tracker('-o', '/dev/stderr', '-e', 'sleep 0.2')
    first, _, report = run.stderr.partition('\n')
    assert first == f'{COMPLETE}0'
    assert report.startswith('Max RAM:')
    assert run.stdout == ''


def test_a_redirected_standard_output_that_is_named_as_the_file_loses_nothing(tmp_path: Path) -> None:
    run = shell(f'{{ "$@"; echo after; }} > {tmp_path}/all', '-o', '/dev/stdout', '-e', 'echo before')
    assert run.returncode == 0
    text = (tmp_path / 'all').read_text()
    assert text.startswith('before\nMax RAM:')
    assert text.endswith('\nafter\n')


def test_a_fifo_gets_the_report(tmp_path: Path) -> None:
    fifo = tmp_path / 'fifo'
    os.mkfifo(fifo)
    with started('-o', str(fifo), '-e', 'true') as process:
        assert fifo.read_text().startswith('Max RAM:')
        process.communicate()
        assert process.returncode == 0
    assert stat.S_ISFIFO(fifo.stat().st_mode)


@pytest.mark.parametrize(('command', 'code'), [('true', 125), ('exit 3', 3)])
def test_a_full_device_sends_the_report_to_standard_output(command: str, code: int) -> None:
    run = gpu_tracker('-o', '/dev/full', '-e', command)
    assert run.stdout.startswith('Max RAM:')
    assert run.stderr.splitlines()[-1] == 'gpu-tracker: cannot write /dev/full: No space left on device'
    assert run.returncode == code


def test_a_file_that_cannot_grow_keeps_the_last_whole_report(tmp_path: Path) -> None:
    path = tmp_path / 'report'
    path.write_text('old')
    # The command takes from us the right to write to files, as a disk does that fills up meanwhile.
    # The sampler has written a report meanwhile, as it does once a second.
    limit = f"""{UNTIL}
import os, resource
resource.prlimit(os.getppid(), resource.RLIMIT_FSIZE, (0, 0))
until(lambda: open(sys.argv[1]).read() != 'old')
"""
    run = gpu_tracker('-o', str(path), '--', sys.executable, '-c', limit, str(path))
    assert run.stdout.startswith('Max RAM:')
    assert run.stderr.splitlines()[-1] == f'gpu-tracker: cannot write {path}: File too large'
    assert run.returncode == 125
    assert path.read_text().startswith('Max RAM:\n')
    assert '\n   Time: ' in path.read_text()
    assert os.listdir(tmp_path) == ['report']


def test_a_folder_that_vanishes_while_the_command_runs(tmp_path: Path) -> None:
    folder = tmp_path / 'folder'
    folder.mkdir()
    run = gpu_tracker('-o', str(folder / 'report'), '-e', f'rm -rf {folder}')
    assert run.stdout.startswith('Max RAM:')
    assert run.stderr.splitlines()[-1] == f'gpu-tracker: cannot write {folder}/report: No such file or directory'
    assert run.returncode == 125


def test_a_full_standard_output() -> None:
    run = shell('"$@" > /dev/full', '-e', 'sleep 0.2')
    assert run.stderr.splitlines() == [
        f'{COMPLETE}0',
        'gpu-tracker: cannot write the report to standard output: No space left on device',
    ]
    assert run.returncode == 125


@pytest.mark.parametrize(
    ('arguments', 'closed', 'code'),
    [
        ('-e true', '>&-', 125),
        ('-e true', '2>&-', 0),
        ('-e true', '<&- >&- 2>&-', 125),
        ('-- sh -c exit\\ 3', '<&-', 3),
        ('-- sh -c exit\\ 3', '>&- 2>&-', 3),
        ('--help', '>&-', 125),
        ('--help', '2>&-', 0),
        ('--help', '<&- >&- 2>&-', 125),
        ('--foo', '2>&-', 125),
        ('--foo', '>&- 2>&-', 125),
    ],
)
def test_closed_streams_give_no_traceback_and_nothing_else_gets_their_text(
    tmp_path: Path, arguments: str, closed: str, code: int
) -> None:
    run = shell(f'cd {tmp_path}; "$@" {closed}', *shlex.split(arguments))
    assert 'Traceback' not in run.stderr
    assert 'Exception' not in run.stderr
    assert run.returncode == code
    assert os.listdir(tmp_path) == []


def without_reader(*arguments: str) -> subprocess.CompletedProcess[str]:
    reader, writer = os.pipe()
    os.close(reader)
    run = gpu_tracker(*arguments, stdout=writer)
    os.close(writer)
    return run


def test_a_report_whose_reader_has_gone_gives_no_traceback() -> None:
    run = without_reader('-e', 'true')
    assert run.stderr.splitlines()[-1].startswith('gpu-tracker: cannot write ')
    assert 'Traceback' not in run.stderr
    assert run.returncode == 125


def test_a_text_whose_reader_has_gone_ends_as_coreutils_do() -> None:
    run = without_reader('--help')
    assert (run.returncode, run.stderr) == (128 + signal.SIGPIPE, '')


def test_a_standard_output_that_its_other_end_has_made_non_blocking_gets_everything() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    filler = 'head -c 60000 /dev/zero'  # leaves too little room in the pipe for the report
    with started('-e', filler, stdout=writer, stderr=subprocess.PIPE) as process:
        os.close(writer)
        with open(reader, encoding='utf-8') as file:
            text = file.read()
        process.communicate()
    assert text.count('\0') == 60000
    assert '\n   Time: ' in text


def test_verbose_tells_on_standard_error_how_the_run_was_sampled(tmp_path: Path) -> None:
    report = tmp_path / 'report.json'
    done = gpu_tracker('--verbose', '--st=0.1', '-f', 'json', '-o', str(report), '-e', 'sleep 0.3')
    assert re.fullmatch(
        f'{COMPLETE}0\n'
        r'Sampling: \d+ samples, \d+ late, \d+ skipped, mean interval 0\.\d{4} s, 0\.\d{4} CPU seconds\n',
        done.stderr,
    )
    assert done.stdout == ''


def test_verbose_names_the_figures_that_may_be_too_low_with_the_reason(tmp_path: Path) -> None:
    report = tmp_path / 'report.json'
    program = 'import os, signal, time; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.fork(); time.sleep(0.5)'
    command = f'{sys.executable} -S -c {shlex.quote(program)}'
    done = gpu_tracker('--verbose', '--st=0.1', '-f', 'json', '-o', str(report), '-e', command)
    reason = 'a process ignores SIGCHLD or sets SA_NOCLDWAIT, so the kernel does not report what its children used'
    (line,) = [line for line in done.stderr.splitlines() if line.startswith(f'At least, because {reason}: ')]
    paths = line.partition(': ')[2].split(', ')
    assert 'cpu_utilization.combined.mean_sum_percent' in paths
    assert set(paths) <= set(json.loads(report.read_text())['lower_bounds'])
