from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.cli import main
from gpu_tracker.cli.options import UsageError, Values, parse
from gpu_tracker.cli.request import Request, read_request
from gpu_tracker.cli.track import OPTION_OF, TEXT
from gpu_tracker.errors import GpuTrackerError, ParameterError
from gpu_tracker.running.options import Options
from gpu_tracker.tracker import Tracker

if TYPE_CHECKING:
    from pathlib import Path

USAGE = (
    'these arguments do not fit. Usage:\n'
    '  gpu-tracker [options] [--] <command> [<argument>...]\n'
    '  gpu-tracker -e <command> [options]\n'
    '  gpu-tracker --pid=<pid> [options]'
)
NO_COMMAND = USAGE.replace('these arguments do not fit', 'the command is missing')
QUOTES = 'put the whole command in quotes, or leave out'


def read(*arguments: str) -> Request | str:
    values = parse(TEXT, arguments)
    return values if isinstance(values, str) else read_request(values)


def test_the_help_opens_with_what_the_tool_does() -> None:
    text = read('--help')
    assert text.startswith('Runs a command, or watches a running process, and reports the RAM')
    assert text == read('-h')


def test_the_defaults_in_the_help_are_those_of_the_tracker() -> None:
    defaults = {name: parameter.default for name, parameter in signature(Tracker).parameters.items()}
    shown = read('-e', 'true').parameters
    assert {name: defaults[name] for name in shown} == shown
    assert {name for name in ('n_expected_cores', 'gpu_uuids', 'gpu_brand') if defaults[name] is None} == {
        'n_expected_cores',
        'gpu_uuids',
        'gpu_brand',
    }


def test_the_help_fits_a_terminal() -> None:
    assert max(len(line) for line in TEXT.splitlines()) <= 84


def test_the_version() -> None:
    assert read('-v') == read('--version') == 'gpu-tracker 6.0.0\n'


def test_arguments_after_the_dashes_are_untouched() -> None:
    words = ['program', '-h', '--pid=3', '--', '-e', '', '*', '--foo']
    assert read('--st', '2', '--', *words).words == words


def test_a_command_needs_no_dashes_in_front_of_it() -> None:
    request = read('--st', '2', '-f', 'json', 'python', 'train.py', '-f', 'text', '--', '--pid=3', '-h')
    assert request.words == ['python', 'train.py', '-f', 'text', '--', '--pid=3', '-h']
    assert (request.format, request.parameters['sleep_time']) == ('json', 2.0)
    assert read('--execute=true', '--st=2').words == ['true']
    assert read('report', 'run.db').words == ['report', 'run.db']


def test_other_names_of_an_option_and_short_forms() -> None:
    assert read('--interval=0.5', 'true').parameters == read('--st=0.5', 'true').parameters
    assert read('--interval', '0.5', 'true').parameters == read('--st=0.5', 'true').parameters
    assert read('--json', 'true').format == read('-fjson', 'true').format == 'json'
    assert read('--json', '--format=json', 'true').format == 'json'


def test_units_as_people_type_them_reach_the_tracker() -> None:
    parameters = read('--ru=GiB', '--gru=mb', '--tu=MIN', 'true').parameters
    checked = Options(**parameters)
    assert (checked.ram_unit, checked.gpu_ram_unit, checked.time_unit) == ('gibibytes', 'megabytes', 'minutes')


def test_adaptive_units_are_base_units_until_they_are_shown() -> None:
    request = read('--ru=auto', '--tu=Auto', '-e', 'true')
    assert request.adaptive == ('ram', 'time')
    assert (request.parameters['ram_unit'], request.parameters['gpu_ram_unit']) == ('bytes', 'gigabytes')
    assert request.parameters['time_unit'] == 'seconds'
    assert request.form == ('text', ('ram', 'time'), [])
    assert read('--ru=auto', '-f', 'summary', 'true').adaptive == ('ram',)
    for written in ('json', 'csv'):
        with pytest.raises(UsageError) as raised:
            read('--gru=auto', '-f', written, 'true')
        assert str(raised.value) == '--gru=auto needs --format=text or --format=summary'


