"""The options of ``%%track``, and how its line is replaced."""

from __future__ import annotations

import os
from typing import Any

import pytest
from IPython.core.error import UsageError

from gpu_tracker.errors import ParameterError
from gpu_tracker.notebook import options
from gpu_tracker.notebook.magics import started_in_first_line

DEFAULTS = {'sleep_time': 0.1, 'ram_unit': 'megabytes', 'gpu_ram_unit': 'megabytes', 'time_unit': 'seconds'}
ACCEPTED = (
    '--st=TIME, --ru=UNIT, --gru=UNIT, --tu=UNIT, --nec=CORES, --guuids=UUIDS, --max-overhead=PERCENT, '
    '--sections=NAMES, --overwrite, --tf=FILE, --per-process, --report, --name=VARIABLE'
)


def refused(text: str) -> str:
    with pytest.raises(UsageError) as caught:
        options.read(text, {})
    return str(caught.value)


@pytest.mark.parametrize(
    ('text', 'parameters'),
    [
        ('', {}),
        ('--st=0.5', {'sleep_time': 0.5}),
        ('--st 2 --max-overhead=3', {'sleep_time': 2.0, 'max_overhead_percent': 3.0}),
        ('--st=100ms', {'sleep_time': 0.1}),
        ('--nec=4', {'n_expected_cores': 4}),
        ('--sections=io,energy', {'sections': ['io', 'energy']}),
        ('--sections="io, energy"', {'sections': ['io', 'energy']}),
        ('--guuids=GPU-a,GPU-b', {'gpu_uuids': ['GPU-a', 'GPU-b']}),
        (
            '--ru=bytes --gru=terabytes --tu=days',
            {'ram_unit': 'bytes', 'gpu_ram_unit': 'terabytes', 'time_unit': 'days'},
        ),
        ('--tf=run.db --overwrite --per-process', {'tracking_file': 'run.db', 'overwrite': True, 'per_process': True}),
        ('--tf="a run.db"', {'tracking_file': 'a run.db'}),
        ('--tf=$folder/{number + 1}.db', {'tracking_file': '/tmp/x/8.db'}),
        ('--tf=~/run.db', {'tracking_file': os.path.expanduser('~/run.db')}),
        ('--tf=$unknown', {'tracking_file': '$unknown'}),
    ],
)
def test_options_become_parameters(text: str, parameters: dict[str, Any]) -> None:
    request = options.read(text, {'folder': '/tmp/x', 'number': 7})
    assert request == options.Request({**DEFAULTS, **parameters}, shows_report=False, variable=None)


def test_the_report_and_the_variable() -> None:
    request = options.read('--report --name=run', {})
    assert (request.shows_report, request.variable) == (True, 'run')


def test_an_unknown_option_is_named_with_those_that_are_known() -> None:
    assert refused('--foo=1') == f'%track: unrecognized arguments: --foo=1; accepted options: {ACCEPTED}'
    text = 'argument --sleep-time/--interval/--st: expected one argument'
    assert refused('--st') == f'%track: {text}; accepted options: {ACCEPTED}'
    assert refused('--tf="a').endswith(f'; accepted options: {ACCEPTED}')


def test_a_text_that_is_no_number_is_refused() -> None:
    accepted = 'a positive number of seconds, or a time with its unit such as 100ms'
    assert refused('--st=fast') == f"--st must be {accepted}, not 'fast'"


@pytest.mark.parametrize('name', ['1x', 'a b', 'class', ''])
def test_the_name_of_a_variable_is_checked(name: str) -> None:
    assert refused(f'--name="{name}"').startswith('--name must be the name of a variable, not ')


def test_a_report_needs_a_recording() -> None:
    assert refused('--report --tf=x.csv') == (
        '--report needs a recording, and x.csv has no recording: give --tf a path that does not end in .csv'
    )


def test_what_the_tracker_refuses_is_said_of_the_option() -> None:
    error = ParameterError('tracking_file', 'x.db', 'a new file, or an older recording, also of gpu-tracker 5')
    assert str(options.refusal(error)) == (
        "--tf must be a new file, or an older recording, also of gpu-tracker 5, not 'x.db'"
    )
    assert str(options.refusal(ParameterError('sleep_time', 'x', 'a positive number of seconds'))) == (
        "--st must be a positive number of seconds, not 'x'"
    )


@pytest.mark.parametrize(
    ('line', 'statement'),
    [
        ('work()', 'work()'),
        ('--st=0.1 work(a, b)', 'work(a, b)'),
        ('  --report --tf="a b.db" x = work()', 'x = work()'),
        ("--tf='a b.db' --overwrite x --y", 'x --y'),
        ('--report', ''),
        ('-x', '-x'),
        ('--x', ''),
        ('x - --y', 'x - --y'),
    ],
)
def test_the_statement_begins_after_the_options(line: str, statement: str) -> None:
    assert line[options.end_of_options(line) :].strip() == statement


def test_the_help_has_all_options() -> None:
    text = options.help_text()
    assert all(name.split('=')[0] in text for name in ACCEPTED.split(', '))


CALL = "get_ipython().run_cell_magic('track', {!r}, '\\n')\n"


@pytest.mark.parametrize(
    ('cell', 'found'),
    [
        ('a = 1\nb = 2\n', 'a = 1\nb = 2\n'),
        ('%%track\na = 1\nawait b\n', CALL.format('') + 'a = 1\nawait b\n'),
        ('%%track --st=1  \n\na\n', CALL.format('--st=1') + '\na\n'),
        ('%%track\n', CALL.format('')),
        ("%%track --tf='x y'\n", CALL.format("--tf='x y'")),
        ('%%track\n\n%%time\na\n', CALL.format('') + "get_ipython().run_cell_magic('time', '', 'a\\n')\n"),
        ('%%tracking\na\n', '%%tracking\na\n'),
        ('%%track?\n', '%%track?\n'),
        ('', ''),
    ],
)
def test_the_line_of_the_magic_becomes_a_call_and_the_others_keep_their_numbers(cell: str, found: str) -> None:
    assert ''.join(started_in_first_line(cell.splitlines(keepends=True))) == found
