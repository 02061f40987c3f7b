"""Which mutants scripts/mutate.py makes, and what it reports of them."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from support.scripts import load_script

if TYPE_CHECKING:
    from pathlib import Path

mutate = load_script('mutate')


def made_of(source: str) -> list[str]:
    return [f'{mutant.kind} {mutant.before} -> {mutant.after}' for mutant in mutate.mutants(source)]


@pytest.mark.parametrize(
    ('source', 'expected'),
    [
        ('x = min(a, b)', ['swap min(a, b) -> max(a, b)', 'clamp min(a, b) -> a', 'clamp min(a, b) -> b']),
        (
            'x = max(a, *b)',
            ['swap max(a, *b) -> min(a, *b)', 'clamp max(a, *b) -> a', 'clamp max(a, *b) -> max(b)'],
        ),
        ('x = max(a, key=b)', ['swap max(a, key=b) -> min(a, key=b)']),
        ('x = 3', ['number 3 -> 4']),
        ('x = 1.5', ['number 1.5 -> 3.0']),
        ('x = 0.0', ['number 0.0 -> 1.0']),
        ('x = a < b <= c', ['comparison a < b <= c -> a <= b <= c', 'comparison a < b <= c -> a < b < c']),
        ('x = a > b', ['comparison a > b -> a >= b']),
        ('x = a == b', []),
        ('x = a and b', ['logic a and b -> a or b']),
        ('if a:\n    b()', ['if a -> not a']),
        ('x = a if b else c', ['if b -> not b']),
        (
            'x = a or b > c',
            ['comparison b > c -> b >= c', 'logic a or b > c -> a and b > c', 'clamp a or b > c -> a'],
        ),
    ],
)
def test_each_kind_of_mutant(source: str, expected: list[str]) -> None:
    assert made_of(source) == expected


@pytest.mark.parametrize(
    'source',
    [
        '"""Up to 3."""',
        'x = True',
        'if TYPE_CHECKING:\n    y = 3',
        'if typing.TYPE_CHECKING:\n    y = 3',
        'def f(x: Literal[3]) -> Literal[4]:\n    y: Literal[5] = x',
    ],
    ids=['docstring', 'bool', 'for types', 'for types, with its module', 'annotations'],
)
def test_what_is_no_behaviour_has_no_mutants(source: str) -> None:
    assert made_of(source) == []


def test_a_mutant_has_one_fault_and_its_line() -> None:
    source = 'def f(a):\n    b = max(a, limit)\n    return b + 1\n'
    found = {(mutant.kind, mutant.line): mutant.text for mutant in mutate.mutants(source)}
    assert found['number', 3] == 'def f(a):\n    b = max(a, limit)\n    return b + 2\n'
    assert found['swap', 2] == 'def f(a):\n    b = min(a, limit)\n    return b + 1\n'


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the one file of a package; a test notices one of its two clamp mutants."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv('PYTEST_DISABLE_PLUGIN_AUTOLOAD', '1')
    folder = tmp_path / 'src' / 'package'
    folder.mkdir(parents=True)
    (folder / '__init__.py').touch()
    (folder / 'code.py').write_text('def at_most_ten(x):\n    return min(x, 10)\n')
    text = """\
        from package.code import at_most_ten

        def test_at_most_ten():
            assert at_most_ten(3) == 3

        def test_that_fails():
            assert False
        """
    (tmp_path / 'test_code.py').write_text(dedent(text))
    return folder / 'code.py'


def test_survivors_are_printed_and_the_file_is_left_alone(package: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = package.read_text()
    assert mutate.main(['--only', 'clamp', 'src/package/code.py', '--', 'test_code.py::test_at_most_ten']) == 1
    assert capfd.readouterr().out == 'src/package/code.py:2: min(x, 10) -> x\n1 of 2 mutants survived\n'
    assert package.read_text() == source


def test_tests_that_fail_without_a_mutant_are_refused(package: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        mutate.main([str(package), 'test_code.py'])
    assert caught.value.code == 2
    assert capfd.readouterr().err.endswith('mutate.py: the tests fail without a mutant. Fix them first.\n')


@pytest.mark.parametrize(
    ('words', 'reason'),
    [
        (['code.py'], 'no tests: name those that test FILE\n'),
        (['none.py', 'tests'], 'none.py cannot be mutated: '),
        (['broken.py', 'tests'], 'broken.py cannot be mutated: '),
    ],
)
def test_arguments_that_are_refused(
    words: list[str], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'broken.py').write_text('def')
    with pytest.raises(SystemExit) as caught:
        mutate.main(words)
    assert caught.value.code == 2
    assert reason in capfd.readouterr().err