@pytest.mark.parametrize(
    ('arguments', 'expected'),
    [
        (['true'], None),
        (['--verbose', '--sections=io', '--', 'true'], None),
        (['-e', 'true'], 'text'),
        (['--pid=1'], 'text'),
        (['-o', '-', 'true'], 'text'),
        (['-f', 'text', 'true'], 'text'),
        (['--json', 'true'], 'json'),
    ],
)
def test_words_without_format_and_output_get_the_short_report(arguments: list[str], expected: str | None) -> None:
    assert read(*arguments).format == expected


def test_the_short_report_has_the_units_that_were_given_and_else_those_that_suit() -> None:
    assert read('true').adaptive == ('ram', 'gpu_ram', 'time')
    assert read('--ram-unit=GB', '--tu=auto', 'true').adaptive == ('time', 'gpu_ram')
    assert read('-e', 'true').adaptive == ()


def test_the_end_is_announced_with_e_and_pid_alone() -> None:
    assert [read(*words).announces_end for words in (['-e', 'true'], ['--pid=1'], ['-f', 'json', 'true'])] == [
        True, True, False,
    ]  # fmt: skip
    assert not read('-q', '-e', 'true').announces_end


def test_quiet_runs_print_no_warnings() -> None:
    request = read('-q', 'true')
    assert (request.quiet, request.parameters['disable_logs']) == (True, True)


def test_a_tilde_is_the_home_folder_and_a_dash_is_standard_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv('HOME', str(tmp_path))
    request = read('--output=~/usage.json', '--tf=~/run.db', 'true')
    assert request.destination.replaceable == f'{tmp_path}/usage.json'
    assert request.parameters['tracking_file'] == f'{tmp_path}/run.db'
    assert read('-o', '-', 'true').destination.replaceable is None


def test_many_arguments_take_no_time() -> None:
    words = ['program', *(str(number) for number in range(100_000))]
    assert read('--', *words).words == read(*words).words == words


def test_options_stand_before_or_after_the_command() -> None:
    assert read('--st=2', '-e', 'true').parameters == read('-e', 'true', '--st=2').parameters
    assert read('--execute=true').words == read('-e', 'true').words == ['true']


def test_cuda_is_a_parameter_only_where_it_is_asked_for() -> None:
    assert 'cuda' not in read('-e', 'true').parameters
    assert read('-e', 'true', '--cuda').parameters['cuda'] is True


def test_a_view_is_asked_for_by_an_option_of_its_own() -> None:
    assert (read('-e', 'true').live, read('-e', 'true', '--live').live) == (False, True)
    assert 'live' not in read('-e', 'true', '--live').parameters


@pytest.mark.parametrize(
    ('given', 'seconds'),
    [('2', 2), ('0.5', 0.5), ('1e-2', 0.01), ('100ms', 0.1), ('0.5s', 0.5), ('1m30s', 90), ('-1', -1)],
)
def test_the_interval_is_a_number_of_seconds_or_has_its_unit(given: str, seconds: float) -> None:
    assert read('-e', 'true', '--st', given).parameters['sleep_time'] == seconds


def test_every_option_reaches_its_parameter() -> None:
    request = read(
        *('-e', 'true', '-f', 'json', '--st', '0.001', '--ru=bytes', '--gru=kilobytes', '--tu=days', '--nec=3'),
        *('--guuids', 'GPU-1, GPU-2', '--gb=nvidia', '--disable-logs', '--max-overhead=0.5', '--verbose'),
        *('--cuda', '--sections', 'io, cuda'),
    )
    assert request.verbose
    assert request.format == 'json'
    assert request.process_id is None
    assert request.parameters == {
        'sleep_time': 0.001,
        'ram_unit': 'bytes',
        'gpu_ram_unit': 'kilobytes',
        'time_unit': 'days',
        'n_expected_cores': 3,
        'gpu_uuids': ['GPU-1', 'GPU-2'],
        'gpu_brand': 'nvidia',
        'disable_logs': True,
        'max_overhead_percent': 0.5,
        'cuda': True,
        'sections': ['io', 'cuda'],
    }


