"""Memory that comes and ends faster than it is sampled.

No sample can be asked for what happened between two others. A figure that may be below the truth is marked, and none is
ever above it.
"""

from __future__ import annotations

import os

import pytest

from support.truth import need_root, tracked
from support.truth.figures import wrong_ram

TRACKER = "gput.Tracker(sleep_time=float(sys.argv[1]), ram_unit='bytes', time_unit='seconds')"
FULL = os.environ.get('ATTACKS') == 'full'
"""Four processes have 600 MB each, as was reported."""
intervals = pytest.mark.parametrize('interval', [1, 0.1])


@pytest.fixture(autouse=True)
def _root() -> None:
    need_root()


@intervals
@pytest.mark.parametrize('waits', ['main waits', 'nobody waits'])
def test_a_child_that_becomes_a_program_that_grows_to_its_end(waits: str, interval: float) -> None:
    run = tracked(
        f"""
        size = 400 * MEGABYTE
        hear, tell = os.pipe()
        hear_begin, tell_begin = pipe()
        if sys.argv[2] == 'nobody waits':
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        def work():
            hear_begin()
            os.dup2(tell, 1)
            os.execv(sys.executable, [sys.executable, '-m', 'support.truth.growing', str(size), '0.8'])
        with {TRACKER} as tracker:
            pid = child(work)
            own = status(os.getpid(), 'RssAnon')
            before = totals(tracker)['samples']
            until(tracker, lambda seen: seen['samples'] > before + 1)
            tell_begin()
            mark = int(os.read(hear, 100))
            if sys.argv[2] == 'main waits':
                os.waitpid(pid, 0)
            else:
                eventually(lambda: has_ended(pid))
        report(tracker, mark=mark, own=own, most=status(os.getpid(), 'VmHWM'))
        """,
        interval,
        waits,
    )
    mark = run['mark']
    assert 400_000_000 < mark < 420_000_000
    # What main had beside it: its own memory at least, and at most all that it ever had.
    lowest = {'main': run['own'], 'descendants': mark, 'combined': mark + run['own'] // 2}
    highest = {'main': run['most'], 'descendants': mark, 'combined': mark + run['most']}
    assert wrong_ram(run, lowest, highest) == []


@intervals
@pytest.mark.parametrize('then', ['ends', 'lives on'])
def test_a_child_that_copies_inherited_memory_little_by_little(then: str, interval: float) -> None:
    run = tracked(
        f"""
        size = 400 * MEGABYTE // mmap.PAGESIZE * mmap.PAGESIZE
        block = private(size)
        write(block)
        wait, let_go = gate()
        hear, tell = pipe()
        hear_begin, tell_begin = pipe()
        def work():
            hear_begin()
            begun, written = time.monotonic(), 0
            while written < size:
                due = min(size, int(size * (time.monotonic() - begun) / 1.8) // mmap.PAGESIZE * mmap.PAGESIZE)
                write(block, written, due - written)
                written = due
                time.sleep(0.005)
            if sys.argv[2] == 'lives on':
                tell()
                wait()
        with {TRACKER} as tracker:
            before = totals(tracker)['samples']
            until(tracker, lambda seen: seen['samples'] > before)
            pid = child(work)  # at an interval of 1 s it ends just before the second sample from now
            truth = frames([pid])
            tell_begin()
            if sys.argv[2] == 'lives on':
                hear()
                truth = frames([pid])
                settle(tracker, {interval})
                let_go()
            else:
                truth['combined'] += size
            os.waitpid(pid, 0)
        report(tracker, truth=truth)
        """,
        interval,
        then,
    )
    truth = run['truth']
    assert 800_000_000 < truth['combined'] < 830_000_000
    assert wrong_ram(run, truth) == []


@intervals
def test_a_storm_of_copies_counts_or_is_marked(interval: float) -> None:
    run = tracked(
        f"""
        size = 100 * MEGABYTE // mmap.PAGESIZE * mmap.PAGESIZE  # takes about 30 ms
        block = private(2 * size)
        write(block)
        hear, tell = pipe()
        with {TRACKER} as tracker:
            pid = child(lambda: (hear(), write(block, 0, size)))
            truth = frames([pid])
            tell()
            os.waitpid(pid, 0)
        truth['combined'] += size
        report(tracker, truth=truth)
        """,
        interval,
    )
    assert wrong_ram(run, run['truth']) == []


@intervals
@pytest.mark.parametrize('what', ['copy', 'allocate'])
def test_four_at_once_that_end_when_all_have_their_memory_count_or_are_marked(what: str, interval: float) -> None:
    run = tracked(
        f"""
        size = int(sys.argv[3]) * MEGABYTE // mmap.PAGESIZE * mmap.PAGESIZE
        block = private(size)
        if sys.argv[2] == 'copy':
            write(block)
        wait, let_go = gate()
        hear, tell = pipe()
        hear_begin, tell_begin = pipe()
        def work():
            hear_begin()
            write(block)
            tell()
            wait()
        with {TRACKER} as tracker:
            children = [child(work) for _ in range(4)]
            truth = frames(children)
            tell_begin(4)
            for _ in children:
                hear()
            let_go()
            for pid in children:
                os.waitpid(pid, 0)
        truth['combined'] += 4 * size
        truth['descendants'] += (3 if sys.argv[2] == 'copy' else 4) * size
        report(tracker, truth=truth)
        """,
        interval,
        what,
        600 if FULL else 300,
    )
    assert wrong_ram(run, run['truth']) == []
