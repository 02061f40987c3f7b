from __future__ import annotations

import errno
import resource
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.processes.task_clocks import TaskClocks

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROOT = 50


class Proc:
    """Threads and children of processes, as /proc tells them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def put(self, pid: int, *, threads: tuple[int, ...] = (), children: tuple[int, ...] = ()) -> None:
        for thread in (pid, *threads):
            folder = self.path / str(pid) / 'task' / str(thread)
            folder.mkdir(parents=True, exist_ok=True)
            text = ' '.join(map(str, children)) if thread == pid else ''
            (folder / 'children').write_text(text)


class Kernel:
    """Gives every clock a number, and tells ten seconds for each."""

    def __init__(self, refused: dict[int, int] | None = None) -> None:
        self.refused = refused or {}
        self.open_clocks: dict[int, tuple[int, bool]] = {}
        self.opened = 0
        self.before_opening: Callable[[int], object] = lambda thread: None

    def open(self, thread: int, *, threads_only: bool) -> int:
        self.before_opening(thread)
        if thread in self.refused:
            raise OSError(self.refused[thread], 'refused')
        self.opened += 1
        self.open_clocks[self.opened] = (thread, threads_only)
        return self.opened

    def read(self, handle: int) -> float:
        assert handle in self.open_clocks
        return 10.0

    def close(self, handle: int) -> None:
        del self.open_clocks[handle]

    @property
    def covered(self) -> list[int]:
        return sorted(thread for thread, threads_only in self.open_clocks.values() if not threads_only)

    @property
    def of_threads_only(self) -> list[int]:
        return sorted(thread for thread, threads_only in self.open_clocks.values() if threads_only)


class Samplers:
    def seconds(self) -> float:
        return 3.0


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def gone(pid: int) -> float:
    raise ProcessLookupError(pid)


def clocks(kernel: Kernel, proc: Proc, others: tuple[int, ...] = (), strangers: tuple[int, ...] = (), **options):
    settings = {'root_may_vanish': True, 'samplers': Samplers(), 'clock': gone}
    return TaskClocks(kernel, ROOT, others, strangers, proc=str(proc.path), **(settings | options))


def test_every_thread_of_the_root_and_of_its_descendants_gets_one(proc: Proc) -> None:
    proc.put(ROOT, threads=(51, 52))
    proc.put(60, threads=(61,))
    kernel = Kernel()
    opened = clocks(kernel, proc, (60,))
    assert kernel.covered == [50, 51, 52, 60, 61]
    assert kernel.of_threads_only == [50, 51, 52]
    assert opened.count == 8
    assert opened.is_complete
    assert (opened.total(), opened.of_root()) == (5 * 10.0 - 3.0, 3 * 10.0)


def test_a_root_that_stays_is_read_from_its_own_cpu_clock_and_keeps_the_last_value(proc: Proc) -> None:
    proc.put(ROOT)
    kernel = Kernel()
    told = [5.0]
    opened = clocks(kernel, proc, root_may_vanish=False, clock=lambda _: told.pop())
    assert kernel.of_threads_only == []
    assert opened.of_root() == 5.0
    opened._clock = gone
    assert opened.of_root() == 5.0


def test_children_that_are_not_known_yet_get_one_and_strangers_do_not(proc: Proc) -> None:
    proc.put(ROOT, children=(60, 70, 99))
    proc.put(60, children=(65,))
    proc.put(65)
    proc.put(70)
    proc.put(99)
    kernel = Kernel()
    clocks(kernel, proc, (60,), (99,))
    assert kernel.covered == [50, 60, 65, 70]


def test_a_thread_that_is_started_meanwhile_is_never_counted_twice(proc: Proc) -> None:
    # Whether it was started before its starter got a clock, or has inherited that, cannot be told.
    proc.put(ROOT)
    kernel = Kernel()
    kernel.before_opening = lambda thread: proc.put(ROOT, threads=(51,))
    clocks(kernel, proc)
    assert kernel.covered == [50, 51]
    assert kernel.opened == 2 + 4  # the first two are closed again


def test_a_child_that_is_started_meanwhile_is_never_counted_twice(proc: Proc) -> None:
    proc.put(ROOT)
    proc.put(60)
    kernel = Kernel()
    kernel.before_opening = lambda thread: proc.put(ROOT, children=(60,))
    clocks(kernel, proc)
    assert kernel.covered == [50, 60]
    assert kernel.opened == 2 + 2 + 1


def test_of_a_program_that_starts_threads_all_the_time_the_newest_are_left_out(proc: Proc) -> None:
    proc.put(ROOT)
    kernel = Kernel()
    kernel.before_opening = lambda thread: proc.put(ROOT, threads=(1000 + kernel.opened,))
    clocks(kernel, proc, root_may_vanish=False)
    assert len(kernel.covered) == len(set(kernel.covered)) > 3


def test_threads_that_have_ended_get_none(proc: Proc) -> None:
    proc.put(ROOT, threads=(51,))
    kernel = Kernel({51: errno.ESRCH})
    clocks(kernel, proc)
    assert kernel.covered == [50]


def test_without_the_right_to_a_descendant_the_others_get_one(proc: Proc) -> None:
    proc.put(ROOT)
    proc.put(60)
    proc.put(70)
    kernel = Kernel({60: errno.EACCES})
    opened = clocks(kernel, proc, (60, 70))
    assert kernel.covered == [50, 70]
    assert not opened.is_complete


@pytest.mark.parametrize('number', [errno.EACCES, errno.EPERM, errno.ENOSYS, errno.EINVAL, errno.EMFILE])
def test_where_the_root_is_refused_nothing_is_left_open(proc: Proc, number: int) -> None:
    proc.put(ROOT, threads=(51,))
    kernel = Kernel({51: number})
    with pytest.raises(OSError, match='refused'):
        clocks(kernel, proc)
    assert kernel.open_clocks == {}


def test_more_than_a_quarter_of_the_descriptors_are_never_taken(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, 'getrlimit', lambda _: (40, 40))
    proc.put(ROOT, threads=tuple(range(51, 56)))
    kernel = Kernel()
    with pytest.raises(OSError, match='Too many open files'):
        clocks(kernel, proc)
    assert kernel.open_clocks == {}
    assert clocks(kernel, proc, root_may_vanish=False).count == 6