def test_a_process() -> None:
    request = read('--pid', '17', '--st', '2')
    assert request.process_id == 17
    assert request.words == []


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        ([], NO_COMMAND),
        (['--st=1'], NO_COMMAND),
        (['--'], 'the command is empty'),
        (['--', ''], 'the command is empty'),
        (['-e', ''], 'the command is empty'),
        (['-e', ' \t\n'], 'the command is empty'),
        (['-e', 'true', '--pid=1'], USAGE),
        (['--execute=true', '--', 'true'], f"unexpected argument 'true' after --execute: {QUOTES} --execute"),
        (['--pid=1', '--', 'true'], USAGE),
        (['-e', 'true', '-e', 'true'], '-e was given twice'),
        ([''], 'the command is empty'),
        (['-5'], 'unknown option -5'),
        (['--pid=1', 'true'], USAGE),
        (['--time=1', 'true'], 'unknown option --time: did you mean --time-limit or --time-unit?'),
        (['--timeout=5', 'true'], 'unknown option --timeout: did you mean --time-limit?'),
        (['--max-memory=5GB', 'true'], 'unknown option --max-memory: did you mean --memory-limit?'),
        (['--summary', 'true'], 'unknown option --summary: did you mean --format=summary?'),
        (['--csv', 'true'], 'unknown option --csv: did you mean --format=csv?'),
        (
            ['--html', 'true'],
            'unknown option --html: did you mean --record=run.db, and then gpu-tracker report run.db?',
        ),
        (['--units=MB', 'true'], 'unknown option --units: did you mean --ram-unit, --gpu-ram-unit or --time-unit?'),
        (['--output:=x', 'true'], 'unknown option --output:: did you mean --output?'),
        (
            ['-e', 'python', 'train.py', '--', 'x'],
            f"unexpected argument 'train.py' after -e: {QUOTES} -e",
        ),
        (['--foo', '--', 'true'], 'unknown option --foo'),
        (['--foo', 'true', '-h'], 'unknown option --foo'),
        (['--fromat=json', 'true'], 'unknown option --fromat: did you mean --format?'),
        (['--json', '-f', 'text', 'true'], '--json and -f do not go together'),
        (['--append', 'true'], '--append needs --format=csv and --output: the file with the table'),
        (
            ['--append', '-f', 'csv', '-o', '-', 'true'],
            '--append needs --format=csv and --output: the file with the table',
        ),
        (['--quiet', '--verbose', 'true'], '--quiet and --verbose do not go together'),
        (['-e', 'true', '--st'], '--st needs a value'),
    ],
)
def test_not_exactly_one_thing_to_track(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        read(*arguments)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (
            ['--st=abc', '-e', 'true'],
            "--st must be a positive number of seconds, or a time with its unit such as 100ms, not 'abc'",
        ),
        (['--nec=1.5', '-e', 'true'], "--nec must be a whole number of at least 1, or 'allowed', not '1.5'"),
        (['--guuids=a,,b', '-e', 'true'], "--guuids must be UUIDs of GPUs, separated by commas, not 'a,,b'"),
        (['--guuids=', '-e', 'true'], "--guuids must be UUIDs of GPUs, separated by commas, not ''"),
        (['--pid=abc'], "--pid must be a positive whole number, not 'abc'"),
        (['--pid=0'], "--pid must be a positive whole number, not '0'"),
        (['--pid=-1'], "--pid must be a positive whole number, not '-1'"),
    ],
)
def test_a_wrong_value_is_named_with_its_option(arguments: list[str], message: str) -> None:
    with pytest.raises(ParameterError) as raised:
        read(*arguments)
    assert str(raised.value) == message


def test_an_error_of_the_tracker_is_said_of_the_option_in_the_words_that_were_given() -> None:
    values = parse(TEXT, ['-e', 'true', '--interval', '-1e0', '--gpu-uuids', 'GPU-1,GPU-2'])
    assert isinstance(values, Values)
    of_number = values.error_of(ParameterError('sleep_time', -1.0, 'positive'), OPTION_OF)
    assert str(of_number) == "--interval must be positive, not '-1e0'"
    of_uuid = values.error_of(ParameterError('gpu_uuids', 'GPU-2', 'one of GPU-1'), OPTION_OF)
    assert str(of_uuid) == "--gpu-uuids must be one of GPU-1, not 'GPU-2'"
    of_another = values.error_of(ParameterError('join_timeout', -1, 'positive'), {})
    assert str(of_another) == 'join_timeout must be positive, not -1'


