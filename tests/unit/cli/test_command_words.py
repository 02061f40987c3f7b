from __future__ import annotations

import errno
import os
import shlex
import string
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.cli.command_words import meant, plain_words, start_advice, words_to_start
from gpu_tracker.running.held_command import find_program, start_fault

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = string.ascii_letters + string.digits + '%+,-./:=@_'


@pytest.fixture
def search_path(tmp_path: Path) -> list[str]:
    for name in ('program', 'A=1'):
        path = tmp_path / name
        path.write_text('#!/bin/sh\n')
        path.chmod(0o755)
    (tmp_path / 'data').write_text('no program\n')
    (tmp_path / 'folder').mkdir()
    return [str(tmp_path)]


@pytest.mark.parametrize(
    ('command', 'words'),
    [
        ('program', ['program']),
        ('  program \t x  ', ['program', 'x']),
        ('program --size=3 if=/dev/zero a,b user@host:1 50%', None),
        ('program \'a b\' "c  d"', ['program', 'a b', 'c  d']),
        ('program -c \'import os; print(os.getpid() > 1, "$HOME", *[1])\'', None),
        ('program x\'y z\'"w"v', ['program', 'xy zwv']),
        ('program \'\' ""', ['program', '', '']),
        ('"program" x', ['program', 'x']),
        ('program "it\'s"', ['program', "it's"]),
        ("program 'two\nlines'", ['program', 'two\nlines']),
        ('program A=1', ['program', 'A=1']),
    ],
)
def test_a_command_without_shell_characters_is_started_directly(
    search_path: list[str], command: str, words: list[str] | None
) -> None:
    assert words_to_start(command, search_path) == (words or shlex.split(command))


@pytest.mark.parametrize(
    'command',
    [
        'program | program',
        'program && program',
        'program; program',
        'program &',
        'program > file',
        'program < file',
        'program 2>&1',
        '(program)',
        '{ program; }',
        'program $HOME',
        'program "$HOME"',
        'program `program`',
        'program "`program`"',
        'program "a\\"b"',
        'program a\\ b',
        'program *.txt',
        'program file?',
        'program [ab]',
        'program {a,b}',
        'program ~',
        'program ~/x',
        'program # comment',
        'program !',
        'program\nprogram',
        'program\r',
        'program "unfinished',
        "program 'unfinished",
        'A=1 program',
        'A=1',
        '! program',
        'cd /',
        'nonexistent',
        'data',
        'folder',
        "''",
        '-x',
        '',
    ],
)
def test_everything_else_goes_to_the_shell_as_it_is(search_path: list[str], command: str) -> None:
    assert words_to_start(command, search_path) == ['/bin/sh', '-c', '--', command]


def test_a_program_is_found_by_its_path_or_on_the_search_path(search_path: list[str]) -> None:
    (folder,) = search_path
    assert find_program('program', ['/nonexistent', folder]) == f'{folder}/program'
    assert find_program(f'{folder}/program', []) == f'{folder}/program'
    assert find_program('data', search_path) is None
    assert find_program('folder', search_path) is None
    assert find_program('', search_path) is None


@pytest.mark.parametrize(
    ('name', 'number'), [('program', None), ('data', errno.EACCES), ('folder', errno.EACCES), ('nothing', errno.ENOENT)]
)
def test_what_speaks_against_starting_a_program(search_path: list[str], name: str, number: int | None) -> None:
    (folder,) = search_path
    faults = [start_fault(name, ['/nonexistent', folder]), start_fault(f'{folder}/{name}', [])]
    assert [None if fault is None else fault.errno for fault in faults] == [number, number]


@given(st.lists(st.text(alphabet=PLAIN, min_size=1), min_size=1))
def test_plain_words_are_split_at_blanks(words: list[str]) -> None:
    assert plain_words(' '.join(words)) == words


@given(st.lists(st.text().filter(lambda text: '\0' not in text), min_size=1))
def test_quoted_words_come_back_as_they_were(words: list[str]) -> None:
    quoted = [f"'{word}'" if "'" not in word else f'"{word}"' for word in words]
    expected = None if any("'" in word and set('$`\\"') & set(word) for word in words) else words
    if not any("'" in word and '"' in word for word in words):
        assert plain_words(' '.join(quoted)) == expected


# Characters that mean something to a shell, and a few that do not.
SHELL_TEXT = st.text(alphabet='ab1 \t\n\'"\\$`|&;<>()*?[]#~=%!{},^-+@:./é', max_size=12)


@given(SHELL_TEXT)
def test_the_words_are_those_that_a_shell_passes_on(text: str) -> None:
    words = plain_words(f'x {text}')
    if words is not None:
        script = f"printf '%s\\0' x {text}"
        shown = subprocess.run(['/bin/sh', '-c', '--', script], stdout=subprocess.PIPE, check=True)
        assert [os.fsdecode(word) for word in shown.stdout.split(b'\0')[:-1]] == words


@pytest.mark.parametrize(
    ('name', 'content', 'mode', 'advice'),
    [
        (
            'train.py',
            'print()',
            0o644,
            'it is a Python program: put python in front of it, as in "gpu-tracker python train.py".',
        ),
        (
            'my train.py',
            '#!/usr/bin/python3',
            0o644,
            'it is a Python program: put python in front of it, as in "gpu-tracker python \'my train.py\'".',
        ),
        (
            './run.sh',
            'echo',
            0o755,
            'it is a shell script: put sh in front of it, as in "gpu-tracker sh ./run.sh".',
        ),
        ('./script', '#!/bin/sh', 0o644, 'it may not be executed: chmod +x ./script.'),
        ('script', '#!/bin/sh', 0o755, 'it is in this folder, in which no program is searched for: write ./script.'),
        (
            './script',
            '#!/bin/sh\r\necho\r\n',
            0o755,
            "its first line names a program that is not there, '#!/bin/sh'.",
        ),
        ('./data', 'no program', 0o644, None),
        ('./missing.py', None, 0o644, None),
    ],
)
def test_what_to_do_where_a_program_cannot_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: str | None, mode: int, advice: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    if content is not None:
        path = tmp_path / name
        path.write_bytes(content.encode())
        path.chmod(mode)
    assert start_advice(name, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))) == advice


@pytest.mark.parametrize(
    ('name', 'expected'),
    [
        ('run.sh', None),
        ('data', None),
        ('./program', None),
        ('no-such', None),
        ('no-such.py', None),
        ('', None),
        ('program x', 'program x, without quotes around it'),
        ("program 'a b'", "program 'a b', without quotes around it"),
        ('program x | head', "sh -c 'program x | head'"),
        ('for i in 1; do program; done', "sh -c 'for i in 1; do program; done'"),
        ('A=2', 'env A=2'),
        ('report', 'gpu-tracker report'),
        ('help', 'gpu-tracker --help'),
        ('version', 'gpu-tracker --version'),
        ('record', 'gpu-tracker --record=run.db COMMAND'),
        ('run', 'gpu-tracker COMMAND'),
        ('monitor', 'gpu-tracker --live COMMAND'),
        ('profile', 'gpu-tracker --record=run.db COMMAND'),
        ('shwo', 'gpu-tracker show'),
    ],
)
def test_what_was_meant_by_a_program_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, expected: str | None
) -> None:
    bin_folder = tmp_path / 'bin'
    bin_folder.mkdir()
    for path in (bin_folder / 'python3', bin_folder / 'program', tmp_path / 'program'):
        path.write_text('#!/bin/sh\n')
        path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    assert meant(name, [str(bin_folder)]) == expected
