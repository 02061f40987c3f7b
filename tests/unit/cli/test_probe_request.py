"""What the arguments of ``gpu-tracker probe`` ask for."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.cli.options import UsageError, parse
from gpu_tracker.cli.probe import TEXT
from gpu_tracker.cli.probe_request import ProbeRequest, of_option, read_request
from gpu_tracker.cuda_probe.limits import Limits
from gpu_tracker.errors import ParameterError

if TYPE_CHECKING:
    from pathlib import Path

USAGE = (
    'these arguments do not fit. Usage:\n'
    '  gpu-tracker probe [options] [--library=<path>]... [--limit=<limit>]...\n'
    '                    [--] <command> [<argument>...]\n'
    '  gpu-tracker probe -e <command> [options] [--library=<path>]... [--limit=<limit>]...\n'
    '  gpu-tracker probe --pid=<pid> [options] [--library=<path>]... [--limit=<limit>]...'
)
NO_COMMAND = USAGE.replace('these arguments do not fit', 'the command is missing')


def read(*arguments: str) -> ProbeRequest | str:
    values = parse(TEXT, arguments, 'probe')
    return values if isinstance(values, str) else read_request(values)


def test_the_help_and_the_version() -> None:
    assert read('--help') == read('-h')
    assert read('--help').startswith('Traces the CUDA calls of a program and everything it starts')
    assert read('-v') == read('--version') == 'gpu-tracker 6.0.0\n'


def test_the_help_fits_a_terminal_and_names_each_bound_with_its_default() -> None:
    assert max(len(line) for line in TEXT.splitlines()) <= 88
    for field in fields(Limits):
        assert f'{field.name}={field.default}' in TEXT


def test_what_holds_where_nothing_is_said() -> None:
    request = read('-e', 'true')
    assert (request.words, request.process_id) == (['true'], None)
    assert (request.as_json, request.live, request.to_file) == (False, False, False)
    assert (request.interval, request.duration, request.top) == (1.0, None, 5)
    assert (request.limits, request.libraries) == (Limits(), [])


@pytest.mark.parametrize('subject', [['-e', 'true'], ['--pid=42'], ['--', 'true']])
def test_every_option_is_heard_beside_every_subject(tmp_path: Path, subject: list[str]) -> None:
    first, second = (tmp_path / name for name in ('libfirst.so', 'libsecond.so'))
    first.touch()
    second.touch()
    request = read(
        *(f'--library={first}', '--limit=kernels=7', '--json', '--live', '--interval=0.5', '--duration', '60'),
        *('-o', str(tmp_path / 'report'), '--top=0', '--library', str(second), '--limit', 'streams=9'),
        *subject,
    )
    assert (request.as_json, request.live, request.to_file) == (True, True, True)
    assert (request.interval, request.duration, request.top) == (0.5, 60.0, 0)
    assert request.limits == Limits(kernels=7, streams=9)
    assert request.libraries == [str(first), str(second)]
    assert (request.process_id, request.words) == ((42, []) if subject == ['--pid=42'] else (None, ['true']))


def test_arguments_after_the_dashes_are_untouched() -> None:
    words = ['program', '-h', '--pid=3', '--', '-e', '', '*', '--live']
    assert read('--top', '2', '--', *words).words == words
    many = ['program', *map(str, range(100_000))]
    assert read('--', *many).words == many


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        ([], NO_COMMAND),
        (['--json'], NO_COMMAND),
        (['--'], 'the command is empty'),
        (['--', ''], 'the command is empty'),
        (['-e', ' '], 'the command is empty'),
        (['-e', 'true', '--pid=3'], USAGE),
        (['--pid=3', '--', 'true'], USAGE),
        (['--pid=3', 'train.py'], USAGE),
        (['--li=4', '-e', 'true'], 'unknown option --li: did you mean --library or --limit or --live?'),
        (
            ['--top=1', '--library=a', '--library=b', '--limit=c', '--limit=d', '--top=2', '-e', 'x'],
            '--top was given twice',
        ),
    ],
)
def test_the_message_names_the_argument_at_fault(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        read(*arguments)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ('argument', 'message'),
    [
        ('--pid=x', "--pid must be a positive whole number, not 'x'"),
        ('--duration=0', "--duration must be a positive number of seconds, not '0'"),
        ('--duration=inf', "--duration must be a positive number of seconds, not 'inf'"),
        ('--interval=nan', "--interval must be a number of seconds, 0.1 at least, not 'nan'"),
        ('--interval=0.0999', "--interval must be a number of seconds, 0.1 at least, not '0.0999'"),
        ('--top=-1', "--top must be a whole number, 0 for no kernels, not '-1'"),
        ('--top=all', "--top must be a whole number, 0 for no kernels, not 'all'"),
        ('--library=/no/such', "--library must be the path of a library or program, not '/no/such'"),
        (
            '--limit=kernels=0',
            "--limit must be kernels and a positive whole number, as kernels=16384, not 'kernels=0'",
        ),
        ('--limit=kernels', "--limit must be kernels and a positive whole number, as kernels=16384, not 'kernels'"),
        (
            '--output=/no/such/file',
            "--output must be a path that can be written (there is no folder /no/such), not '/no/such/file'. See",
        ),
    ],
)
def test_a_wrong_value_is_told_with_its_option(argument: str, message: str) -> None:
    subject = [] if argument.startswith('--pid') else ['-e', 'true']
    with pytest.raises(ParameterError) as raised:
        read(argument, *subject)
    assert str(raised.value).startswith(message)


def test_a_bound_that_is_none_is_told_with_those_that_are() -> None:
    with pytest.raises(ParameterError) as raised:
        read('--limit=colours=3', '-e', 'true')
    assert str(raised.value).startswith('--limit must be NAME=NUMBER with one of the names ring_bytes, ')
    assert str(raised.value).endswith("not 'colours=3'")


def test_what_a_probe_says_of_a_bound_is_said_of_the_option() -> None:
    error = of_option(ParameterError('ring_bytes', 5, 'a power of two'))
    assert str(error) == "--limit must be a power of two, not 'ring_bytes=5'"
    error = of_option(ParameterError('libraries', '/bin/true', 'a file with functions of the CUDA runtime or driver'))
    assert str(error) == "--library must be a file with functions of the CUDA runtime or driver, not '/bin/true'"
    other = ParameterError('pid', 5, 'a process')
    assert of_option(other) is other


def test_a_file_is_not_made_where_another_value_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(ParameterError):
        read('-o', str(tmp_path / 'report'), '--top=x', '-e', 'true')
    assert list(tmp_path.iterdir()) == []
