"""Completion in real shells: keys are pressed in a terminal, and the words on the line then are printed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.cli import COMMANDS
from gpu_tracker.cli.completion import VALUES, lines
from gpu_tracker.cli.help_texts import help_of
from support.cli_program import Terminal, gpu_tracker, text_of
from support.programs import need_program
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

_BEGINNING = {
    'bash': [
        'bind "set enable-bracketed-paste off"',
        'eval "$(gpu-tracker completion bash)"',
        r"""bind '"\C-t": insert-completions'""",
    ],
    'zsh': [
        'bindkey -e; autoload -Uz compinit; compinit -u -D',
        'eval "$(gpu-tracker completion zsh)"',
        'zle -C all-matches complete-word _generic; bindkey "^T" all-matches',
        "zstyle ':completion:all-matches:*' completer _all_matches _complete",
        "zstyle ':completion:all-matches:*' insert true",
    ],
}
_START = {'bash': ['bash', '--norc', '--noprofile', '-i'], 'zsh': ['zsh', '-f', '-i']}
_TAB = '\t'
_ALL = '\x14'
"""Ctrl-T, which puts all completions on the line."""
_HOME, _END = '\x01', '\x05'


class Shell:
    """A shell in a terminal, with the completion of gpu-tracker loaded."""

    def __init__(self, name: str, terminal: Terminal, folder: Path) -> None:
        self.name = name
        self._terminal = terminal
        self._folder = folder
        self._number = 0
        for line in _BEGINNING[name]:
            self._enter(f'{line}; true')

    def words(self, line: str, key: str) -> list[str]:
        """Return the words on the line after ``line`` was typed and ``key`` pressed."""
        # zsh takes the = or / that it has put at the end of a word away again, where another key follows.
        return [word.rstrip('=/') for word in self._enter(f"{line}{key}{_HOME}printf '%s\\n' {_END}").splitlines()]

    def _enter(self, line: str) -> str:
        """Run a line, and return what it has printed."""
        self._number += 1
        path = self._folder / f'printed-{self._number}'
        self._terminal.press(f'{line} >part; mv part {path.name}\r')
        eventually(lambda: self._terminal.shown and path.exists())
        return text_of(path)


@pytest.fixture(scope='module', params=['bash', 'zsh'])
def shell(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    folder = tmp_path_factory.mktemp('home')
    for name in ('one.db', 'two.db'):
        (folder / name).touch()
    (folder / 'folder').mkdir()
    environment = {
        'PATH': f'{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin',
        'HOME': str(folder),
        'TERM': 'dumb',
        'LANG': 'C.UTF-8',
    }
    need_program(request.param)
    with Terminal(['env', '-C', str(folder), *_START[request.param]], environment) as terminal:
        terminal.resize(1000, 50)
        yield Shell(request.param, terminal, folder)


@pytest.mark.parametrize(
    ('line', 'words'),
    [
        ('gpu-tracker repor', ['gpu-tracker', 'report']),
        ('gpu-tracker --append --form', ['gpu-tracker', '--append', '--format']),
        ('gpu-tracker --format=js', ['gpu-tracker', '--format=json']),
        ('gpu-tracker --format js', ['gpu-tracker', '--format', 'json']),
        ('gpu-tracker -f su', ['gpu-tracker', '-f', 'summary']),
        ('gpu-tracker merge -f parq', ['gpu-tracker', 'merge', '-f', 'parquet']),
        ('gpu-tracker --sections=io,en', ['gpu-tracker', '--sections=io,energy']),
        ('gpu-tracker report on', ['gpu-tracker', 'report', 'one.db']),
        ('gpu-tracker report --salvage tw', ['gpu-tracker', 'report', '--salvage', 'two.db']),
        ('gpu-tracker --job=fol', ['gpu-tracker', '--job=folder']),
        ('gpu-tracker --tf two', ['gpu-tracker', '--tf', 'two.db']),
        ('gpu-tracker idle sta', ['gpu-tracker', 'idle', 'status']),
        ('gpu-tracker idle --print', ['gpu-tracker', 'idle', '--print-config']),
        ('gpu-tracker completion fi', ['gpu-tracker', 'completion', 'fish']),
        ('gpu-tracker --st 1 -q readlin', ['gpu-tracker', '--st', '1', '-q', 'readlink']),
        ('gpu-tracker -- readlin', ['gpu-tracker', '--', 'readlink']),
        ('gpu-tracker available -n 1 readlin', ['gpu-tracker', 'available', '-n', '1', 'readlink']),
        ('gpu-tracker readlink on', ['gpu-tracker', 'readlink', 'one.db']),
        ('gpu-tracker --st=1 -- readlink report tw', ['gpu-tracker', '--st=1', '--', 'readlink', 'report', 'two.db']),
        ('gpu-tracker --st=1 readlink --json on', ['gpu-tracker', '--st=1', 'readlink', '--json', 'one.db']),
    ],
)
def test_what_is_begun_is_completed(shell: Shell, line: str, words: list[str]) -> None:
    assert shell.words(line, _TAB) == words


def test_all_options_and_all_commands_are_offered(shell: Shell) -> None:
    offered = set(shell.words('gpu-tracker --', _ALL)[1:])
    assert offered == {name for option in help_of('').options for name in option.names if name.startswith('--')}
    offered = set(shell.words('gpu-tracker plot --', _ALL)[2:])
    assert offered == {name for option in help_of('plot').options for name in option.names if name.startswith('--')}
    assert {'show', 'sub-track'} <= set(shell.words('gpu-tracker s', _ALL)[1:])


@pytest.fixture(scope='module')
def fish_script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_program('fish')
    path = tmp_path_factory.mktemp('fish') / 'gpu-tracker.fish'
    path.write_text(gpu_tracker('completion', 'fish').stdout)
    return path


@pytest.mark.parametrize(
    ('line', 'offered'),
    [
        ('gpu-tracker repor', ['report']),
        ('gpu-tracker --append --form', ['--format']),
        ('gpu-tracker --format=js', ['--format=json']),
        ('gpu-tracker -f su', ['summary']),
        ('gpu-tracker merge -f parq', ['parquet']),
        ('gpu-tracker --sections=io,en', ['--sections=io,energy']),
        ('gpu-tracker report on', ['one.db']),
        ('gpu-tracker --job fol', ['folder/']),
        ('gpu-tracker --tf two', ['two.db']),
        ('gpu-tracker idle sta', ['status']),
        ('gpu-tracker completion fi', ['fish']),
        ('gpu-tracker --st 1 -q readlin', ['readlink']),
        ('gpu-tracker -- readlin', ['readlink']),
        ('gpu-tracker available -n 1 readlin', ['readlink']),
        ('gpu-tracker readlink on', ['one.db']),
        ('gpu-tracker --st=1 -- readlink report tw', ['two.db']),
        ('gpu-tracker readlink --canonicalize-m', ['--canonicalize-missing']),
        ('gpu-tracker show --al', []),
    ],
)
def test_fish_offers_the_same(fish_script: Path, tmp_path: Path, line: str, offered: list[str]) -> None:
    for name in ('one.db', 'two.db'):
        (tmp_path / name).touch()
    (tmp_path / 'folder').mkdir()
    found = subprocess.run(
        ['fish', '-c', f'source {fish_script}; complete -C {line!r}'],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=os.environ | {'HOME': str(tmp_path), 'LANG': 'C.UTF-8'},
    )
    assert found.stderr == ''
    assert [choice.partition('\t')[0] for choice in found.stdout.splitlines()] == offered


def test_the_words_that_options_take_are_in_their_help() -> None:
    texts = {option.names[-1]: option.text for name in ('', *COMMANDS) for option in help_of(name).options} | {
        option.names[-1]: option.text for option in help_of('').options
    }
    missing = [
        (name, word)
        for name, words in VALUES.items()
        for word in words
        if name not in {'--format', '--gru'} and word not in texts[name]
    ]
    assert missing == []


def test_every_command_has_a_line() -> None:
    assert [line.name for line in lines()] == ['', *COMMANDS]
    assert all(line.text and line.options for line in lines())


def test_another_shell_is_refused() -> None:
    run = gpu_tracker('completion', 'tcsh')
    assert (run.returncode, run.stderr) == (125, "gpu-tracker: the shell must be bash, zsh or fish, not 'tcsh'\n")
    run = gpu_tracker('completion')
    assert (run.returncode, run.stderr) == (
        125,
        (
            'gpu-tracker: <shell> is missing. Usage:\n  gpu-tracker completion <shell>\n'
            "Try 'gpu-tracker completion --help'.\n"
        ),
    )
