"""The command line of ``gpu-tracker idle``: what it prints, what it refuses, and that nothing starts then."""

from __future__ import annotations

import json
import os

import gpu_tracker as package
from gpu_tracker.cli import idle
from gpu_tracker.idle.config.key_table import template
from gpu_tracker.system.users import user_name
from support.cli_program import called
from support.idle.idle_monitor import IdleMonitor, config, make_gpus, make_program, process
from support.tracked_program import environment

TRY = "\nTry 'gpu-tracker idle --help'."
HINT = "'gpu-tracker idle --print-config' prints one to begin with"
SLEEP = process('a', 'sleep 3600')


def told(*command_lines):
    """Return exit code, output and errors of each command line, before which variables may stand."""
    return [_told(words) for words in command_lines]


def _told(words):
    given = [word for word in words if word.startswith(('HOME=', 'RUNTIME_DIRECTORY='))]
    answer = called('idle', *words[len(given) :], env=environment(dict(word.split('=', 1) for word in given)))
    return answer.returncode, answer.stdout, answer.stderr


def test_help_version_and_template():
    assert told(['--help'], ['-h'], ['--version'], ['--print-config']) == [
        (0, idle.TEXT.lstrip('\n'), ''),
        (0, idle.TEXT.lstrip('\n'), ''),
        (0, f'gpu-tracker {package.__version__}\n', ''),
        (0, template(), ''),
    ]
    assert max(map(len, idle.TEXT.splitlines())) <= 90


WRONG = {
    '--nothing': f'unknown option --nothing{TRY}',
    '--check=yes': f'--check takes no value{TRY}',
    '--socket': f'--socket needs a value{TRY}',
    '--config=': "--config must be the path of a configuration file, not ''",
}


def test_wrong_options_are_told():
    assert told(*([word] for word in WRONG)) == [(125, '', f'gpu-tracker: {text}\n') for text in WRONG.values()]


def test_wrong_places_are_told_before_anything_starts(tmp_path):
    make_program(tmp_path, 'job', f'touch {tmp_path}/started')
    path = tmp_path / 'f.conf'
    path.write_text(config(process('a', f'{tmp_path}/bin/job')))
    given = f'--config={path}'
    missing = f'{tmp_path}/missing'
    assert told(
        [given, f'--devices={missing}'], [given, '--devices='], [given, '--socket=', f'--devices={tmp_path}']
    ) == [
        (125, '', f"gpu-tracker: --devices must be a folder that exists, not '{missing}'\n"),
        (125, '', "gpu-tracker: --devices must be a folder that exists, not ''\n"),
        (125, '', "gpu-tracker: --socket must be the path of a Unix socket, not ''\n"),
    ]
    assert not (tmp_path / 'started').exists()


def test_a_missing_file_is_told(tmp_path):
    default, other = f'{tmp_path}/.config/gpu_mon.conf', f'{tmp_path}/other.conf'
    devices = f'--devices={tmp_path}'
    text = f'gpu-tracker: {other}: cannot be read: No such file or directory\n'
    of_default = text.replace(other, default).replace('\n', f'; {HINT}\n')
    answers = told([f'HOME={tmp_path}', devices], ['-c', other, '--dry-run', devices], ['-c', other, '--check'])
    assert answers == [(125, '', of_default), (125, '', text), (125, '', text)]


