"""Mutation testing of one source file: prints the small faults that its tests do not notice.

    python scripts/mutate.py [--line N] [--only KIND] FILE [--] PYTEST-ARGUMENTS...

Each mutant has one fault. pytest runs with the given arguments on a copy of the source folder that holds the mutant.
Mutants that pass all tests are printed as ``file:line: before -> after``. The exit code is 0 if none survives, 1 if
some do, and 2 if nothing could be measured.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

KINDS = ('clamp', 'swap', 'number', 'comparison', 'logic', 'if')
_NEIGHBOURS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_OPPOSITES = {ast.And: ast.Or, ast.Or: ast.And}
_LEAST_TIMEOUT = 10.0
"""Seconds. Less would count a busy machine as a caught mutant."""
_SLOWER = 5
"""A mutant that takes this many times as long as the unchanged file is stopped, and is caught."""


_Change = tuple[str, ast.expr, ast.expr]
"""The kind of a mutant, the expression that is replaced, and its replacement."""


class Mutant(NamedTuple):
    """One fault, and the text of the file with it."""

    kind: str
    line: int
    before: str
    after: str
    text: str


class _Replacement(ast.NodeTransformer):
    """Replaces one node of a tree by another, in place."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old = old
        self._new = new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else self.generic_visit(node)


def mutants(source: str) -> Iterator[Mutant]:
    """Yield the mutants of a source text in the order of its lines."""
    tree = ast.parse(source)
    for kind, old, new in sorted(_changes(tree), key=lambda change: change[1].lineno):
        _Replacement(old, new).visit(tree)
        yield Mutant(kind, old.lineno, ast.unparse(old), ast.unparse(new), ast.unparse(tree) + '\n')
        _Replacement(new, old).visit(tree)


def _changes(node: ast.AST) -> Iterator[_Change]:
    """Yield the mutants of a node and of all nodes in it. Types are left as they are."""
    for name, value in ast.iter_fields(node):
        if name in {'annotation', 'returns'} or (name == 'body' and _is_for_types(node)):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _changes(child)
    match node:
        case ast.Call(func=ast.Name(id='min' | 'max')):
            yield from _changes_of_call(node)
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            yield 'number', node, ast.Constant(number + 1 if isinstance(number, int) else number * 2 or 1.0)
        case ast.Compare():
            yield from _changes_of_comparison(node)
        case ast.BoolOp():
            yield from _changes_of_condition(node)
        case ast.If(test=test) | ast.IfExp(test=test) if not _is_for_types(node):
            yield 'if', test, ast.UnaryOp(ast.Not(), test)


def _changes_of_call(call: ast.Call) -> Iterator[_Change]:
    """Swap ``min()`` and ``max()``, and replace the call by each of its arguments."""
    other = 'max' if ast.unparse(call.func) == 'min' else 'min'
    yield 'swap', call, ast.Call(ast.Name(other, ast.Load()), call.args, call.keywords)
    if len(call.args) > 1 and not call.keywords:
        for argument in call.args:
            if isinstance(argument, ast.Starred):  # max(limit, *values): max(values)
                yield 'clamp', call, ast.Call(call.func, [argument.value], [])
            else:
                yield 'clamp', call, argument


def _changes_of_comparison(comparison: ast.Compare) -> Iterator[_Change]:
    """Add or remove the case that both sides are equal."""
    for place, operator in enumerate(comparison.ops):
        if type(operator) in _NEIGHBOURS:
            operators = list(comparison.ops)
            operators[place] = _NEIGHBOURS[type(operator)]()
            yield 'comparison', comparison, ast.Compare(comparison.left, operators, comparison.comparators)


def _changes_of_condition(condition: ast.BoolOp) -> Iterator[_Change]:
    """Swap ``and`` and ``or``, and drop each bound, such as ``x > _MOST`` in ``x is None or x > _MOST``."""
    yield 'logic', condition, ast.BoolOp(_OPPOSITES[type(condition.op)](), condition.values)
    for value in condition.values:
        if isinstance(value, ast.Compare) and type(value.ops[0]) in _NEIGHBOURS:
            others = [other for other in condition.values if other is not value]
            yield 'clamp', condition, ast.BoolOp(condition.op, others) if len(others) > 1 else others[0]


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in {'TYPE_CHECKING', 'typing.TYPE_CHECKING'}


