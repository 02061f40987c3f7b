"""A machine with a simulated driver and a folder of its own for claims, and gpu-tracker as a program on it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from support.cli_program import PROGRAM, Terminal, gpu_tracker, started
from support.gpus.forking_interpreter import ForkingInterpreter, forking_interpreter
from support.programs import need_program
from support.simulated_nvml import SimulatedDriver
from support.tracked_program import answer, environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

GB = 1_000_000_000
GIB = 2**30
NOBODY = 65534
NO_SUCH_PROCESS = 4_194_304
"""Linux numbers processes up to one less."""

_OF_THE_TESTER = {'CUDA_VISIBLE_DEVICES', 'CUDA_DEVICE_ORDER', 'NO_COLOR', 'TERM', 'COLUMNS', 'LINES'}
"""Variables that change what gpu-tracker says."""

_LOADERS = ('LD_', 'PYTHON')
"""How variables begin that have an effect only when an interpreter starts."""

_FORKED = {'agent', 'atopgpud', 'available', 'gpus', 'ls'}
"""Commands for which it makes no difference who started them, nor that modules are imported already."""

_IN_INITIAL_PID_NAMESPACE = os.stat('/proc/self/ns/pid').st_ino == 0xEFFFFFFC

sees_all_processes = pytest.mark.skipif(
    not _IN_INITIAL_PID_NAMESPACE,
    reason="this machine is a container: the driver's process IDs may mean other processes",
)


class Machine:
    """A machine whose GPUs are those that ``driver`` is told to have.

    :param folder: Where state, log and claims go.
    :param generation: See SimulatedDriver.
    """

    def __init__(self, folder: Path, generation: int = 0) -> None:
        self.driver = SimulatedDriver(folder, generation)
        self.write = self.driver.write
        self.claims = folder / 'claims'

    def environment(self, changes: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the variables with which a process is on this machine."""
        usual = {name: value for name, value in environment().items() if name not in _OF_THE_TESTER}
        return usual | self.driver.environment() | {'GPU_TRACKER_CLAIMS': str(self.claims)} | dict(changes or {})

    def told(self, *arguments: str, env: Mapping[str, str] | None = None, **options: Any) -> tuple[int, str, str]:
        """Run gpu-tracker to its end and return its exit code, what it printed, and that on standard error.

        :param options: Those of subprocess.run.
        """
        if not options and arguments[0] in _FORKED and not (env and any(name.startswith(_LOADERS) for name in env)):
            return self._interpreter.command([*arguments], self.environment(env))
        finished = gpu_tracker(*arguments, env=self.environment(env), **options)
        return finished.returncode, finished.stdout, finished.stderr

    def told_each(self, *command_lines: list[str]) -> list[tuple[int, str, str]]:
        """Run gpu-tracker with each list of arguments. Return the exit code, the output and the errors of each run.

        In front of the arguments variables may stand, as in a shell: ``NAME=value``.
        """
        answers = []
        for words in command_lines:
            count = next(place for place, word in enumerate(words) if '=' not in word)
            changes = dict(word.split('=', 1) for word in words[:count])
            answers.append(self._interpreter.command(words[count:], self.environment(changes)))
        return answers

    def forked(self, text: str, *arguments: str) -> tuple[int, str, str]:
        """Fork an interpreter that has imported gpu-tracker, run a program in it. Return exit code, output, errors."""
        return self._interpreter.program(text, [*arguments], self.environment())

    def forked_answer(self, text: str, *arguments: str) -> Any:
        """Return what such a program prints as JSON."""
        code, printed, errors = self.forked(text, *arguments)
        assert code == 0, errors
        return json.loads(printed)

    @property
    def _interpreter(self) -> ForkingInterpreter:
        return forking_interpreter(self.driver.environment()['LD_LIBRARY_PATH'])

    def available(self, *arguments: str, env: Mapping[str, str] | None = None) -> str:
        """Return what ``gpu-tracker available`` prints, without the end of the line, where it has nothing to say."""
        code, printed, errors = self.told('available', *arguments, env=env)
        assert (code, errors) == (0, '')
        return printed.removesuffix('\n')

    def gpus(self) -> list[dict[str, Any]]:
        """Return the GPUs in what ``gpu-tracker gpus --json`` prints, where it has nothing to say."""
        code, printed, errors = self.told('gpus', '--json')
        assert (code, errors) == (0, '')
        return json.loads(printed)['gpus']

    def started(
        self, *arguments: str, env: Mapping[str, str] | None = None, **options: Any
    ) -> contextlib.AbstractContextManager[subprocess.Popen[str]]:
        """Start gpu-tracker, as cli_program.started does; ``options`` are those of subprocess.Popen."""
        return started(*arguments, env=self.environment(env), **options)

    def terminal(self, *arguments: str, env: Mapping[str, str] | None = None, before: tuple[str, ...] = ()) -> Terminal:
        """Start gpu-tracker in a terminal, behind the words ``before``."""
        return Terminal([*before, *PROGRAM, *arguments], self.environment({'TERM': 'xterm'} | dict(env or {})))

    def answer(self, text: str, *arguments: object, env: Mapping[str, str] | None = None, **options: Any) -> Any:
        """Return what a Python program prints as JSON."""
        return answer(text, *arguments, env=self.environment(env), **options)


def words_as_nobody(*words: str) -> list[str]:
    """Return the words that run a program as the user nobody, who may search all folders, for what the test needs."""
    return words_as(NOBODY, *words)


def words_as(user: int, *words: str) -> list[str]:
    """Return the same for any user."""
    need_program('setpriv')
    right = '-all,+dac_read_search'
    return ['setpriv', f'--reuid={user}', '--clear-groups', f'--inh-caps={right}', f'--ambient-caps={right}', *words]


@contextlib.contextmanager
def running(*words: str, **options: Any) -> Iterator[int]:
    """Give the process ID of a program that waits for nothing but the end of the block."""
    with subprocess.Popen(words or ['cat'], stdin=subprocess.PIPE, **options) as process:
        try:
            yield process.pid
        finally:
            process.send_signal(signal.SIGKILL)
