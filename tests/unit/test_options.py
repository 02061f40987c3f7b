from __future__ import annotations

import pytest

from gpu_tracker.cli.options import UsageError, explain, number, of_option, parse
from gpu_tracker.errors import ParameterError

TEXT = """Does something.

Usage:
  thing -h | --help
  thing -v | --version
  thing [options] [(-- <word>)]

Options:
  -h --help               Print this text.
  -v --version            Print the version.
  -c --colour=<name>      A colour. [default: red]
  --count=<n>             A number.
  --quiet                 No words.
"""


def read(*arguments: str) -> dict[str, str | bool | list[str] | None] | str:
    return parse(TEXT, 'thing 1.0', list(arguments))


def test_values_and_defaults() -> None:
    values = read('--count', '3', '--quiet', '--', '-x')
    assert values['--colour'] == 'red'
    assert values['--count'] == '3'
    assert values['--quiet'] is True
    assert values['<word>'] == '-x'


def test_help_and_version_are_returned_to_be_printed() -> None:
    assert read('--help') == TEXT
    assert read('-h', '--nonsense') == TEXT
    assert read('-v') == 'thing 1.0\n'


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
        (['--co', 'x'], '--co could be any of --colour, --count'),
        (['--count=1', '--count=2'], '--count was given twice'),
        (['-c', 'red', '--colour=red'], '--colour was given twice'),
        (['word'], "unexpected argument 'word'"),
        (['-5'], "unexpected argument '-5'"),
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


def test_arguments_that_only_together_are_wrong() -> None:
    assert explain(TEXT, ['--quiet']) == 'these arguments do not go together'


def test_numbers() -> None:
    assert number('--count', int, '3', 'a number') == 3
    assert number('--count', float, '0.5', 'a number') == 0.5
    with pytest.raises(ParameterError, match=r"^--count must be a number, not 'x'$"):
        number('--count', int, 'x', 'a number')


def test_the_error_of_a_parameter_becomes_that_of_its_option() -> None:
    error = ParameterError('sleep_time', -1.0, 'a positive number')
    assert str(of_option(error, '--st', '-1')) == "--st must be a positive number, not '-1'"
    assert str(of_option(error, '--st', None)) == '--st must be a positive number, not -1.0'
