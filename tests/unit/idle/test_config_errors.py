"""What is said of a configuration file that cannot be used, word for word."""

from __future__ import annotations

import pytest

from support.idle.idle_configuration import ALICE, PROGRAM, ROOT, errors

ALL = '[gpu-all]\ngpus=ALL\n'


def test_everything_wrong_is_told_at_once_in_the_order_of_the_lines():
    text = """\
interval_seconds=10
[defaults]
interval_seconds=0

[process-0]
gpus=x
cmd="miner-run
junk
[gpu-0]
[process-0]
dir=/tmp
dir=/tmp
[tty]
enabled=maybe
"""
    assert errors(text) == [
        "f.conf:1: 'interval_seconds=10' stands before the first [section]",
        "f.conf:3: [defaults] interval_seconds: must be a number of seconds, at least 0.1, not '0'",
        "f.conf:6: [process-0] gpus: must be ALL or GPU numbers such as 0,1, not 'x'",
        "f.conf:7: [process-0] cmd: has a quote that is not closed: '\"miner-run'",
        "f.conf:8: [process-0] 'junk' is neither a [section] nor key=value",
        'f.conf:9: [gpu-0] gpus: is missing',
        'f.conf:10: [process-0] stands in the file twice, first in line 5',
        'f.conf:12: [process-0] dir: stands in the section twice, first in line 11',
        "f.conf:14: [tty] enabled: must be True or False, not 'maybe'",
    ]


def test_required_keys():
    assert errors('[process-0]\n[gpu-0]\n') == [
        'f.conf:1: [process-0] dir: is missing',
        'f.conf:1: [process-0] cmd: is missing',
        'f.conf:1: [process-0] gpus: is missing',
        'f.conf:2: [gpu-0] gpus: is missing',
    ]


def test_sections_need_names():
    assert errors(f'[gpu-]\ngpus=ALL\n{PROGRAM.replace("-0", "-  ")}') == [
        'f.conf:1: [gpu-] needs a name after gpu-',
        'f.conf:3: [process-  ] needs a name after process-',
    ]


SECONDS = 'must be a number of seconds'
COMMENT = 'a comment stands on a line of its own'
CONTINUES = 'a line with more blanks in front than the one above continues it'


@pytest.mark.parametrize(
    ('line', 'expected'),
    [
        ('idle_before_start_seconds=-1', f"{SECONDS}, at least 0, not '-1'"),
        ('idle_before_start_seconds=', f"{SECONDS}, at least 0, not ''"),
        ('stop_grace_seconds=nan', f"{SECONDS}, at least 0, not 'nan'"),
        ('stop_grace_seconds=1_0', f"{SECONDS}, at least 0, not '1_0'"),
        ('stop_grace_seconds=1e400', "must be at most 1000000000, not '1e400'"),
        ('stop_grace_seconds=5 s', f"{SECONDS}, at least 0, not '5 s'"),
        ('stop_grace_seconds=5 ; s', f"{SECONDS}, at least 0, not '5 ; s'; {COMMENT}"),
        ('restart_backoff_seconds=-1', f"{SECONDS} from 0 to 300, which is as far as it is doubled, not '-1'"),
        ('restart_backoff_seconds=301', f"{SECONDS} from 0 to 300, which is as far as it is doubled, not '301'"),
        ('use_uuids=', "must be True or False, not ''"),
        ('env=A', "must be NAME=value, in quotes if it has spaces, not 'A'"),
        ('env=A=1 2', "must be NAME=value, in quotes if it has spaces, not '2'"),
        ('env=1A=1', "must be NAME=value, in quotes if it has spaces, not '1A=1'"),
        ('env=A=1 ; one', f"must be NAME=value, in quotes if it has spaces, not ';'; {COMMENT}"),
        ('env=A=1 A=2', 'has A twice'),
        ('env=A="1', "has a quote that is not closed: 'A=\"1'"),
        ('env=A=1\\', "has a backslash at its end: 'A=1\\\\'"),
        (
            'env=CUDA_VISIBLE_DEVICES=0',
            'must not set CUDA_VISIBLE_DEVICES: the monitor sets CUDA_VISIBLE_DEVICES to the GPUs of the program',
        ),
        (
            'env=CUDA_DEVICE_ORDER=PCI_BUS_ID',
            'must not set CUDA_DEVICE_ORDER: the monitor sets CUDA_DEVICE_ORDER to the GPUs of the program',
        ),
        ('user=carol', "there is no user 'carol'"),
        ('user=bob # not alice', f"there is no user 'bob # not alice'; {COMMENT}"),
        ('log=~carol/x', "there is no user 'carol', so ~carol is not a folder"),
        (
            'log=/a\n  b',
            f"must be on one line, not '/a\\nb'; {CONTINUES}",
        ),
    ],
)
def test_values_of_programs(line, expected):
    key = line.partition('=')[0]
    assert errors(f'{PROGRAM}{line}\n') == [f'f.conf:5: [process-0] {key}: {expected}']


