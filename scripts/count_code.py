"""Counts modules, lines, statements and functions of folders.

    python scripts/count_code.py [--against REVISION] [FOLDER...]

With ``--against`` it counts the same folders in that revision too. Docstrings are lines, but no statements.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ('src/gpu_tracker/processes', 'src/gpu_tracker/resources', 'src/gpu_tracker/sampler')
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Size(NamedTuple):
    """The size of a module, or of several."""

    modules: int = 0
    lines: int = 0
    statements: int = 0
    functions: int = 0


def size_of(source: str) -> Size:
    """Return the size of one module."""
    nodes = list(ast.walk(ast.parse(source)))
    statements = [node for node in nodes if isinstance(node, ast.stmt) and not _is_docstring(node)]
    functions = [node for node in nodes if isinstance(node, _FUNCTIONS)]
    return Size(1, len(source.splitlines()), len(statements), len(functions))


def _is_docstring(node: ast.stmt) -> bool:
    """Return whether a statement is a text that nothing uses."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def total(sizes: Iterable[Size]) -> Size:
    """Return the sum of sizes."""
    return Size(*(sum(column) for column in zip(Size(), *sizes, strict=True)))


def sources(folder: str, revision: str | None) -> list[str]:
    """Return the text of each module in a folder and below it, here or in a revision; none if it has no such folder."""
    if revision is None:
        return [path.read_text(encoding='utf-8') for path in sorted((ROOT / folder).rglob('*.py'))]
    words = ['git', '-C', str(ROOT), 'archive', revision]
    archive = subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        members = [member for member in files if member.name.startswith(f'{folder}/') and member.name.endswith('.py')]
        return [file.read().decode() for member in members if (file := files.extractfile(member)) is not None]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition('\n')[0])
    parser.add_argument('folders', nargs='*', default=FOLDERS, metavar='FOLDER', help='relative to the checkout')
    parser.add_argument('--against', metavar='REVISION', help='a commit, tag or branch to compare with')
    options = parser.parse_args()
    folders = [folder.rstrip('/') for folder in options.folders]
    revisions = [None] if options.against is None else [options.against, None]
    sizes = {(f, r): total(map(size_of, sources(f, r))) for f in folders for r in revisions}
    sizes |= {('total', r): total(sizes[f, r] for f in folders) for r in revisions}
    width = max(map(len, [*folders, 'folder']))
    print(f'{"folder":{width}}', *(f'{name:>17}' for name in Size._fields))
    for folder in (*folders, 'total'):
        columns = zip(*(sizes[folder, revision] for revision in revisions), strict=True)
        print(f'{folder:{width}}', *(f'{" -> ".join(f"{size:,}" for size in column):>17}' for column in columns))


if __name__ == '__main__':
    main()
