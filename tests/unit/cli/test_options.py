from __future__ import annotations

from importlib import import_module

import pytest

from gpu_tracker.cli import COMMANDS, DEFAULT_COMMAND
from gpu_tracker.cli.options import (
    UsageError,
    chosen_format,
    did_you_mean,
    number,
    of_option,
    output_path,
    parse,
    seconds,
)
from gpu_tracker.errors import ParameterError

TEXT = """Does something.

Usage:
  thing [options] [[--] <command> [<argument>...]]

Options:
  -h --help               Print this text.
  -v --version            Print the version.
  -c --colour=<name>      A colour. [default: red]
  --count=<n>             A number.
  --quiet                 No words.
"""


def read(*arguments: str) -> dict[str, str | bool | list[str] | None] | str:
    return parse(TEXT, arguments)


def test_values_and_defaults() -> None:
    values = read('--count', '3', '--quiet', '--', '-x')
    assert values['--colour'] == 'red'
    assert values['--count'] == '3'
    assert values['--quiet'] is True
    assert values['<command>'] == ['-x']


def test_help_and_version_are_returned_to_be_printed() -> None:
    assert read('--help') == TEXT
    assert read('-h', '--nonsense') == TEXT
    assert read('--quiet', '-v') == 'gpu-tracker 6.0.0\n'


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (['--nonsense'], 'unknown option --nonsense'),
        (['--nonsense=3'], 'unknown option --nonsense'),
        (['-x'], 'unknown option -x'),
        (['-cx', '-yz'], 'unknown option -y'),
        (['--count'], '--count needs a value'),
        (['--count', '--'], '--count needs a value'),
        (['--count', '--colour', 'red'], '--count needs a value'),
        (['-c'], '-c needs a value'),
        (['--quiet=yes'], '--quiet takes no value'),
        (['--co', 'x'], 'unknown option --co: did you mean --colour or --count?'),
        (['--qui'], 'unknown option --qui: did you mean --quiet?'),
        (['--count=1', '--count=1'], '--count was given twice'),
        (['-c', 'red', '--colour=blue'], '-c and --colour do not go together'),
        (['-5'], 'unknown option -5'),
        (['--quiet', '--help=x'], '--help takes no value'),
    ],
)
def test_the_message_names_the_argument_at_fault(
    arguments: list[str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError) as raised:
        read(*arguments)
    assert str(raised.value) == message
    assert capfd.readouterr() == ('', '')


def test_arguments_that_do_not_fit_the_usage() -> None:
    with pytest.raises(UsageError) as raised:
        parse('Usage:\n  thing word [options]\n\nOptions:\n  --quiet  No words.\n', ['other'])
    assert str(raised.value) == 'these arguments do not fit. Usage:\n  thing word [options]'


def test_a_line_of_an_explanation_that_begins_with_a_dash_is_no_option() -> None:
    text = TEXT.replace('A number.', 'A number, not\n                          --other: that is none.')
    with pytest.raises(UsageError, match=r'^unknown option --other:$'):
        parse(text, ['--other:=3'])


@pytest.mark.parametrize('name', ['', *COMMANDS])
def test_every_help_is_read(name: str) -> None:
    text = import_module(f'gpu_tracker.cli.{COMMANDS.get(name, DEFAULT_COMMAND)}').TEXT
    assert parse(text, ['--help'], name) == f'{text.strip()}\n'
    with pytest.raises(UsageError, match=r'^unknown option --zzz$'):
        parse(text, ['--zzz'], name)


def test_numbers() -> None:
    assert number('--count', int, '3', 'a number') == 3
    assert number('--count', float, '0.5', 'a number') == 0.5
    with pytest.raises(ParameterError, match=r"^--count must be a number, not 'x'$"):
        number('--count', int, 'x', 'a number')


def test_the_error_of_a_parameter_becomes_that_of_its_option() -> None:
    error = ParameterError('sleep_time', -1.0, 'a positive number')
    assert str(of_option(error, '--st', '-1')) == "--st must be a positive number, not '-1'"
    assert str(of_option(error, '--st', None)) == '--st must be a positive number, not -1.0'


def test_seconds_are_a_number_or_a_time_with_its_units() -> None:
    assert seconds('--interval', '0.5', (0.1, 60)) == 0.5
    assert seconds('--interval', '500ms', (0.1, 60)) == 0.5
    assert seconds('--interval', '1 min', (0.1, 60)) == 60
    for given in ('90ms', '1h', 'nan', 'often', ''):
        with pytest.raises(ParameterError) as raised:
            seconds('--interval', given, (0.1, 60))
        assert str(raised.value) == f'--interval must be a number of seconds from 0.1 to 60, not {given!r}'


def test_a_misspelt_name_is_answered_with_those_that_are_like_it() -> None:
    assert did_you_mean('--cont', ['--count', '--colour', '--quiet']) == ': did you mean --count?'
    assert did_you_mean('--fromat', ['--format', '--from']) == ': did you mean --format or --from?'
    assert did_you_mean('--zzz', ['--count']) == ''


@pytest.mark.parametrize(
    ('arguments', 'words'),
    [
        (['--count', '3', 'run', '--count', '4'], ['run', '--count', '4']),
        (['-c', 'red', '--quiet', 'run'], ['run']),
        (['-cred', 'run', '--', 'x'], ['run', '--', 'x']),
        (['--quiet', '--', '--count'], ['--count']),
        (['--quiet'], None),
        (['-', 'x'], ['-', 'x']),
    ],
)
def test_where_a_program_begins(arguments: list[str], words: list[str] | None) -> None:
    values = read(*arguments)
    assert isinstance(values, dict)
    assert values['<command>'] == words


def test_names_that_mean_the_same_option() -> None:
    text = TEXT.replace('--count=<n>', '--number, --count=<n>').replace('--quiet   ', '--json    ')
    text = text.replace('-c --colour=<name>      A colour. [default: red]', '-f --format=<f>  How. [default: text]')
    for arguments in (['--number=3'], ['--number', '3'], ['--count=3']):
        values = parse(text, arguments)
        assert isinstance(values, dict)
        assert (values['--count'], values['--format']) == ('3', 'text')
    values = parse(text, ['--json'])
    assert isinstance(values, dict)
    assert values['--format'] == 'json'
    with pytest.raises(UsageError, match=r'^--json and --format do not go together$'):
        parse(text, ['--json', '--format=text'])


def test_a_format_and_the_path_of_the_output() -> None:
    assert chosen_format({'--format': 'json'}, ('text', 'json')) == 'json'
    with pytest.raises(ParameterError, match=r"^--format must be text, json or csv, not 'xml'$"):
        chosen_format({'--format': 'xml'}, ('text', 'json', 'csv'))
    assert output_path({'--output': None}) is output_path({'--output': '-'}) is None
    assert output_path({'--output': 'x/-'}) == 'x/-'