@pytest.mark.parametrize(
    ('long', 'short', 'value'),
    [
        ('--ram-unit', '--ru', 'MB'),
        ('--gpu-ram-unit', '--gru', 'MB'),
        ('--time-unit', '--tu', 's'),
        ('--sleep-time', '--st', '0.5'),
        ('--expected-cores', '--nec', '2'),
        ('--gpu-uuids', '--guuids', 'GPU-1'),
        ('--gpu-brand', '--gb', 'nvidia'),
        ('--record', '--tf', '/run.db'),
    ],
)
def test_every_short_name_has_a_long_one(long: str, short: str, value: str) -> None:
    assert read(f'{long}={value}', 'true').parameters == read(f'{short}={value}', 'true').parameters
    assert f'{long}, ' in TEXT


def test_messages_name_the_option_as_it_was_written() -> None:
    with pytest.raises(UsageError, match=r'^--job and --record do not go together: with --job the recording is in its'):
        read('--job=job', '--record=run.db', 'true')
    with pytest.raises(UsageError, match=r'^--quiet and --verbose do not go together$'):
        read('-q', '--verbose', 'true')


def test_a_file_has_parameters_and_options_go_before_it(tmp_path: Path) -> None:
    path = tmp_path / 'c.json'
    path.write_text(
        '{"sleep_time": 0.5, "ram_unit": "bytes", "n_expected_cores": null, "gpu_brand": ["amd", "intel"],'
        ' "disable_logs": true, "overwrite": false}'
    )

    parameters = read(f'--tconfig={path}', '--ru=megabytes', 'true').parameters

    assert (parameters['sleep_time'], parameters['ram_unit']) == (0.5, 'megabytes')
    assert parameters['gpu_brand'] == read('--gb=amd,intel', 'true').parameters['gpu_brand']
    assert parameters['disable_logs']
    assert not {'overwrite', 'n_expected_cores'} & set(parameters)


def test_parameters_in_a_file_that_no_option_has_are_named(tmp_path: Path, capfd) -> None:
    path = tmp_path / 'c.json'
    path.write_text('{"join_timeout": 5, "sleep_time": 2, "sleeptime": 3}')

    assert read(f'--tconfig={path}', 'true').parameters['sleep_time'] == 2.0
    assert capfd.readouterr().err == ('gpu-tracker: --tconfig: ignored unknown parameters: join_timeout, sleeptime\n')
    read(f'--tconfig={path}', '-q', 'true')
    assert capfd.readouterr().err == ''


def test_a_switch_in_a_file_is_true_or_false(tmp_path: Path) -> None:
    (tmp_path / 'c.json').write_text('{"disable_logs": "false"}')
    with pytest.raises(GpuTrackerError, match=r"^disable_logs in .*/c.json must be true or false, not 'false'$"):
        read(f'--tconfig={tmp_path}/c.json', 'true')


@pytest.mark.parametrize(
    ('content', 'arguments', 'message'),
    [
        ('{"sleep_time": -1}', [], "gpu-tracker: sleep_time in c.json must be a positive number of seconds, not '-1'"),
        ('{"ram_unit": "pages"}', [], 'gpu-tracker: ram_unit in c.json must be bytes, kilobytes, '),
        (
            '{"tracking_file": "run.db"}',
            ['--job=job'],
            'gpu-tracker: --job and tracking_file in c.json do not go together: ',
        ),
        ('{"gpu_brand": ["amd", "ati"]}', [], 'gpu-tracker: gpu_brand in c.json must be '),
    ],
)
def test_messages_name_the_key_in_a_file(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    content: str,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'c.json').write_text(content)
    assert main(['--tconfig=c.json', *arguments, 'true']) == 125
    assert capfd.readouterr().err.startswith(message)


def test_a_file_without_parameters_is_refused(tmp_path: Path) -> None:
    path = tmp_path / 'c.json'
    for content, message in (
        ('[1]', f'--tconfig: {path} must contain a JSON object'),
        ('{', f'--tconfig: {path} is not a JSON file: '),
        (None, f'--tconfig: cannot read {path}: No such file or directory'),
    ):
        path.unlink(missing_ok=True) if content is None else path.write_text(content)
        with pytest.raises(GpuTrackerError) as caught:
            read(f'--tconfig={path}', 'true')
        assert str(caught.value).startswith(message)


