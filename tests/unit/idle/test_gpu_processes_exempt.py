from __future__ import annotations

import pytest

from gpu_tracker.idle.observing.gpu_processes import EXEMPT, has_name, is_exempt, program_of

EXAMPLES = [
    # comm, command line, which of the table
    ('nvidia-persiste', ['/usr/bin/nvidia-persistenced', '--user', 'nvidia-persistenced'], 0),
    ('nvidia-persiste', [], 0),
    ('atopgpud', ['/usr/bin/python3', '/usr/sbin/atopgpud'], 1),
    ('python3', ['python3', '-u', '/usr/sbin/atopgpud', '-v'], 1),
    ('atopgpud', ['/opt/bin/python', '/opt/bin/atopgpud', '--host=::1'], 1),
    ('gpu-tracker', ['/usr/bin/python3', '/usr/bin/gpu-tracker', 'atopgpud'], 2),
    ('python', ['python', '-m', 'gpu_tracker', 'atopgpud', '--daemon'], 2),
    ('gpu-tracker', ['/usr/bin/python3', '/usr/bin/gpu-tracker', 'agent', '--port=1'], 3),
    ('python', ['python', '-m', 'gpu_tracker', 'gpus'], 4),
    ('gpu-tracker', ['/usr/bin/python3', '/usr/bin/gpu-tracker', 'ls'], 4),
    ('gpu-tracker', ['/usr/bin/python3', '/usr/bin/gpu-tracker', 'available', '--wait'], 4),
    ('gpu-tracker', ['/usr/bin/python3', '/usr/bin/gpu-tracker', 'idle', '-c', 'x.conf'], 5),
    ('python', ['python', '-Im', 'gpu_tracker', 'idle'], 5),
    ('python3', ['/usr/bin/python3', '-c', 'code', 'gpu-tracker-guardian', '7'], 6),
    ('gput-sampler', ['/usr/bin/python3', '-IS', '-c', 'code', 'gpu-tracker-sampler', '3'], 7),
]


@pytest.mark.parametrize(('comm', 'words', 'row'), EXAMPLES)
def test_never_counts(comm, words, row):
    program = program_of(comm, words)
    assert [number for number, kind in enumerate(EXEMPT) if kind.applies(program)] == [row]
    assert is_exempt(program)


def test_every_row_of_the_table_has_an_example():
    assert {row for _, _, row in EXAMPLES} == set(range(len(EXEMPT)))


@pytest.mark.parametrize(
    ('comm', 'words'),
    [
        ('python', ['python', 'train.py']),
        ('python', ['python', 'train.py', 'atopgpud']),
        ('python', ['python', '-c', 'import torch', 'atopgpud']),
        ('vim', ['vim', '/usr/sbin/atopgpud']),
        ('bash', ['bash', '-c', 'atopgpud']),
        ('gpu-tracker', ['/usr/bin/python3', '/usr/bin/gpu-tracker', '--', 'python', 'train.py']),
        ('gpu-tracker', ['/usr/bin/python3', '/usr/bin/gpu-tracker', '-e', 'python train.py idle']),
        ('gpu-tracker', ['/usr/bin/python3', '/usr/bin/gpu-tracker', '--', 'idle']),
        ('gpu-tracker', ['/usr/bin/python3', '/usr/bin/gpu-tracker']),
        ('nvidia-smi', ['nvidia-smi']),
        ('nvidia-persist', ['./nvidia-persist']),
        ('python', ['python', 'x.py', 'not-gpu-tracker-sampler']),
        ('', []),
    ],
)
def test_counts(comm, words):
    assert not is_exempt(program_of(comm, words))


@pytest.mark.parametrize(
    ('comm', 'words', 'names'),
    [
        ('python', ['python', 'train.py'], ('python', 'train.py')),
        ('python3.11', ['/opt/bin/python', '/home/a/train.py', '-x'], ('python3.11', 'python', 'train.py')),
        ('python3', ['python3', '-X', 'dev', '-W', 'error', 'train.py'], ('python3', 'train.py')),
        ('python3', ['python3', '-Xdev', '-Wignore', '-uB', 'train.py'], ('python3', 'train.py')),
        ('python3', ['python3', '-uX', 'dev', 'train.py'], ('python3', 'train.py')),
        ('python3', ['python3', '--check-hash-based-pycs', 'always', 'a.py'], ('python3', 'a.py')),
        ('python3', ['python3', '-um', 'torch.distributed.run', 'a.py'], ('python3', 'torch.distributed.run')),
        ('python3', ['python3', '-mjupyter', 'lab'], ('python3', 'jupyter')),
        ('python3', ['python3', '-m'], ('python3',)),
        ('python3', ['python3', '-c', 'import torch'], ('python3',)),
        ('python3', ['python3', '-'], ('python3',)),
        ('python3', ['python3'], ('python3',)),
        ('python3', ['python3', '--', '-odd.py'], ('python3', '-odd.py')),
        ('bash', ['-bash'], ('bash',)),
        ('bash', ['bash', '-euo', 'pipefail', 'job.sh'], ('bash', 'job.sh')),
        ('bash', ['bash', '+x', '--norc', '/a/job.sh'], ('bash', 'job.sh')),
        ('sh', ['sh', '-ec', 'train'], ('sh',)),
        ('sh', ['sh', '--'], ('sh',)),
        ('perl', ['/usr/bin/perl', '-Ilib', '-w', 'job.pl'], ('perl', 'job.pl')),
        ('perl', ['perl', '-ne', 'print'], ('perl',)),
        ('sshd', ['sshd: alice@pts/0'], ('sshd',)),
        ('ray::IDLE', ['ray::IDLE', ''], ('ray::IDLE',)),
        ('a-long-name-of-', ['/opt/a-long-name-of-a-program'], ('a-long-name-of-', 'a-long-name-of-a-program')),
        ('kworker/0:1', [], ('kworker/0:1',)),
    ],
)
def test_names_of_a_process(comm, words, names):
    assert program_of(comm, words).names == names


def test_the_name_that_tells_most_is_that_of_the_script():
    assert program_of('python', ['python', 'train.py']).name == 'train.py'
    assert program_of('', []).name == '?'


@pytest.mark.parametrize(
    ('wanted', 'answer'),
    [
        ('a-long-name-of-a-program', True),
        ('a-long-name-of-', True),
        ('a-long-name-of', False),
        ('a-long-name-off-a-program', False),
        ('A-LONG-NAME-OF-A-PROGRAM', False),
    ],
)
def test_a_long_name_is_known_by_what_the_kernel_keeps_of_it(wanted, answer):
    assert has_name(('a-long-name-of-',), [wanted]) is answer
