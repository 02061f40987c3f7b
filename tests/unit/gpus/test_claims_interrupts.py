"""Ctrl-C at every point at which the interpreter looks for it: no lock, no claim and no file is left.

The interpreter looks when a function written in Python begins and when one written in C has returned, which is when it
calls what sys.setprofile has set.
"""

from __future__ import annotations

import fcntl
import os
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest

from gpu_tracker.gpus.claims import shared_folder
from gpu_tracker.gpus.claims.folder import ClaimFolder
from support.claims.claiming_machine import Machine, claim, claimed
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import FrameType

    from gpu_tracker.gpus.claims.folder import HeldClaim

# A folder that is being listed is closed when nothing refers to it any more, which the numbers of descriptors show.
pytestmark = pytest.mark.filterwarnings('ignore:unclosed scandir iterator:ResourceWarning')


class CtrlC:
    """Interrupts what is done in the claims' own modules, once, at its ``n``-th opportunity."""

    def __init__(self, n: int) -> None:
        self._left = n
        self.came = False
        self.after_open = False
        """It came when a file had just been opened, or a descriptor copied, and nobody knew the number yet."""

    def run(self, work: Callable[[], object]) -> None:
        """Do what is to be interrupted."""
        sys.setprofile(self._look)
        try:
            work()
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)

    def _look(self, frame: FrameType, event: str, argument: object) -> None:
        if event not in {'call', 'c_return'} or '/gpus/claims/' not in frame.f_code.co_filename:
            return
        if self._left == 0:
            self.came = True
            self.after_open = argument in (os.open, fcntl.fcntl)
            sys.setprofile(None)
            raise KeyboardInterrupt
        self._left -= 1


def is_locked(path: str) -> bool:
    descriptor = shared_folder.open_folder(path)
    if descriptor is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def descriptors() -> int:
    return len(os.listdir('/proc/self/fd'))


class Work(NamedTuple):
    """What is to be interrupted."""

    do: Callable[[], object]
    clean_up: Callable[[], object] = lambda: None
    """Closes what the work needed and may leave open."""


def interrupt_everywhere(tmp_path: Path, prepare: Callable[[ClaimFolder], Work]) -> list[list[str]]:
    """Interrupt work wherever that is possible; return what files were there after each time.

    :param prepare: Is given the folder of claims and returns the work.
    """
    left: list[list[str]] = []
    while True:
        n = len(left)
        place_of_its_own = tmp_path / str(n)
        place_of_its_own.mkdir()
        folder = ClaimFolder(f'{place_of_its_own}/claims', lock_timeout=TIMEOUT, circumstances=Machine().moment)
        before = descriptors()
        work = prepare(folder)
        ctrl_c = CtrlC(n)
        ctrl_c.run(work.do)
        work.clean_up()
        assert descriptors() <= before + ctrl_c.after_open, n
        if not ctrl_c.came:
            return left
        assert not is_locked(folder.path), n
        assert [name for name in os.listdir(place_of_its_own) if name != 'claims'] == [], n
        left.append(os.listdir(folder.path) if os.path.isdir(folder.path) else [])


@pytest.mark.parametrize('is_there', [False, True])
def test_claiming(tmp_path: Path, is_there: bool) -> None:
    def prepare(folder: ClaimFolder) -> Work:
        if is_there:
            claim(folder, 'GPU-0').release()
        made: list[HeldClaim | None] = []

        def work() -> None:
            made.append(folder.claim(lambda _: ['GPU-1'], process_id=7, seconds=None, command='train'))

        return Work(work, lambda: [held.lock.let_go() for held in made if held is not None])

    left = interrupt_everywhere(tmp_path, prepare)
    assert len(left) > 50
    assert left == [[]] * len(left)


def test_reading(tmp_path: Path) -> None:
    def prepare(folder: ClaimFolder) -> Work:
        return Work(folder.claims, claim(folder, 'GPU-0').lock.let_go)

    assert len(interrupt_everywhere(tmp_path, prepare)) > 20


def test_giving_back(tmp_path: Path) -> None:
    def prepare(folder: ClaimFolder) -> Work:
        held = claim(folder, 'GPU-0')

        def work() -> None:
            try:
                held.release()
            finally:
                held.release()

        return Work(work)

    left = interrupt_everywhere(tmp_path, prepare)
    assert len(left) > 5
    assert left == [[]] * len(left)


def test_outliving_the_process(tmp_path: Path) -> None:
    folders = []

    def prepare(folder: ClaimFolder) -> Work:
        folders.append(folder)
        held = claim(folder, 'GPU-0', seconds=60)
        return Work(held.outlive_process, held.lock.let_go)

    left = interrupt_everywhere(tmp_path, prepare)
    assert len(left) > 30
    assert [len(names) for names in left] == [1] * len(left)
    for folder in folders:
        assert claimed(folder) == [('GPU-0',)]
