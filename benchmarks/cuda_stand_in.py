"""The stand-in for CUDA of the tests, for the benchmarks: a library whose calls answer at once, and a program."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.environments import CHECKOUT
from benchmarks.running import fresh_folder
from benchmarks.session import FailedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True)
class Prologue:
    """How the functions of a library begin, on which the cost of a uprobe depends.

    :ivar branch_tracking: Whether with ``endbr64``.
    """

    name: str
    branch_tracking: bool


PUSH = Prologue('push', branch_tracking=False)
ENDBR64 = Prologue('endbr64', branch_tracking=True)


@dataclass(frozen=True)
class StandIn:
    """What was built: the program that performs scripts, and the runtime's library, which it has loaded."""

    program: Path
    library: Path


@contextlib.contextmanager
def stand_in(prologue: Prologue = PUSH) -> Iterator[StandIn]:
    """Build a stand-in, which goes afterwards.

    :raises FailedError: It cannot be compiled.
    """
    module = load()
    if shutil.which('cc') is None:
        raise FailedError('the stand-in for CUDA needs cc, a C compiler')
    with fresh_folder() as folder:
        folder.chmod(0o755)
        made = module.StandIn(folder, branch_tracking=prologue.branch_tracking)
        try:
            yield StandIn(made.program(), made.runtime)
        except subprocess.CalledProcessError as error:
            raise FailedError('the stand-in for CUDA cannot be compiled') from error


def prologues() -> tuple[Prologue, ...]:
    """Return those that this machine's compilers make."""
    return (PUSH, ENDBR64) if os.uname().machine == 'x86_64' else (PUSH,)


def load() -> Any:  # noqa: ANN401 - a module of the tests
    """Return the module ``support.cuda_stand_in`` of the tests.

    :raises FailedError: pytest, which it imports, is not installed.
    """
    sys.path.insert(0, str(CHECKOUT / 'tests'))
    try:
        from support import cuda_stand_in  # type: ignore[import-not-found]  # noqa: PLC0415 - it is not on the path before
    except ImportError as error:
        raise FailedError(str(error)) from error
    finally:
        sys.path.pop(0)
    return cuda_stand_in
