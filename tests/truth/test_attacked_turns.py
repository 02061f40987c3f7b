"""Memory that moves between processes faster than it is sampled, so that all have had it and never at the same time."""

from __future__ import annotations

import pytest

from support.truth import need_root, tracked
from support.truth.figures import wrong_ram

TRACKER = "gput.Tracker(sleep_time=float(sys.argv[1]), ram_unit='bytes', time_unit='seconds')"
intervals = pytest.mark.parametrize('interval', [1, 0.1])


@pytest.fixture(autouse=True)
def _root() -> None:
    need_root()


@intervals
@pytest.mark.parametrize('giver', ['main', 'a child'])
def test_memory_that_one_frees_while_another_allocates_it_counts_once(giver: str, interval: float) -> None:
    run = tracked(
        f"""
        step, steps = 4 * MEGABYTE // mmap.PAGESIZE * mmap.PAGESIZE, 100
        wait, let_go = gate()
        hear, tell = pipe()
        hear_given, tell_given = pipe()
        hear_taken, tell_taken = pipe()
        hear_begin, tell_begin = pipe()
        def give():
            block = private(step * steps)
            write(block)
            for at in range(0, len(block), step):
                drop(block, at, step)
                tell_given()
                hear_taken()
        def take():
            block = private(step * steps)
            for at in range(0, len(block), step):
                hear_given()
                write(block, at, step)
                tell_taken()
            tell()
            wait()
        with {TRACKER} as tracker:
            children = [child(take)]
            if sys.argv[2] == 'a child':
                children.append(child(lambda: (hear_begin(), give(), wait())))
            settle(tracker, {interval})
            if sys.argv[2] == 'a child':
                tell_begin()
            else:
                give()
            hear()
            truth = frames(children)
            settle(tracker, {interval})
            let_go()
            for pid in children:
                os.waitpid(pid, 0)
        truth['main'] = status(os.getpid(), 'VmHWM')
        report(tracker, truth=truth)
        """,
        interval,
        giver,
    )
    assert 400_000_000 < run['truth']['combined'] < 440_000_000
    step = {group: size + 4_000_000 for group, size in run['truth'].items()}  # both have it for a moment
    assert wrong_ram(run, run['truth'], step, is_seen=True) == []


@intervals
def test_workers_that_take_turns_by_a_token_have_one_workers_memory(interval: float) -> None:
    run = tracked(
        f"""
        size = 300 * MEGABYTE // mmap.PAGESIZE * mmap.PAGESIZE
        ring = [pipe() for _ in range(4)]
        hear_end, tell_end = pipe()
        enough = shared('anonymous', mmap.PAGESIZE, '')
        def work(number):
            while True:
                ring[number][0]()
                if enough[0]:
                    break
                block = private(size)
                write(block)
                block.close()
                ring[(number + 1) % 4][1]()
            ring[(number + 1) % 4][1]()
        with {TRACKER} as tracker:
            workers = [child(lambda n=n: work(n)) for n in range(4)]
            idle = frames(workers)
            ring[0][1]()
            settle(tracker, {interval})
            enough[0] = 1
            for pid in workers:
                os.waitpid(pid, 0)
        report(tracker, truth={{
            'main': idle['main'], 'descendants': idle['descendants'] + size, 'combined': idle['combined'] + size,
        }})
        """,
        interval,
    )
    assert wrong_ram(run, run['truth']) == []


@intervals
def test_two_that_grow_while_the_other_shrinks_have_one_ones_memory(interval: float) -> None:
    run = tracked(
        f"""
        step, steps = 20 * MEGABYTE // mmap.PAGESIZE * mmap.PAGESIZE, 15
        turns = [pipe(), pipe()]
        hear, tell = pipe()
        enough = shared('anonymous', mmap.PAGESIZE, '')
        def work(number):
            block = private(step * steps)
            if number == 0:
                write(block)
            tell()
            turns[number][0]()
            grows = number == 1
            while not enough[0]:
                for at in range(0, len(block), step):
                    (write if grows else drop)(block, at, step)
                    turns[1 - number][1]()
                    turns[number][0]()
                grows = not grows
            turns[1 - number][1](1000)
        with {TRACKER} as tracker:
            workers = [child(lambda n=n: work(n)) for n in range(2)]
            hear()
            hear()
            truth = frames(workers)
            turns[0][1]()
            settle(tracker, {interval})
            enough[0] = 1
            for pid in workers:
                os.waitpid(pid, 0)
        report(tracker, truth=truth)
        """,
        interval,
    )
    beside = {group: size + 20_000_000 for group, size in run['truth'].items()}
    assert wrong_ram(run, run['truth'], beside) == []  # one has grown by a step before the other gives one back
