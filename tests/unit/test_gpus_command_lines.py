"""What of a command line others may read."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.gpus.command_lines import program_of, without_arguments


@pytest.mark.parametrize(
    ('words', 'program'),
    [
        (['python', '-u', 'train.py', '--lr', '1'], 'train.py'),
        (['/usr/bin/python3', '/home/ann/my train.py', 'other.py'], '/home/ann/my train.py'),
        (['python', '-m', 'ipykernel_launcher', '-f', 'kernel.json'], 'jupyter'),
        (['python', '-Xfrozen_modules=off', '-m', 'ipykernel_launcher'], 'jupyter'),
        (['python', '-m', 'ipykernel'], 'jupyter'),
        (['blender', '-b', 'scene.blend'], 'blender -b scene.blend'),
        (['sleep'], 'sleep'),
        ([], ''),
    ],
)
def test_what_a_command_line_is_about(words: list[str], program: str) -> None:
    assert program_of(words) == program


@pytest.mark.parametrize(
    ('command', 'names', 'program'),
    [
        ('/usr/bin/python3 -u /home/ann/train.py --token=secret', 'python3 train.py', 'train.py'),
        ('python3.12 -W ignore train.py secret', 'python3.12 train.py', 'train.py'),
        ("python 'my train.py' secret", 'python my train.py', 'my train.py'),
        ('python --option=secret.py train.py', 'python train.py', 'train.py'),
        ("python -c 'import secret'", 'python', 'python'),
        ("python -Bc 'import secret' secret.py", 'python', 'python'),
        ('python -m torch.distributed.run --secret train.py', 'python torch.distributed.run', 'torch.distributed.run'),
        ("python -m 'secret text'", 'python', 'python'),
        ('python -m ipykernel_launcher -f secret.json', 'python ipykernel_launcher', 'jupyter'),
        ('python', 'python', 'python'),
        ("bash -lc 'secret.sh'", 'bash', 'bash'),
        ('bash -e /opt/run.sh secret', 'bash run.sh', 'run.sh'),
        ('-bash', 'bash', 'bash'),
        ('perl -ne secret secret.pl', 'perl', 'perl'),
        ('node --eval secret.js', 'node', 'node'),
        ('java -Dsecret=1 -jar server.jar secret', 'java server.jar', 'server.jar'),
        ('torchrun --nproc-per-node 4 train.py --key secret', 'torchrun train.py', 'train.py'),
        ('mpirun -np 4 python train.py secret', 'mpirun train.py', 'train.py'),
        ('ffmpeg -i secret.py', 'ffmpeg', 'ffmpeg'),
        ("'nginx: worker secret' secret", 'nginx:', 'nginx:'),
        ("python train.py --key 'sec…", 'python train.py', 'train.py'),
        ("''", '', ''),
        ('', '', ''),
    ],
)
def test_the_names_of_program_and_script_alone(command: str, names: str, program: str) -> None:
    assert without_arguments(command) == (names, program)


@given(st.lists(st.text(min_size=1), max_size=5), st.integers(0, 100))
def test_no_word_behind_those_of_a_program_that_runs_no_scripts_is_shown(words: list[str], cut: int) -> None:
    command = shlex.join(['/opt/simulate', *words])[: cut + 13]
    assert without_arguments(command) == ('simulate', 'simulate')
