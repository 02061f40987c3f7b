"""Starts actors of ``claim_program``, processes that claim GPUs when told to, and talks with them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from support.programs import need_program
from support.tracked_program import PACKAGE_PARENT

if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator

ONE = 54321
OTHER = 54322
"""Two users without names."""

PROGRAM = [sys.executable, '-P', str(Path(__file__).with_name('claim_program.py'))]
"""Without the folder of the tests on its path: a module there must not take the place of one that it needs."""


def environment() -> dict[str, str]:
    """Return an environment in which the program finds the package, and claims stand nowhere but where it is told."""
    return {'PATH': os.environ.get('PATH', os.defpath), 'PYTHONPATH': str(PACKAGE_PARENT)}


@contextlib.contextmanager
def shared_folder() -> Iterator[str]:
    """Give a folder that is like /tmp; other users cannot get into those that pytest makes."""
    path = tempfile.mkdtemp()
    try:
        os.chmod(path, 0o1777)  # noqa: S103 - as /tmp is
        yield path
    finally:
        shutil.rmtree(path)


def tool(name: str, *arguments: str) -> tuple[str, ...]:
    """Return how to run a program under ``name``, which is skipped where the machine lacks that."""
    need_program(name)
    return (name, *arguments)


class Actor:
    """A process that claims GPUs when it is told to."""

    def __init__(self, words: list[str]) -> None:
        self._process = subprocess.Popen(
            words, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = self._process.pid

    def tell(self, word: str, *arguments: object) -> None:
        """Have something done, without an answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([word, *arguments]) + '\n')
        self._process.stdin.flush()

    def ask(self, word: str, *arguments: object) -> Any:
        """Have something done, and return the answer."""
        self.tell(word, *arguments)
        return self.answer()

    def answer(self) -> Any:
        """Return what it says next."""
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def end(self, by: signal.Signals) -> None:
        """End the process by a signal, and wait for it."""
        self._process.send_signal(by)
        self._process.wait()

    def close(self) -> None:
        """Leave nothing of it."""
        self._process.kill()
        self._process.communicate()


class Actors:
    """Actors with the same folder of claims."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._started: list[Actor] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for actor in self._started:
            actor.close()

    def start(self, *, user: int | None = None, lock_timeout: float = 20, words: tuple[str, ...] = ()) -> Actor:
        """Start one.

        :param user: The number of a user, who need not have a name; only root can start somebody else's.
        :param words: What stands before the program.
        """
        arguments = ['actor', '' if user is None else str(user), self.path, str(lock_timeout)]
        actor = Actor([*words, *PROGRAM, *arguments])
        self._started.append(actor)
        return actor