def test_all_errors_of_a_file_are_told_at_once_and_nothing_starts(tmp_path):
    gpus = make_gpus(tmp_path, 1)
    make_program(tmp_path, 'job', f'touch {tmp_path}/started')
    path = tmp_path / 'f.conf'
    path.write_text(
        f'[defaults]\ninterval_seconds=often\n[process-a]\ndir=/\ncmd={tmp_path}/bin/job\ngpus=0\n'
        "[process-b]\ncmd='unclosed\ngpus=x\n[tty]\nidle_secs=5\n"
    )
    (line,) = told([f'--config={path}', f'--devices={gpus}'])
    lines = line[2].replace('gpu-tracker: ', '').replace(f'{tmp_path}/', '').splitlines()
    assert (line[:2], lines) == (
        (125, ''),
        [
            'warning: f.conf:11: [tty] idle_secs: is not known here, and left out; did you mean idle_seconds?',
            "f.conf:2: [defaults] interval_seconds: must be a number of seconds, at least 0.1, not 'often'",
            'f.conf:7: [process-b] dir: is missing',
            'f.conf:8: [process-b] cmd: has a quote that is not closed: "\'unclosed"',
            "f.conf:9: [process-b] gpus: must be ALL or GPU numbers such as 0,1, not 'x'",
        ],
    )
    assert told([f'--config={path}', '--check']) == [line]
    assert not (tmp_path / 'started').exists()


def test_check_only_checks(tmp_path):
    make_program(tmp_path, 'job', f'touch {tmp_path}/started')
    path = tmp_path / '.config' / 'gpu_mon.conf'
    path.parent.mkdir()
    path.write_text(config(process('a', f'{tmp_path}/bin/job')))
    line_that_one_runs = ['-c', str(path), f'--devices={tmp_path}/gone', '--socket=/s', '--dry-run', '--verbose']
    answers = told([f'HOME={tmp_path}', '--check'], ['--check', '-c', str(path)], [*line_that_one_runs, '--check'])
    assert answers == 3 * [(0, f'{path}: no errors\n', '')]
    assert not (tmp_path / 'started').exists()


def test_the_template_has_no_errors(tmp_path):
    path = tmp_path / 'f.conf'
    path.write_text(template())
    assert told(['--check', f'--config={path}']) == [(0, f'{path}: no errors\n', '')]


def test_status_without_a_monitor(tmp_path):
    path = f'{tmp_path}/idle.sock'
    text = f'gpu-tracker: no idle monitor of this user is running (no socket at {path})\n'
    answers = told(['status', f'--socket={path}'], [f'RUNTIME_DIRECTORY={tmp_path}', 'status', '--json'])
    assert answers == 2 * [(125, '', text)]


def test_status_as_a_table_and_as_json(tmp_path):
    with IdleMonitor(tmp_path, config(SLEEP)) as monitor:
        pid = monitor.running('a')
        table, as_json = told(
            ['status', f'--socket={monitor.socket}'], ['status', '--json', f'--socket={monitor.socket}']
        )
        assert (table[0], table[2]) == (as_json[0], as_json[2]) == (0, '')
        lines = [' '.join(line.split()) for line in table[1].splitlines()]
        assert lines[0].startswith(f'monitor: pid {monitor.process.pid}, running for ')
        assert lines[2] == 'GPU state since used by / program idle time used restarts'
        assert f'process-a (pid {pid})' in lines[3]
        assert lines[4].startswith('1 idle ')
        assert lines[7].startswith('process-a 0 running ')
        document = json.loads(as_json[1])
        assert list(document) == ['monitor', 'active_users', 'gpus', 'programs']
        assert document['monitor']['pid'] == monitor.process.pid
        assert document['monitor']['config_path'] == str(monitor.config)
        assert document['monitor']['user'] == user_name(os.geteuid())
        assert [(gpu['gpu'], gpu['state'], gpu['program_pid']) for gpu in document['gpus']] == [
            ('0', 'idle', pid),
            ('1', 'idle', None),
        ]
        assert [(program['name'], program['pid']) for program in document['programs']] == [('process-a', pid)]
        assert os.stat(monitor.socket).st_mode & 0o777 == 0o600


def test_warnings_do_not_keep_it_from_starting(tmp_path):
    with IdleMonitor(tmp_path, config(SLEEP, '[tty]\nwhitelst=me\n')) as monitor:
        monitor.running('a')
        problem = '[tty] whitelst: is not known here, and left out; did you mean whitelist?'
        assert monitor.said[0] == f'gpu-tracker: warning: {monitor.config}:9: {problem}'
