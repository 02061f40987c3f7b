"""Memory that is there for a moment between two samples."""

from __future__ import annotations

import os

import pytest

from support.truth import MEGABYTE, need_root, tracked

TRACKER = "gput.Tracker(sleep_time=float(sys.argv[1]), ram_unit='bytes', time_unit='seconds')"
REPETITIONS = range(int(os.environ.get('SPIKES', '1')))


@pytest.mark.parametrize('_', REPETITIONS)
def test_a_spike_of_main_between_two_samples_is_seen(_: int) -> None:
    run = tracked(
        f"""
        with {TRACKER} as tracker:
            spike()
            after = status(os.getpid(), 'VmRSS')
        report(tracker, truth=status(os.getpid(), 'VmHWM'), after=after)
        """,
        1,
    )
    assert run['after'] < 100 * MEGABYTE
    assert run['truth'] > 500 * MEGABYTE
    for group in ('main', 'combined'):
        assert run['ram'][group]['total_rss'] == pytest.approx(run['truth'], rel=0.01)
    assert run['ram']['descendants']['total_rss'] == 0


@pytest.mark.parametrize('_', REPETITIONS)
def test_a_spike_of_a_descendant_that_lives_on_is_seen(_: int) -> None:
    run = tracked(
        f"""
        wait, let_go = gate()
        read, write = os.pipe()
        def work():
            spike()
            os.write(write, b'.')
            wait()
        with {TRACKER} as tracker:
            pid = child(work)
            os.read(read, 1)
            truth = status(pid, 'VmHWM')
            after = status(pid, 'VmRSS')
        let_go()
        report(tracker, truth=truth, after=after)
        """,
        1,
    )
    assert run['after'] < 100 * MEGABYTE
    assert run['truth'] > 500 * MEGABYTE
    assert run['ram']['descendants']['total_rss'] == pytest.approx(run['truth'], rel=0.01)
    assert run['truth'] <= run['ram']['combined']['total_rss'] < run['truth'] + 30 * MEGABYTE
    assert run['ram']['main']['total_rss'] < 100 * MEGABYTE


def test_memory_that_comes_and_goes_while_it_is_read_never_adds_up_to_more_nor_less_than_there_was() -> None:
    run = tracked(
        f"""
        wait, let_go = gate()
        read, write = os.pipe()
        def work():
            for _ in range(6):
                block = mmap.mmap(-1, 200 * MEGABYTE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
                block[::mmap.PAGESIZE] = bytes(len(range(0, len(block), mmap.PAGESIZE)))
                for start in range(0, len(block), 256 * mmap.PAGESIZE):
                    block.madvise(mmap.MADV_DONTNEED, start, min(256 * mmap.PAGESIZE, len(block) - start))
                block.close()
            os.write(write, b'.')
            wait()
        with {TRACKER} as tracker:
            pid = child(work)
            os.read(read, 1)
            truth = status(pid, 'VmHWM')
        let_go()
        report(tracker, truth=truth, main=status(os.getpid(), 'VmHWM'))
        """,
        0.01,
    )
    ram = run['ram']
    assert ram['descendants']['total_rss'] == pytest.approx(run['truth'], rel=0.02)
    assert ram['descendants']['total_rss'] <= ram['combined']['total_rss'] <= 1.02 * (run['truth'] + run['main'])


def test_a_spike_before_the_start_does_not_count() -> None:
    run = tracked(f'spike()\nwith {TRACKER} as tracker:\n    fill(1000)\nreport(tracker)', 1)
    assert 0 < run['ram']['combined']['total_rss'] < 100 * MEGABYTE


def test_memory_that_came_by_a_fork_and_was_dropped_at_once_counts_once() -> None:
    # The high-water mark of such a child is that of a copy of its parent, although it never had a page of its own.
    need_root()
    run = tracked(
        f"""
        block = mmap.mmap(-1, 300 * MEGABYTE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        block[::mmap.PAGESIZE] = bytes(len(range(0, len(block), mmap.PAGESIZE)))
        wait, let_go = gate()
        read, write = os.pipe()
        def work():
            block.close()
            os.write(write, b'.')
            wait()
        with {TRACKER} as tracker:
            pids = [child(work) for _ in range(3)]
            for _ in pids:
                os.read(read, 1)
            truth = union_of_frames([os.getpid(), *pids])
        let_go()
        report(tracker, truth=truth, mark=status(os.getpid(), 'VmHWM'))
        """,
        1,
    )
    assert run['ram']['combined']['total_rss'] == pytest.approx(run['truth'], rel=0.02)


def test_programs_that_a_large_parent_starts_never_count_with_its_memory() -> None:
    # Between vfork(2) and execve(2) a new process runs in the memory of its parent.
    run = tracked(
        f"""
        block = fill(300 * MEGABYTE)
        def allocate():
            while not done:
                fill(50_000)
        done = False
        threads = [threading.Thread(target=allocate) for _ in range(2)]
        for thread in threads:
            thread.start()
        with {TRACKER} as tracker:
            before = totals(tracker)['samples']
            while totals(tracker)['samples'] < before + 100:
                subprocess.run(['true'])
            done = True
        for thread in threads:
            thread.join()
        report(tracker)
        """,
        0.002,
    )
    assert run['ram']['main']['total_rss'] > 300 * MEGABYTE
    assert run['ram']['descendants']['total_rss'] < 20 * MEGABYTE
    assert run['ram']['combined']['total_rss'] < 340 * MEGABYTE
