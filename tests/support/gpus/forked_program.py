"""An interpreter that runs each command line of gpu-tracker in a fork of itself, without a start of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

_SERVER = """
import json, os, sys, tempfile
import gpu_tracker.cli.available, gpu_tracker.cli.gpus, gpu_tracker.gpus.nvidia.backend
from gpu_tracker.cli import main

def told(words, variables):
    with tempfile.TemporaryFile('w+') as printed, tempfile.TemporaryFile('w+') as errors:
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(printed.fileno(), 1)
            os.dup2(errors.fileno(), 2)
            os.environ.clear()
            os.environ.update(variables)
            os._exit(main(words))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        printed.seek(0)
        errors.seek(0)
        return code, printed.read(), errors.read()

for line in sys.stdin:
    print(json.dumps(told(*json.loads(line))), flush=True)
"""


class ForkedProgram:
    """Starts the interpreter when it is first needed, and ends it with the block.

    :param variables: Those that the loader of libraries reads when the interpreter starts.
    """

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.communicate()

    def told(self, words: list[str], variables: Mapping[str, str]) -> tuple[int, str, str]:
        """Return the exit code of gpu-tracker, what it printed, and that on standard error."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, '-c', _SERVER],
                env=dict(self._variables),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([words, dict(variables)]) + '\n')
        self._process.stdin.flush()
        code, printed, errors = json.loads(self._process.stdout.readline())
        return code, printed, errors