def test_options_that_are_not_given_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {'FORMAT': 'json', 'SLEEP_TIME': '0.5', 'RAM_UNIT': 'MB', 'CUDA': '1', 'TIME_UNIT': ''}.items():
        monkeypatch.setenv(f'GPU_TRACKER_{name}', value)
    monkeypatch.setenv('GPU_TRACKER_QUIET', '0')
    request = read('--ru=GB', 'true')
    assert (request.format, request.quiet) == ('json', False)
    parameters = request.parameters
    assert (parameters['sleep_time'], parameters['ram_unit'], parameters['cuda']) == (0.5, 'GB', True)
    assert parameters['time_unit'] == 'hours'
    assert read('-f', 'text', 'true').format == 'text'
    assert Options().sleep_time == 1.0


@pytest.mark.parametrize(
    ('defaults', 'arguments', 'expected'),
    [
        ({'QUIET': '1'}, ['--verbose', 'true'], {'--quiet': False, '--verbose': True}),
        ({'VERBOSE': '1'}, ['--quiet', 'true'], {'--quiet': True, '--verbose': False}),
        ({'QUIET': '1', 'VERBOSE': '1'}, ['true'], {'--quiet': False, '--verbose': True}),
        ({'KILL_AFTER': '5'}, ['true'], {'--kill-after': None}),
        ({'KILL_AFTER': '5'}, ['--time-limit=1h', 'true'], {'--kill-after': '5'}),
        ({'TIME_LIMIT': '1h', 'KILL_AFTER': '5'}, ['--pid=1'], {'--time-limit': None, '--kill-after': None}),
        ({'CGROUP': '1'}, ['--pid=1'], {'--cgroup': False}),
        ({'RECORD': 'run.db'}, ['--job=job', 'true'], {'--tf': None}),
        ({'RECORD': 'run.db', 'PER_PROCESS': '1'}, ['-o', 'run.db', 'true'], {'--tf': None, '--per-process': False}),
        ({'PER_PROCESS': '1'}, ['true'], {'--per-process': False}),
        ({'PER_PROCESS': '1'}, ['--record=run.csv', 'true'], {'--tf': 'run.csv', '--per-process': False}),
        ({'APPEND': '1'}, ['true'], {'--append': False}),
        ({'APPEND': '1', 'FORMAT': 'csv'}, ['-o', 'runs.csv', 'true'], {'--append': True}),
        ({'RAM_UNIT': 'auto'}, ['--json', 'true'], {'--ru': 'gigabytes', '--format': 'json'}),
        ({'FORMAT': 'json'}, ['--time-unit=auto', 'true'], {'--tu': 'seconds', '--format': None}),
        ({'RAM_UNIT': 'auto', 'FORMAT': 'csv'}, ['true'], {'--ru': 'gigabytes', '--format': 'csv'}),
    ],
)
def test_a_default_that_does_not_fit_what_was_given_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    defaults: dict[str, str],
    arguments: list[str],
    expected: dict[str, str | bool | None],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in defaults.items():
        monkeypatch.setenv(f'GPU_TRACKER_{name}', value)
    request = read(*arguments)
    assert {option: request.values[option] for option in expected} == expected


def test_what_has_no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ('EXECUTE', 'PID', 'OUTPUT', 'JOB'):
        monkeypatch.setenv(f'GPU_TRACKER_{name}', '1')
    monkeypatch.setenv('GPU_TRACKER_JSON', '1')
    request = read('true')
    assert (request.words, request.process_id, request.format) == (['true'], None, None)
    assert request.destination.replaceable is None
    assert 'job_folder' not in request.parameters


@pytest.mark.parametrize(
    ('variable', 'value', 'message'),
    [
        ('GPU_TRACKER_QUIET', 'yes', "GPU_TRACKER_QUIET must be 1 or 0, not 'yes'"),
        ('GPU_TRACKER_TIME_LIMIT', 'x', 'GPU_TRACKER_TIME_LIMIT must be a time above 0 such as '),
        ('GPU_TRACKER_RAM_UNIT', 'pages', 'GPU_TRACKER_RAM_UNIT must be bytes, kilobytes, '),
        ('GPU_TRACKER_FORMAT', 'xml', "GPU_TRACKER_FORMAT must be text, json, summary or csv, not 'xml'"),
    ],
)
def test_a_wrong_variable_is_named(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    variable: str,
    value: str,
    message: str,
) -> None:
    monkeypatch.setenv(variable, value)
    assert main(['touch', str(tmp_path / 'ran')]) == 125
    assert capfd.readouterr().err.startswith(f'gpu-tracker: {message}')
    assert list(tmp_path.iterdir()) == []
