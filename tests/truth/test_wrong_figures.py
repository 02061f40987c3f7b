"""Figures that are wrong today: these tests go back to tests/figures when the measuring is rebuilt."""

from __future__ import annotations

import errno

import pytest

from support.truth import need_root, need_task_clocks, tracked

TRACKER = "gput.Tracker(sleep_time=float(sys.argv[1]), ram_unit='bytes', time_unit='seconds')"
END = 0.02
"""Seconds that the end of a process may take, or two ticks."""


def test_shared_memory_that_a_child_has_for_a_moment_counts_once() -> None:
    need_root()
    run = tracked(
        f"""
        handle = os.memfd_create('block')
        os.truncate(handle, 300 * MEGABYTE)
        block = mmap.mmap(handle, 0)
        block[::mmap.PAGESIZE] = bytes(len(range(0, len(block), mmap.PAGESIZE)))
        wait, let_go = gate()
        read, write = os.pipe()
        begin, let_begin = gate()
        def work():
            block.close()
            begin()
            with mmap.mmap(handle, 0) as again:
                sum(again[::mmap.PAGESIZE])
            os.write(write, b'.')
            wait()
        pids = [child(work) for _ in range(3)]
        with {TRACKER} as tracker:
            let_begin()
            for _ in pids:
                os.read(read, 1)
            truth = union_of_frames([os.getpid(), *pids])
        let_go()
        report(tracker, truth=truth)
        """,
        1,
    )
    assert run['ram']['combined']['total_rss'] == pytest.approx(run['truth'], rel=0.02)


@pytest.mark.parametrize('error', [errno.EPERM])
def test_where_the_kernel_refuses_it_the_figure_is_a_lower_bound(error: int, monkeypatch: pytest.MonkeyPatch) -> None:
    need_task_clocks()
    monkeypatch.setenv('GPU_TRACKER_TASKSTATS', 'off')
    run = tracked(
        f"""
        from support.truth.foreign import *
        forbid_task_clocks({error})
        wait, end = gate()
        foreign = Foreign(lambda: (burn(0.3), wait(), burn(0.5)))
        with gput.Tracker(process_id=foreign.pid, sleep_time=0.05) as tracker:
            foreign.let_go()
            until(tracker, lambda seen: seen['cpu']['main'][0] >= 0.3)
            end()
            truth = foreign.truth()
        print(json.dumps({{**seconds(tracker), 'truth': truth}}))
        """
    )
    assert 0.3 <= run['main'] <= run['truth']
    # Its parent may have been late, so that its end was seen: then nothing is missing.
    assert run['is_lower_bound'] or run['main'] == pytest.approx(run['truth'], abs=END)