@pytest.mark.parametrize(
    ('line', 'written', 'expected'),
    [
        (4, 'gpus=', "gpus: must be ALL or GPU numbers such as 0,1, not ''"),
        (4, 'gpus=,', "gpus: must be ALL or GPU numbers such as 0,1, not ','"),
        (4, 'gpus=0 1', "gpus: must be ALL or GPU numbers such as 0,1, not '0 1'"),
        (4, 'gpus=0-3', "gpus: must be ALL or GPU numbers such as 0,1, not '0-3'"),
        (4, 'gpus=ALL,0', "gpus: must be ALL or GPU numbers such as 0,1, not 'ALL,0'"),
        (4, 'gpus=-1', "gpus: must be ALL or GPU numbers such as 0,1, not '-1'"),
        (4, 'gpus=0 ; first', f"gpus: must be ALL or GPU numbers such as 0,1, not '0 ; first'; {COMMENT}"),
        (4, 'gpus=1,0,1', 'gpus: has GPU 1 twice'),
        (4, 'gpus=5:1,5:01', 'gpus: has GPU 5:1 twice'),
        (3, 'cmd=', 'cmd: is empty: give a program'),
        (3, 'cmd="" x', 'cmd: is empty: give a program'),
        (3, "cmd=it's", 'cmd: has a quote that is not closed: "it\'s"'),
        (2, 'dir=', 'dir: is empty'),
        (2, 'dir=~carol', "dir: there is no user 'carol', so ~carol is not a folder"),
        (
            2,
            'dir=/tmp\n gpus=0',
            f"dir: must be on one line, not '/tmp\\ngpus=0'; {CONTINUES}",
        ),
    ],
)
def test_values_of_required_keys(line, written, expected):
    lines = PROGRAM.splitlines()
    lines[line - 1] = written
    assert errors('\n'.join(lines)) == [f'f.conf:{line}: [process-0] {expected}']


@pytest.mark.parametrize(
    ('line', 'expected'),
    [
        ('busy_memory_mb=0', "must be a number of megabytes above 0, or off, not '0'"),
        ('busy_memory_mb=1GB', "must be a number of megabytes above 0, or off, not '1GB'"),
        ('busy_utilization_percent=0', "must be a percentage above 0 and at most 100, or off, not '0'"),
        ('busy_utilization_percent=100.1', "must be a percentage above 0 and at most 100, or off, not '100.1'"),
    ],
)
def test_thresholds(line, expected):
    key = line.partition('=')[0]
    assert errors(f'{ALL}{line}\n') == [f'f.conf:3: [gpu-all] {key}: {expected}']
    assert errors(f'[defaults]\n{line}\n{ALL}') == [f'f.conf:2: [defaults] {key}: {expected}']


def test_terminals_are_checked_even_where_they_do_not_matter():
    assert errors('[tty]\nidle_seconds=-1\n') == [
        "f.conf:2: [tty] idle_seconds: must be a number of seconds, at least 0, not '-1'"
    ]


def test_a_long_value_is_shown_in_part():
    assert errors(f'{PROGRAM}use_uuids={"x" * 100}\n') == [
        f"f.conf:5: [process-0] use_uuids: must be True or False, not '{'x' * 60}...'"
    ]


def test_what_could_command_a_terminal_is_not_shown():
    assert errors('[gpu-\x1b[31m]\n') == ['f.conf:1: [gpu-?[31m] gpus: is missing']
    assert errors('[tty]\nenabled=\x1b[31m\n') == ["f.conf:2: [tty] enabled: must be True or False, not '\\x1b[31m'"]


def test_only_root_runs_programs_as_others():
    assert errors(f'{PROGRAM}user=bob\n', ALICE) == [
        'f.conf:5: [process-0] user: only root can run programs as another user, and the monitor runs as alice'
    ]


def test_without_a_working_folder_paths_must_be_absolute():
    nowhere = ROOT._replace(folder=None)
    assert errors(PROGRAM, nowhere) == []
    assert errors(PROGRAM.replace('/tmp', 'jobs'), nowhere) == [
        'f.conf:2: [process-0] dir: must begin with a /, because the working directory of the monitor was removed'
    ]


@pytest.mark.parametrize(
    ('lines', 'expected'),
    [
        ('log=%(log)s', '%(log)s refers to itself'),
        ('log=/a/%(x)s\nx=%(y)s\ny=%(x)s', '%(x)s refers to itself'),
        (
            'log=%(a0)s\n' + ''.join(f'a{n}=%(a{n + 1})s\n' for n in range(11)) + 'a11=x',
            'has more than 10 nested references, ending at %(a10)s',
        ),
        (
            'log=%(a0)s\n' + ''.join(f'a{n}={f"%(a{n + 1})s" * 10}\n' for n in range(9)) + 'a9=x',
            'is too long after its %(...)s references are replaced',
        ),
    ],
)
def test_references_that_lead_nowhere(lines, expected):
    assert errors(f'{PROGRAM}{lines}\n') == [f'f.conf:5: [process-0] log: {expected}']


def test_a_reference_that_nobody_asks_for_may_lead_nowhere():
    assert errors(f'{PROGRAM}x=%(x)s\n[weather]\ny=%(y)s\n') == []


def test_a_wrong_value_for_all_is_told_where_it_stands():
    assert errors('[DEFAULT]\ngpus=x\n[gpu-a]\n') == [
        "f.conf:2: [gpu-a] gpus: must be ALL or GPU numbers such as 0,1, not 'x'"
    ]
