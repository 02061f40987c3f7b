"""What a configuration file means where nothing is wrong with it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpu_tracker.idle.config.idle_settings import GpuId, GpuSection, Program, Settings, Terminals
from gpu_tracker.idle.config.key_table import KEYS
from gpu_tracker.idle.config.parser import parse
from support.idle.idle_configuration import ALICE, PROGRAM, ROOT, TWO_README_EXAMPLES, program, settings

ALL_GPUS = (GpuSection('gpu-all', None, ('nvidia-smi',)),)
TERMINALS = Terminals(300.0, frozenset({'user1', 'user2'}))


def test_the_first_example_of_gpu_mon():
    assert settings(TWO_README_EXAMPLES[0]) == Settings(
        10.0, ALL_GPUS, (Program('process-all', None, ('miner-run',), '/tmp', '/dev/null'),), TERMINALS
    )


def test_the_second_example_of_gpu_mon():
    zero = Program('process-0', (GpuId(0),), ('miner-run',), '/tmp', '/dev/null')
    one = Program('process-1', (GpuId(1),), ('miner-run',), '/tmp', '/dev/null')
    assert settings(TWO_README_EXAMPLES[1]) == Settings(10.0, ALL_GPUS, (zero, one), TERMINALS)


def test_all_keys():
    assert settings(
        """\
[defaults]
interval_seconds = 0.5
[gpu-a]
gpus = 0, 5:1,
ignore_programs = nvidia-smi, nv-hostengine,
busy_memory_mb = 1.5
busy_utilization_percent = 30
[process-a]
dir = ~/job
cmd = sh -c 'echo "50 % of {gpu}"' ""
gpus = 0
log = ~/job.log
env = A=1 B='2 3'
   C=
user = bob
use_uuids = yes
idle_before_start_seconds = 60
stop_grace_seconds = 0
restart_backoff_seconds = 300
[tty]
enabled = on
whitelist = alice, bob
idle_seconds = 10
"""
    ) == Settings(
        0.5,
        (GpuSection('gpu-a', (GpuId(0), GpuId(5, 1)), ('nvidia-smi', 'nv-hostengine'), 1_500_000, 30.0),),
        (
            Program(
                name='process-a',
                gpus=(GpuId(0),),
                command=('sh', '-c', 'echo "50 % of {gpu}"', ''),
                folder='/home/bob/job',
                log='/home/bob/job.log',
                environment=(('A', '1'), ('B', '2 3'), ('C', '')),
                user='bob',
                use_uuids=True,
                idle_before_start=60.0,
                stop_grace=0.0,
                restart_backoff=300.0,
                interval=0.5,
            ),
        ),
        Terminals(10.0, frozenset({'alice', 'bob'})),
    )


def test_what_is_absent_has_its_default():
    assert settings(PROGRAM) == Settings(10.0, (), (Program('process-0', (GpuId(0),), ('miner-run',), '/tmp'),), None)
    assert settings(f'{PROGRAM}[tty]\nenabled=1\n').terminals == Terminals(300.0)
    assert settings(f'{PROGRAM}[tty]\nidle_seconds=3\n').terminals is None


def test_the_documented_defaults_are_those_that_hold():
    required = {'gpu-NAME': 'gpus=ALL\n', 'process-NAME': 'dir=/tmp\ncmd=miner-run\ngpus=ALL\n'}

    def written(key):
        return '' if key.default is None else f'{key.name}={key.default}\n'

    bare = ''.join(f'[{kind}]\n{required.get(kind, "")}' for kind in KEYS)
    full = ''.join(f'[{kind}]\n{required.get(kind, "")}{"".join(map(written, keys))}' for kind, keys in KEYS.items())
    assert settings(full) == settings(bare)
    enabled = settings(full.replace('enabled=False', 'enabled=True'))
    assert enabled.terminals == settings(f'{bare}enabled=True').terminals


def test_the_required_keys_are_those_without_a_default():
    required = {kind: [key.name for key in keys if key.default is None] for kind, keys in KEYS.items()}
    assert required == {'defaults': [], 'gpu-NAME': ['gpus'], 'process-NAME': ['dir', 'cmd', 'gpus'], 'tty': []}


def test_sections_that_name_the_same_gpu_add_up():
    read = settings(
        """\
[gpu-a]
gpus=0,1
ignore_programs=Xorg,nvidia-smi
busy_memory_mb=500
[gpu-b]
gpus=1
ignore_programs=nvidia-smi,compiz
busy_memory_mb=300
busy_utilization_percent=20
[gpu-c]
gpus=ALL
ignore_programs=dcgm
[gpu-d]
gpus=ALL
busy_utilization_percent=10
[process-0]
dir=/tmp
cmd=a
gpus=ALL
"""
    )
    zero, one, two, part = (read.section_of(gpu) for gpu in (GpuId(0), GpuId(1), GpuId(2), GpuId(1, 3)))
    assert zero == GpuSection(
        'gpu-a and gpu-c and gpu-d', (GpuId(0),), ('Xorg', 'nvidia-smi', 'dcgm'), 500_000_000, 10.0
    )
    assert one == GpuSection(
        'gpu-a and gpu-b and gpu-c and gpu-d',
        (GpuId(1),),
        ('Xorg', 'nvidia-smi', 'compiz', 'dcgm'),
        300_000_000,
        10.0,
    )
    assert two == GpuSection('gpu-c and gpu-d', (GpuId(2),), ('dcgm',), None, 10.0)
    assert part == replace(one, gpus=(GpuId(1, 3),))


def test_a_gpu_that_no_section_names_is_watched_where_a_program_is_to_run_on_it():
    text = f'[defaults]\nbusy_memory_mb=5\n{PROGRAM}[gpu-1]\ngpus=1\nignore_programs=nvidia-smi\n'
    read = parse(text, ROOT).settings
    assert read.section_of(GpuId(0)) == GpuSection('process-0', (GpuId(0),), (), 5_000_000)
    assert read.section_of(GpuId(2)) is None


def test_without_sections_of_gpus_the_default_thresholds_hold_for_all():
    read = settings(f'[defaults]\nbusy_utilization_percent=7\n{PROGRAM}')
    assert read.section_of(GpuId(3)) == GpuSection('defaults', (GpuId(3),), (), None, 7.0)


def test_defaults_hold_for_all_sections_that_do_not_say_otherwise():
    read = settings(
        """\
