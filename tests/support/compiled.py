"""Compiled C of the tests, kept in the checkout: each file is compiled once, not once per run and worker."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from support.programs import need_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_CACHE = Path(__file__).resolve().parents[2] / '.test-cache'


def require_compiler() -> str:
    """Return the path of the C compiler; skip the test if there is none."""
    need_program('cc')
    return os.path.realpath(shutil.which('cc'))


def cache_folder(name: str, sources: Iterable[Path], *options: object) -> Path:
    """Return the folder for what is compiled from these sources with these options on this system.

    It is another one as soon as a source changes.
    """
    parts = [require_compiler(), platform.platform(), *map(str, options)]
    parts += [f'{path.name} {path.read_text()}' for path in sorted(sources)]
    key = hashlib.sha256('\0'.join(parts).encode()).hexdigest()[:16]
    folder = _CACHE / f'{name}-{key}'
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def compiled_once(path: Path, make: Callable[[Path], object]) -> Path:
    """Return the path of a file that ``make`` has written, now or earlier, in this process or another."""
    if not path.exists():
        with open(path.parent / 'lock', 'w', encoding='utf-8') as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                unfinished = path.with_name(f'{path.name}.new')
                make(unfinished)
                unfinished.rename(path)
    return path
