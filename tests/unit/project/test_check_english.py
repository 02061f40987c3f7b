"""scripts/check_english.py: what it counts, when a folder fails, and commit subjects."""

from __future__ import annotations

import subprocess
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from support.scripts import load_script

if TYPE_CHECKING:
    from pathlib import Path

check_english = load_script('check_english')


def found(path: str, source: str) -> list[tuple[int, str]]:
    """Return line and pattern of each hit."""
    _, hits = check_english.read(path, dedent(source))
    return [(hit.line, hit.pattern) for hit in hits]


@pytest.mark.parametrize(
    ('text', 'patterns'),
    [
        ('None where there is no driver.', ['where']),
        ('None where it has ended.', ['where']),
        ('None if there is no driver. The folder where it is.', []),
        ('Those of the last reading.', ['those that']),
        ('Each limit is that of its group.', ['those that']),
        ('Nobody saw the bytes of which it consists.', ['of which']),
        (':ivar shared: The same for shared RSS.', ['as above']),
        ('The answer is the same for all clients.', []),
        ('Skip one that cannot be read.', ['one that']),
        ('Keep what is read until it is written. What is it?', ['what is']),
        ('So who reads it sees all. Users who are active.', ['who']),
        ('It was told twice.', ['tell']),
        ('Look at the first. A look-up takes a second. A look takes two.', ['look at', 'look at']),
        ('With more patience it is mended.', ['patience', 'mend']),
        ('The driver knows it. The driver reports it.', ['person']),
        ('A file that a child writes, which ends.', ['that, that']),
        ('A file that a child writes so that it lasts, and after that, ends.', []),
        ('One, ' + 'word ' * 24 + 'end.', ['long']),
        ('One, ' + 'word ' * 23 + 'end.', []),
        ('``None where there is`` and "told" are literals.', []),
    ],
)
def test_patterns(text: str, patterns: list[str]) -> None:
    assert [pattern for _, pattern in found('docs/guide.rst', text)] == patterns


def test_python_docstrings_and_comments() -> None:
    source = '''
        """The first line tells."""

        A = 1
        """Tells of A.

        :param b: None where it
            has ended.

            told(code)
        """
        b = f('told', """
        told in a program
        """)  # told in b
        # The first line
        # is told.
        c = b  # noqa: S101 - told
    '''
    assert found('tests/a.py', source) == [(2, 'tell'), (5, 'tell'), (7, 'where'), (14, 'tell'), (16, 'tell')]


def test_messages_count_in_src_only() -> None:
    source = """
        raise ValueError(
            f'the child {pid} is '
            'told to end'
        )
        print('told so')
        run('if told:\\n    SELECT told')
    """
    assert found('src/gpu_tracker/a.py', source) == [(4, 'tell')]
    assert found('tests/a.py', source) == []


def test_pages_without_code_and_titles() -> None:
    source = """
        The child is told
        -----------------

        It is told::

           told

        .. code-block:: sh

           told

        .. note::

           Told.

        =====  ==========
        Child  It is told
        =====  ==========
    """
    assert found('README.rst', source) == [(5, 'tell'), (15, 'tell'), (18, 'tell')]


def test_comments_of_shell_scripts() -> None:
    source = """\
        #!/bin/sh told
        #SBATCH told
        # None where it
        # is told.
        echo told  # told
    """
    assert found('scripts/a.sh', source) == [(5, 'tell'), (3, 'where'), (4, 'tell')]


def test_modules_that_are_full_of_comments() -> None:
    assert found('a.py', '# One.\n' * 11 + 'a = 1\n' * 40) == [(1, 'comments')]
    assert found('a.py', '# One.\n' * 11 + 'a = 1\n' * 50) == []


@pytest.mark.parametrize(
    ('path', 'folder'),
    [
        ('README.rst', '.'),
        ('docs/guide.rst', 'docs'),
        ('src/gpu_tracker/usage.py', 'src/gpu_tracker'),
        ('src/gpu_tracker/resources/ram/split.py', 'src/gpu_tracker/resources'),
        ('tests/conftest.py', 'tests'),
        ('tests/unit/cli/test_a.py', 'tests/unit'),
    ],
)
def test_folders(path: str, folder: str) -> None:
    assert check_english.folder_of(path) == folder


def folder(hits: int, lines: int) -> object:
    hit = check_english.Hit('docs/a.rst', 1, 'tell', 'It is told.')
    return check_english.Folder(lines, [hit] * hits)


@pytest.mark.parametrize(
    ('hits', 'lines', 'is_worse'),
    [
        (11, 100, True),
        (10, 100, False),
        (10, 50, False),  # clear text was deleted
        (20, 200, False),  # text was added
        (9, 20, False),
    ],
)
def test_a_folder_fails_if_hits_and_rate_rise(hits: int, lines: int, is_worse: bool) -> None:
    assert check_english.is_worse(folder(hits, lines), {'hits': 10, 'rate': 100.0}) is is_worse


def test_a_new_folder_has_no_hits() -> None:
    assert check_english.is_worse(folder(1, 100), {})
    assert not check_english.is_worse(folder(0, 100), {})


def test_an_update_never_raises_a_count() -> None:
    committed = {'docs': {'hits': 10, 'rate': 100.0}, 'gone': {'hits': 1, 'rate': 1.0}}
    assert check_english.lowered({'docs': folder(9, 50), 'new': folder(1, 10)}, committed) == {
        'docs': {'hits': 9, 'rate': 100.0},
        'new': {'hits': 1, 'rate': 100.0},
    }


def test_a_problem_shows_changed_files_first() -> None:
    hits = [check_english.Hit(f'docs/{name}.rst', 3, 'tell', 'It is told.') for name in 'ab']
    assert check_english.problem('docs', check_english.Folder(100, hits), {'docs/b.rst'}).splitlines() == [
        'docs is above its committed count: 2 hits, 20.0 per 1,000 lines',
        '  2 x tell: write report or return',
        'docs/b.rst:3: tell: It is told.',
        'docs/a.rst:3: tell: It is told.',
        '  All hits: python scripts/check_english.py --show docs (--update adds a new folder)',
    ]


def test_long_subjects() -> None:
    log = f'{"a" * 72}\n{"b" * 73}\n'
    assert check_english.long_subjects(log) == [f'a commit subject has 73 characters, more than 72: {"b" * 73}']


def test_the_commands_in_a_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(check_english, 'ROOT', tmp_path)
    monkeypatch.setattr(check_english, 'COUNTS', tmp_path / 'counts.json')
    page = tmp_path / 'README.rst'
    page.write_text('It is told.\n')
    assert check_english.main(['--update']) == 0
    assert (tmp_path / 'counts.json').read_text() == '{\n  ".": {"hits": 1, "rate": 1000.0}\n}\n'
    assert check_english.main([]) == 0
    assert 'Commit subjects are not checked' in capsys.readouterr().out
    page.write_text('It is told where it is told.\n')
    assert check_english.main([]) == 1
    assert check_english.main(['--update']) == 0
    assert check_english.main([]) == 1
    subprocess.run(['git', 'init', '--quiet'], cwd=tmp_path, check=True)
    assert check_english.main([]) == 0  # git tracks no file
    capsys.readouterr()
    subprocess.run(['git', 'add', 'README.rst'], cwd=tmp_path, check=True)
    assert check_english.main(['--show', '.']) == 0
    assert capsys.readouterr().out.splitlines()[0] == 'README.rst:1: tell: It is told where it is told.'
    assert check_english.main(['--help']) == 2
