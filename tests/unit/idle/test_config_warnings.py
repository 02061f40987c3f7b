"""What is said of a configuration file that can be used, but may not mean what its writer thinks."""

from __future__ import annotations

import pytest

from gpu_tracker.idle.config.parser import parse
from support.idle.idle_configuration import PROGRAM, ROOT, errors, warnings

COMMENT = 'the text after ; or # is part of the value: a comment stands on a line of its own'


@pytest.mark.parametrize(
    ('section', 'meant'),
    [
        ('default', '; did you mean [defaults]?'),
        ('Defaults', '; did you mean [defaults]?'),
        (' tty ', '; did you mean [tty]?'),
        ('proces-7', '; did you mean [process-7]?'),
        ('GPU-7', '; did you mean [gpu-7]?'),
        ('gpu', '; did you mean [gpu-NAME]?'),
        ('gpux', '; did you mean [gpu-NAME]?'),
        ('weather', ''),
        ('0', ''),
        ('1foo', ''),
    ],
)
def test_unknown_sections(section, meant):
    text = f'{PROGRAM}[{section}]\nanything=1\n'
    assert warnings(text) == [f'f.conf:5: [{section}] is not known, and left out{meant}']
    assert errors(text) == []


@pytest.mark.parametrize(
    ('section', 'keys'),
    [('process0', 'dir=/tmp\ncmd=job\ngpus=1'), ('process12-x', 'dir=/tmp\ncmd=job\ngpus=1'), ('gpu0', 'gpus=0')],
)
def test_a_section_whose_name_begins_with_a_digit_needs_no_dash(section, keys):
    text = f'{PROGRAM}[{section}]\n{keys}\n'
    assert not any('is not known' in warning for warning in warnings(text))
    assert errors(text) == []


@pytest.mark.parametrize(
    ('command', 'said'),
    [
        ('job %(x)s', ['%(x)s stays as it is: the section has no key x']),
        (
            'job {gpus} {GPU} {gpu_id} {gpu}',
            [f'{{{word}}} stays as it is; did you mean {{gpu}}?' for word in ('gpus', 'GPU', 'gpu_id')],
        ),
        ('job {1..3} {print} %(dir)s {gpu} {gpustat}', []),
    ],
)
def test_words_that_look_as_if_something_were_put_in_their_place(command, said):
    text = f'[process-0]\ndir=/tmp\ncmd={command}\ngpus=0\n[gpu-0]\ngpus=0\n'
    assert warnings(text) == [f'f.conf:3: [process-0] cmd: {words}' for words in said]
    assert errors(text) == []
    assert parse(text, ROOT).settings.programs[0].command == tuple(command.replace('%(dir)s', '/tmp').split())


def test_with_idle_seconds_0_nobody_counts_as_working():
    text = f'{PROGRAM}[tty]\nenabled=True\nidle_seconds=0\n'
    assert 'f.conf:7: [tty] idle_seconds: with 0, no user at a terminal counts as active' in warnings(text)
    assert errors(text) == []


@pytest.mark.parametrize(
    ('section', 'key', 'meant'),
    [
        ('process-0', 'logs', '; did you mean log?'),
        ('process-0', 'restart_backof_seconds', '; did you mean restart_backoff_seconds?'),
        ('process-0', 'interval_seconds', '; it belongs in [defaults]'),
        ('process-0', 'weather', ''),
        ('gpu-0', 'ignore_program', '; did you mean ignore_programs?'),
        ('gpu-0', 'user', '; it belongs in [process-NAME]'),
        ('tty', 'white_list', '; did you mean whitelist?'),
        ('defaults', 'interval', '; did you mean interval_seconds?'),
        ('DEFAULT', 'gpu', '; did you mean gpus?'),
    ],
)
def test_unknown_keys(section, key, meant):
    rest = PROGRAM.replace('process-0', 'process-1') if section != 'process-0' else ''
    required = {'process-0': PROGRAM.partition('\n')[2], 'gpu-0': 'gpus=ALL\n'}.get(section, '')
    line = 2 + required.count('\n')
    text = f'[{section}]\n{required}{key}=1\n{rest}'
    assert warnings(text) == [f'f.conf:{line}: [{section}] {key}: is not known here, and left out{meant}']
    assert errors(text) == []


