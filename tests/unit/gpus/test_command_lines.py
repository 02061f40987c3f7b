"""What of a command line others may read."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.gpus.command_lines import process_name, program_of, without_arguments


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
    ('name', 'command_line', 'shown'),
    [
        (b'python3', b'/usr/bin/python3\0-u\0/home/ann/train.py\0--lr\0001\0', 'train.py'),
        (b'python3.12', b'python3.12\0-m\0pkg.mod\0', 'pkg.mod'),
        (b'python', b'python\0-m\0ipykernel_launcher\0', 'jupyter'),
        (b'python', b'/v/bin/python\0/v/lib/compile_worker/__main__.py\0', 'compile_worker'),
        (b'python', b'python\0-c\0from multiprocessing.spawn import spawn_main; x()\0', 'multiprocessing.spawn'),
        (b'python', b'python\0-c\0import secret\0', 'python'),
        (b'python.exe', b'python.exe\0train.py\0', 'train.py'),
        (b'java', b'java\0-Xmx1g\0-jar\0/opt/x.jar\0', 'x.jar'),
        (b'run.sh', b'/bin/sh\0./run.sh\0', 'run.sh'),
        (b'MainThread', b'node\0app.js\0', 'app.js'),
        (b'sleep', b'sleep\0005\0', 'sleep'),
        (b'a-program-with-', b'/opt/a-program-with-a-long-name\0x\0', 'a-program-with-a-long-name'),
        # what the process calls itself
        (b'pt_data_worker', b'python\0train.py\0', 'pt_data_worker'),
        (b'postgres', b'postgres: writer\0', 'postgres'),
        # a command line that is unknown, or cut off within a word
        (b'sh', b'', 'sh'),
        (b'', b'', ''),
        (b'python', b'python\0/home/ann/tra', 'python'),
    ],
)
def test_a_process_is_named_by_what_it_runs(name: bytes, command_line: bytes, shown: str) -> None:
    assert process_name(name, command_line) == shown


@pytest.mark.parametrize(
    ('command', 'names', 'program'),
    [
        ('/usr/bin/python3 -u /home/ann/train.py --token=secret', 'python3 train.py', 'train.py'),
        ('python3.12 -u -Wignore train.py secret', 'python3.12 train.py', 'train.py'),
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
        ('ffmpeg -i secret.py', 'ffmpeg', 'ffmpeg'),
        ("'nginx: worker secret' secret", 'nginx:', 'nginx:'),
        ("python train.py --key 'sec…", 'python train.py', 'train.py'),
        ("''", '', ''),
        ('', '', ''),
        # code from a pipe or an argument, and what follows
        ('python - secret.py', 'python', 'python'),
        ('python -u - secret.py', 'python', 'python'),
        ('bash -s secret.sh', 'bash', 'bash'),
        ('bash -es -- secret.sh', 'bash', 'bash'),
        ('bash -- secret.sh', 'bash', 'bash'),
        ('python -mhttp.server secret.py', 'python http.server', 'http.server'),
        ('python -um http.server secret.py', 'python http.server', 'http.server'),
        ('python -mipykernel_launcher secret.py', 'python ipykernel_launcher', 'ipykernel_launcher'),
        ("python -m'a secret' secret.py", 'python', 'python'),
        ('R --no-save --args secret.R', 'R', 'R'),
        # the first word that is no option is the script, or behind an option its value
        ('python -W ignore -X dev train.py', 'python train.py', 'train.py'),
        ('python -W', 'python', 'python'),
        ('python -u train secret.py', 'python train', 'train'),
        ('julia --threads=4 train.jl secret', 'julia train.jl', 'train.jl'),
        ('python train secret.py', 'python train', 'train'),
        ('python -Xfrozen_modules=off -m ipykernel_launcher -f secret', 'python ipykernel_launcher', 'jupyter'),
        ('python -Wignore -m train secret.py', 'python train', 'train'),
        ('bash -eo pipefail run secret.sh', 'bash', 'bash'),
        ('bash run secret.sh', 'bash run', 'run'),
        ('node --some-option secret app.js', 'node', 'node'),
        ('ruby -I secret app.rb', 'ruby', 'ruby'),
        # it has to look like a path
        ('python token=secret', 'python', 'python'),
        ('php https://user:secret@example.org/x.php', 'php', 'php'),
        ("bash 'echo secret'", 'bash', 'bash'),
        ('python run.py?secret', 'python', 'python'),
        ('python train.py?token=secret.py', 'python', 'python'),
        ('torchrun --nproc-per-node 4 train.py --key secret', 'torchrun', 'torchrun'),
        # arguments of programs that run no scripts, and titles that a process has given itself
        ('mysql -psecret', 'mysql', 'mysql'),
        ("'mysqld --password=secret'", 'mysqld', 'mysqld'),
        ('password=secret', '', ''),
        ("'password=secret in the title'", '', ''),
        ('postgres://user:secret@example.org', '', ''),
        ("'worker?token' secret", '', ''),
        ('user:secret@example.org', '', ''),
        ("'sshd: ann@pts/0'", 'sshd:', 'sshd:'),
        ("'ray::train secret' '' ''", 'ray::train', 'ray::train'),
        ("'python train.py --token secret' '' ''", 'python', 'python'),
    ],
)
def test_the_names_of_program_and_script_alone(command: str, names: str, program: str) -> None:
    assert without_arguments(command) == (names, program)


@given(st.lists(st.text(min_size=1), max_size=5), st.integers(0, 100))
def test_no_word_behind_those_of_a_program_that_runs_no_scripts_is_shown(words: list[str], cut: int) -> None:
    command = shlex.join(['/opt/simulate', *words])[: cut + 13]
    assert without_arguments(command) == ('simulate', 'simulate')


def test_what_was_parsed_at_the_last_reading_is_not_parsed_again() -> None:
    command = 'python train.py --only-for-this-test'
    assert without_arguments(command) is without_arguments(command)


PYTHON = ['python', 'python3.12']
ENDS = ['-', '--', 'train.py', './train.py', '-c x', '--run=x', 'token=x', 'x://y']


@given(
    st.one_of(
        st.tuples(st.sampled_from([*PYTHON, 'bash', 'java', 'node', 'perl']), st.sampled_from(ENDS)),
        st.tuples(st.sampled_from(PYTHON), st.sampled_from(['-m train', '-mtrain'])),
    ),
    st.lists(st.sampled_from(['secret', 'secret.py', 'a/secret.py', '-u', '--x', '-psecret', 'secret.sh']), max_size=4),
)
def test_no_argument_is_shown_behind_a_script_a_module_or_code(begun: tuple[str, str], arguments: list[str]) -> None:
    shown = without_arguments(' '.join([*begun, *arguments]))
    assert not any('secret' in name for name in shown)
