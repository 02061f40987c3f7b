"""A server of ours as a process of its own, whose standard error is kept."""

from __future__ import annotations

import signal
import subprocess
import tempfile
from typing import TYPE_CHECKING, Self

from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class ServingProgram:
    """A server that has been started; it is killed at the end of the block, which begins when it serves.

    :param words: Its command line.
    :param environment: All its variables.
    """

    def __init__(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        self._errors = tempfile.TemporaryFile('a+')  # noqa: SIM115 - it is closed with the server
        self.process = subprocess.Popen(
            words, env=environment, stdin=subprocess.DEVNULL, stderr=self._errors, text=True
        )

    def __enter__(self) -> Self:
        try:
            eventually(self._serves)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self._errors.close()

    @property
    def log(self) -> str:
        """What it has said on standard error."""
        self._errors.seek(0)
        return self._errors.read()

    def end(self, by: signal.Signals = signal.SIGTERM, patience: float = TIMEOUT) -> int:
        """End it by a signal, and return its exit code."""
        self.process.send_signal(by)
        return self.process.wait(patience)

    def finds_place(self) -> bool:
        """Return whether it serves, and keep where: each kind of server tells it in its own way."""
        raise NotImplementedError

    def _serves(self) -> bool:
        has_ended = self.process.poll() is not None
        if self.finds_place():  # it may have ended since
            return True
        assert not has_ended, f'it ended with {self.process.returncode}: {self.log}'
        return False