def test_keys_that_others_refer_to_are_known():
    assert warnings(f'[DEFAULT]\nbase=/data\n{PROGRAM}log=%(Base)s/%(name)s\nname=x\n') == []


def test_a_file_that_starts_nothing():
    assert warnings('') == ['f.conf: has no [process-NAME] section: GPUs are watched, and nothing is started']


def test_users_cannot_be_told_to_be_idle_so_soon():
    text = f'{PROGRAM}[tty]\nenabled=True\nidle_seconds=9.9\n'
    assert warnings(text) == [
        (
            'f.conf:7: [tty] idle_seconds: with less than 10 s, active users may seem idle: Linux records use of a '
            'terminal every 8 s'
        )
    ]
    assert warnings(text.replace('True', 'False')) == []


def test_what_may_have_been_meant_as_a_comment():
    text = """\
[gpu-all]
gpus=ALL
ignore_programs=nvidia-smi ; it only looks
[process-0]
dir=/tmp
cmd=miner-run # a miner
gpus=0
log=/dev/null ;
[tty]
enabled=True
whitelist=alice #bob
"""
    assert warnings(text) == [
        f'f.conf:3: [gpu-all] ignore_programs: {COMMENT}',
        f'f.conf:6: [process-0] cmd: {COMMENT}',
        f'f.conf:8: [process-0] log: {COMMENT}',
        f'f.conf:11: [tty] whitelist: {COMMENT}',
    ]
    assert errors(text) == []


def test_no_comment_is_seen_where_none_is():
    assert warnings(PROGRAM.replace('miner-run', "miner-run a;b c#d ';' '#x'")) == []
    assert warnings(PROGRAM.replace('miner-run', 'sh -c "cd x ; run"')) == []
    assert warnings(PROGRAM.replace('miner-run', 'find . -exec run ;')) == []
    assert warnings(PROGRAM.replace('miner-run', "run ' ; ' '' ;")) == []


def test_more_than_one_gpu_with_a_mig_device_among_them():
    assert warnings(PROGRAM.replace('gpus=0', 'gpus=0:0,1')) == [
        'f.conf:4: [process-0] gpus: a CUDA program can use only one MIG device and no other GPU'
    ]
    assert warnings(PROGRAM.replace('gpus=0', 'gpus=0:0')) == []


def test_gpus_of_programs_are_watched_though_no_section_names_them():
    text = PROGRAM.replace('gpus=0', 'gpus=0,1,5:0,6:1') + PROGRAM.replace('gpus=0', 'gpus=1').replace('-0', '-1')
    watched_too = 'it is watched too, because this program runs on it'
    assert warnings(f'{text}[gpu-a]\ngpus=0\n[gpu-b]\ngpus=5,6:0\n')[1:] == [
        f'f.conf:4: [process-0] gpus: no [gpu-NAME] section names GPU 1: {watched_too}',
        f'f.conf:4: [process-0] gpus: no [gpu-NAME] section names GPU 6:1: {watched_too}',
    ]
    for otherwise in ('', '[gpu-all]\ngpus=ALL\n'):
        (only_of_mig,) = warnings(text + otherwise)
        assert only_of_mig.startswith('f.conf:4: [process-0] gpus: a CUDA program can use only one MIG device')


def test_where_gpus_could_not_be_read_nobody_knows_which_are_named():
    text = f'{PROGRAM}[gpu-a]\ngpus=O\n[gpu-b]\ngpus=1\n'
    assert warnings(text) == []
    assert errors(text) == ["f.conf:6: [gpu-a] gpus: must be ALL or GPU numbers such as 0,1, not 'O'"]


def test_words_behind_a_header():
    assert warnings(f'{PROGRAM}[tty] enabled=True\n') == [
        "f.conf:5: [tty] 'enabled=True' after the bracket is not read: it goes on a line of its own"
    ]
    assert warnings(f'{PROGRAM}[tty] ; terminals\n') == []
