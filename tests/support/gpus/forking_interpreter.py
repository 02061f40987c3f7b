"""An interpreter that runs commands and programs in forks: to start a new one takes ten times as long."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from support.tracked_program import environment

if TYPE_CHECKING:
    from collections.abc import Mapping

_PROGRAM = """
import json, os, sys, tempfile, traceback
import gpu_tracker.cli.available, gpu_tracker.cli.gpus, gpu_tracker.gpus.nvidia.backend
from gpu_tracker.cli import main

def run(text, words):
    if text is None:
        return main(words)
    sys.argv = ['-c', *words]
    try:
        exec(compile(text, '<program>', 'exec'), {'__name__': '__main__'})
    except BaseException:
        traceback.print_exc()
        return 1
    return 0

def answer(text, words, variables, folder):
    with tempfile.TemporaryFile('w+') as printed, tempfile.TemporaryFile('w+') as errors:
        child = os.fork()
        if child == 0:
            code = 99
            try:
                with open(os.devnull) as nothing:
                    os.dup2(nothing.fileno(), 0)
                os.dup2(printed.fileno(), 1)
                os.dup2(errors.fileno(), 2)
                os.chdir(folder)
                os.environ.clear()
                os.environ.update(variables)
                code = run(text, words)
                sys.stdout.flush()
                sys.stderr.flush()
            except BaseException:
                os.write(2, traceback.format_exc().encode())
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        printed.seek(0)
        errors.seek(0)
        return code, printed.read(), errors.read()

for line in sys.stdin:
    print(json.dumps(answer(*json.loads(line))), flush=True)
"""


class ForkingInterpreter:
    """An interpreter that has imported gpu-tracker, and ends with this process.

    :param variables: Those that have an effect only when a process starts: LD_LIBRARY_PATH and PYTHONPATH.
    """

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, '-c', _PROGRAM],
            env=environment(variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def command(self, words: list[str], variables: Mapping[str, str]) -> tuple[int, str, str]:
        """Run gpu-tracker with these words; return its exit code, what it printed, and that on standard error."""
        return self._ask(None, words, variables)

    def program(self, text: str, words: list[str], variables: Mapping[str, str]) -> tuple[int, str, str]:
        """Run the text of a program with these words, and return what ``command`` does."""
        return self._ask(text, words, variables)

    def _ask(self, text: str | None, words: list[str], variables: Mapping[str, str]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([text, words, dict(variables), os.getcwd()]) + '\n')
        self._process.stdin.flush()
        return tuple(json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """End it."""
        self._process.communicate()


_running: dict[str, ForkingInterpreter] = {}


def forking_interpreter(libraries: str) -> ForkingInterpreter:
    """Return the interpreter for these libraries; it serves until ``end_interpreters``."""
    if libraries not in _running:
        _running[libraries] = ForkingInterpreter({'LD_LIBRARY_PATH': libraries})
    return _running[libraries]


def end_interpreters() -> None:
    """End them all, so that no test finds one among its descendants."""
    while _running:
        _running.popitem()[1].close()