[gpu-0]
gpus=0
[gpu-1]
gpus=1
busy_memory_mb=off
busy_utilization_percent=50
[process-0]
dir=/tmp
cmd=a
gpus=0
[process-1]
dir=/tmp
cmd=b
gpus=1
stop_grace_seconds=2
use_uuids=false
[defaults]
busy_memory_mb=500
busy_utilization_percent=10
idle_before_start_seconds=3
stop_grace_seconds=4
restart_backoff_seconds=6
use_uuids=true
"""
    )
    assert read.gpus == (
        GpuSection('gpu-0', (GpuId(0),), (), 500_000_000, 10.0),
        GpuSection('gpu-1', (GpuId(1),), (), None, 50.0),
    )
    zero, one = read.programs
    assert (zero.use_uuids, zero.idle_before_start, zero.stop_grace, zero.restart_backoff) == (True, 3, 4, 6)
    assert (one.use_uuids, one.idle_before_start, one.stop_grace, one.restart_backoff) == (False, 3, 2, 6)


def test_a_section_named_default_gives_its_keys_to_all_sections_as_configparser_does():
    read = settings('[DEFAULT]\ndir=/tmp\ngpus=ALL\n[gpu-a]\n[process-a]\ncmd=a\n[tty]\n[defaults]\n')
    assert read == Settings(10.0, (GpuSection('gpu-a', None),), (Program('process-a', None, ('a',), '/tmp'),), None)


def test_keys_may_be_in_capitals_and_values_keep_theirs():
    assert settings(PROGRAM.upper().replace('PROCESS', 'process').replace('TMP', 'tmp')).programs[0].command == (
        'MINER-RUN',
    )


@pytest.mark.parametrize(
    ('written', 'expected'),
    [
        ('all', None),
        ('All', None),
        ('ALL,', None),
        ('0', (GpuId(0),)),
        (' 1 ,0 ', (GpuId(1), GpuId(0))),
        ('1,', (GpuId(1),)),
        ('5:1', (GpuId(5, 1),)),
    ],
)
def test_gpus(written, expected):
    assert settings(PROGRAM.replace('gpus=0', f'gpus={written}')).programs[0].gpus == expected


@pytest.mark.parametrize(
    ('written', 'expected'),
    [
        ('miner-run  ', ('miner-run',)),
        ('run --share 50% %(x)d', ('run', '--share', '50%', '%(x)d')),
        ('run 100%% %%(dir)s %(DIR)s/%(gpus)s', ('run', '100%', '%(dir)s', '/tmp/0')),
        ('run "a b" \'c "d"\' e\\ f', ('run', 'a b', 'c "d"', 'e f')),
        ('run a=b:c', ('run', 'a=b:c')),
        ('run --gpu {gpu}', ('run', '--gpu', '{gpu}')),
        ('run \\\n   --on \\\n   --and', ('run', '--on', '--and')),
        ('run\n   --on', ('run', '--on')),
    ],
)
def test_commands(written, expected):
    assert settings(PROGRAM.replace('miner-run', written)).programs[0].command == expected


def test_values_that_refer_to_others_as_in_files_of_gpu_mon():
    read = settings(f'[DEFAULT]\nbase=/data\n{PROGRAM}log=%(base)s/%(name)s.log\nname=50%%-%(gpus)s\n[tty]\n', ALICE)
    assert read.programs[0].log == '/data/50%-0.log'


def test_an_empty_log_is_none():
    assert program('log=\n').log is None
    assert program('env=\nuser=\n') == program()


@pytest.mark.parametrize(
    ('caller', 'lines', 'written', 'expected'),
    [
        (ROOT, '', '/a/./b/', '/a/b'),
        (ROOT, '', '/a/../b', '/a/../b'),  # /a may be a symbolic link
        (ROOT, '', 'jobs/x', '/srv/jobs/x'),
        (ROOT, '', '.', '/srv'),
        (ROOT, '', '~', '/root'),
        (ROOT, '', '~/x', '/root/x'),
        (ROOT, '', '~bob/x', '/home/bob/x'),
        (ROOT, 'user=alice\n', '~/x', '/home/alice/x'),
        (ALICE, '', '~/x', '/home/alice/x'),
        (ALICE, 'user=alice\n', 'x y', '/home/alice/work/x y'),
    ],
)
def test_folders_and_logs_are_made_absolute(caller, lines, written, expected):
    text = PROGRAM.replace('/tmp', written) + f'log={written}\n{lines}'
    read = settings(text, caller).programs[0]
    assert (read.folder, read.log) == (expected, expected)


def test_oneself_is_no_other_user():
    assert program('user=alice\n', ALICE).user is None
    assert program('user=root\n', ROOT).user is None
    assert program('user=bob\n', ROOT).user == 'bob'


def test_windows_line_ends_mean_nothing():
    for text in TWO_README_EXAMPLES:
        assert settings(text.replace('\n', '\r\n')) == settings(text)


def test_problems_know_their_document():
    assert parse(PROGRAM, ROOT).document.sections['process-0'].line_of('gpus') == 4