class SourceCopy:
    """A copy of the source folder that a file is in, and pytest with its arguments.

    :param copy: The folder to copy to, which is not there yet.
    """

    def __init__(self, file: Path, arguments: Sequence[str], copy: Path) -> None:
        root = file.resolve().parent
        while (root / '__init__.py').exists():
            root = root.parent
        shutil.copytree(root, copy, ignore=shutil.ignore_patterns('__pycache__'))
        self._file = copy / file.resolve().relative_to(root)
        self._command = [sys.executable, '-m', 'pytest', '-x', '-q', '-p', 'no:cacheprovider', *arguments]
        path = os.pathsep.join(filter(None, [str(copy), os.environ.get('PYTHONPATH')]))
        self._environment = {**os.environ, 'PYTHONPATH': path, 'HYPOTHESIS_STORAGE_DIRECTORY': f'{copy}-hypothesis'}
        self._runs = 0

    def failure(self, text: str, timeout: float | None = None) -> str | None:
        """Return the output of pytest if a test fails with this text of the file, None if all pass."""
        self._runs += 1
        self._file.write_text(text, encoding='utf-8')
        os.utime(self._file, (self._runs, self._runs))  # two mutants of one second must not share their bytecode
        with subprocess.Popen(
            self._command,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors='replace',
            start_new_session=True,
        ) as pytest:
            try:
                output, _ = pytest.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                return 'timeout'
            finally:
                if pytest.returncode is None:  # with the programs that the tests have started
                    os.killpg(pytest.pid, signal.SIGKILL)
        return output if pytest.returncode else None


def main(words: Sequence[str] | None = None) -> int:
    """Test each mutant of a file, and return the exit code."""
    parser = argparse.ArgumentParser(description='Print the small faults of a file that the tests do not notice.')
    parser.add_argument('--line', type=int, metavar='N', help='only mutants of this line')
    parser.add_argument('--only', choices=KINDS, metavar='KIND', help=f'only mutants of this kind: {", ".join(KINDS)}')
    parser.add_argument('file', type=Path, metavar='FILE')
    parser.add_argument('arguments', nargs=argparse.REMAINDER, metavar='PYTEST-ARGUMENTS')
    given = parser.parse_args(words)
    arguments = given.arguments[1:] if given.arguments[:1] == ['--'] else given.arguments
    if not arguments:
        parser.error('no tests: name those that test FILE')
    try:
        source = given.file.read_text(encoding='utf-8')
        found = [
            mutant
            for mutant in mutants(source)
            if given.line in {None, mutant.line} and given.only in {None, mutant.kind}
        ]
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        parser.error(f'{given.file} cannot be mutated: {error}')
    if not found:
        parser.error(f'{given.file} has no such mutant')
    with tempfile.TemporaryDirectory(prefix='mutate-') as folder:
        tests = SourceCopy(given.file, arguments, Path(folder, 'src'))
        begun = time.monotonic()
        failure = tests.failure(ast.unparse(ast.parse(source)) + '\n')
        timeout = max(_LEAST_TIMEOUT, _SLOWER * (time.monotonic() - begun))
        if failure is not None:
            parser.exit(2, f'{failure}\nmutate.py: the tests fail without a mutant. Fix them first.\n')
        survived = 0
        for mutant in found:
            if tests.failure(mutant.text, timeout) is None:
                survived += 1
                sys.stdout.write(f'{given.file}:{mutant.line}: {mutant.before} -> {mutant.after}\n')
                sys.stdout.flush()
    sys.stdout.write(f'{survived} of {len(found)} mutants survived\n')
    return 1 if survived else 0


if __name__ == '__main__':
    sys.exit(main())
