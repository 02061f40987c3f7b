"""Ctrl-C at every point at which the interpreter looks for it: no lock, no claim and no file is left.

The interpreter looks when a function written in Python begins and when one written in C has returned, which is when it
calls what sys.setprofile has set.
"""

from __future__ import annotations

import fcntl
import os
import sys
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.fleet.claims import place
from gpu_tracker.fleet.claims.folder import ClaimFolder
from simulated_machine import Machine, claim, claimed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import FrameType


class CtrlC:
    """Interrupts what is done in the claims' own modules, once, at its ``n``-th opportunity."""

    def __init__(self, n: int) -> None:
        self._left = n
        self.came = False
        self.after_open = False
        """It came when a file had just been opened and nobody knew its descriptor yet."""

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
        if event not in {'call', 'c_return'} or '/fleet/claims/' not in frame.f_code.co_filename:
            return
        if self._left == 0:
            self.came = True
            self.after_open = argument is os.open
            sys.setprofile(None)
            raise KeyboardInterrupt
        self._left -= 1


def is_locked(path: str) -> bool:
    descriptor = place.open_folder(path)
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


def interrupt_everywhere(tmp_path: Path, prepare: Callable[[ClaimFolder], Callable[[], object]]) -> list[list[str]]:
    """Interrupt work wherever that is possible; return what files were there after each time.

    :param prepare: Is given the folder of claims and returns the work.
    """
    left = []
    before = descriptors()
    while True:
        n = len(left)
        folder = ClaimFolder(f'{tmp_path}/{n}', lock_timeout=0.2, moment=Machine().moment)
        work = prepare(folder)
        ctrl_c = CtrlC(n)
        ctrl_c.run(work)
        if not ctrl_c.came:
            return left
        assert not is_locked(folder.path), n
        assert descriptors() <= before + ctrl_c.after_open, n
        before = descriptors()
        assert [name for name in os.listdir(tmp_path) if not name.isdecimal()] == [], n
        left.append(os.listdir(folder.path) if os.path.isdir(folder.path) else [])


@pytest.mark.parametrize('is_there', [False, True])
def test_claiming(tmp_path: Path, is_there: bool) -> None:
    def prepare(folder: ClaimFolder) -> Callable[[], object]:
        if is_there:
            claim(folder, 'GPU-0').release()
        return lambda: folder.claim(lambda _: ['GPU-1'], process_id=7, seconds=None, command='train')

    left = interrupt_everywhere(tmp_path, prepare)
    assert len(left) > 50
    assert left == [[]] * len(left)


def test_reading(tmp_path: Path) -> None:
    def prepare(folder: ClaimFolder) -> Callable[[], object]:
        claim(folder, 'GPU-0')
        return folder.claims

    assert len(interrupt_everywhere(tmp_path, prepare)) > 20


def test_giving_back(tmp_path: Path) -> None:
    def prepare(folder: ClaimFolder) -> Callable[[], object]:
        held = claim(folder, 'GPU-0')

        def work() -> None:
            try:
                held.release()
            finally:
                held.release()

        return work

    left = interrupt_everywhere(tmp_path, prepare)
    assert len(left) > 5
    assert left == [[]] * len(left)


def test_outliving_the_process(tmp_path: Path) -> None:
    folders = []

    def prepare(folder: ClaimFolder) -> Callable[[], object]:
        folders.append(folder)
        return claim(folder, 'GPU-0', seconds=60).outlive_process

    left = interrupt_everywhere(tmp_path, prepare)
    assert len(left) > 30
    assert [len(names) for names in left] == [1] * len(left)
    for folder in folders:
        assert claimed(folder) == [('GPU-0',)]
