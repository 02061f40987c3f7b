"""Compiles the C programs and libraries of the benchmarks, and keeps them."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.environments import KEPT
from benchmarks.session import FailedError

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHOWN = 300
"""Characters of what the compiler says."""


def compiled(name: str, sources: Sequence[Path], options: Sequence[str] = (), included: Sequence[Path] = ()) -> Path:
    """Return a program or library of that name, alone in a folder; compiled where that has not been done yet.

    :param options: Words for the compiler after the sources.
    :param included: Files that the sources include: where one of them has changed, it is compiled again.
    :raises FailedError: where it cannot be compiled.
    """
    digest = hashlib.sha256(repr(options).encode())
    for path in (*sources, *included):
        digest.update(path.read_bytes())
    product = KEPT / 'compiled' / f'{name}-{digest.hexdigest()[:12]}' / name
    if not product.exists():
        product.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=product.parent) as folder:  # another run may be compiling the same
            unfinished = Path(folder) / name
            _compile(unfinished, [*map(str, sources), *options])
            unfinished.replace(product)
    return product


def _compile(product: Path, words: Sequence[str]) -> None:
    try:
        subprocess.run(['cc', '-O2', '-o', str(product), *words], check=True, capture_output=True, text=True)
    except OSError as error:
        raise FailedError(f'{product.name} cannot be compiled: {error}') from error
    except subprocess.CalledProcessError as error:
        raise FailedError(f'{product.name} cannot be compiled: {error.stderr.strip()[:_SHOWN]}') from error
