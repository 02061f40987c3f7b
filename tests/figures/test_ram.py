"""Resident memory against the kernel's own figures and against the physical pages that processes have mapped."""

from __future__ import annotations

import pytest

from support.truth import MEGABYTE, need_root, tracked

TRACKER = "gput.Tracker(sleep_time=float(sys.argv[1]), ram_unit='bytes', time_unit='seconds')"


def test_arrays_made_before_the_start_are_private_memory_of_main() -> None:
    run = tracked(
        f"""
        arrays = [fill(80 * MEGABYTE) for _ in range(5)]
        with {TRACKER} as tracker:
            truth = status(os.getpid(), 'VmRSS')
        report(tracker, truth=truth)
        """,
        1,
    )
    main = run['ram']['main']
    assert run['truth'] > 400 * MEGABYTE
    assert main['total_rss'] == pytest.approx(run['truth'], rel=0.01)
    assert main['private_rss'] > 400 * MEGABYTE
    assert main['private_rss'] + main['shared_rss'] == pytest.approx(main['total_rss'], rel=0.01)
    assert run['ram']['combined']['total_rss'] == pytest.approx(run['truth'], rel=0.01)
    assert run['ram']['descendants'] == {'total_rss': 0, 'private_rss': 0, 'shared_rss': 0}


def test_what_forked_children_share_counts_once_until_one_writes_to_it() -> None:
    need_root()
    run = tracked(
        f"""
        arrays = [fill(80 * MEGABYTE) for _ in range(5)]
        wait, let_go = gate()
        read, write = os.pipe()
        wait_to_write, let_write = gate()
        def rewrite():
            wait_to_write()
            for array in arrays[:3]:
                array[::mmap.PAGESIZE] = bytes(len(array[::mmap.PAGESIZE]))
            os.write(write, b'.')
            wait()
        children = [child(wait), child(wait), child(rewrite)]
        pids = [os.getpid(), *children]
        with {TRACKER} as tracker:
            shared = union_of_frames(pids)
            descendants_shared = union_of_frames(children)
            wait_for_split(tracker)
            before = totals(tracker)['ram']
            let_write()
            os.read(read, 1)
            written = union_of_frames(pids)
            descendants_written = union_of_frames(children)
            until(tracker, lambda seen: seen['ram']['combined'][0] > 0.98 * written)
        let_go()
        report(tracker, before=before, truth=[shared, descendants_shared, written, descendants_written])
        """,
        0.1,
    )
    shared, descendants_shared, written, descendants_written = run['truth']
    assert written > shared + 220 * MEGABYTE
    assert run['before']['combined'][0] == pytest.approx(shared, rel=0.02)
    assert run['before']['descendants'][0] == pytest.approx(descendants_shared, rel=0.02)
    assert run['ram']['combined']['total_rss'] == pytest.approx(written, rel=0.02)
    assert run['ram']['descendants']['total_rss'] == pytest.approx(descendants_written, rel=0.02)


def test_three_children_that_are_only_there_for_less_than_an_interval() -> None:
    need_root()
    run = tracked(
        f"""
        arrays = [fill(80 * MEGABYTE) for _ in range(5)]
        wait, let_go = gate()
        children = [child(wait) for _ in range(3)]
        with {TRACKER} as tracker:
            truth = union_of_frames([os.getpid(), *children])
        let_go()
        report(tracker, truth=truth)
        """,
        60,
    )
    assert run['ram']['combined']['total_rss'] == pytest.approx(run['truth'], rel=0.02)
    assert run['ram']['main']['private_rss'] < 100 * MEGABYTE


def test_memory_becomes_private_when_the_last_one_that_shared_it_ends() -> None:
    run = tracked(
        f"""
        array = fill(300 * MEGABYTE)
        wait, let_go = gate()
        pid = child(wait)
        with {TRACKER} as tracker:
            wait_for_split(tracker)
            before = totals(tracker)['ram']['main']
            let_go()
            os.waitpid(pid, 0)
            until(tracker, lambda seen: seen['ram']['main'][1] > 300 * MEGABYTE)
        report(tracker, before=before)
        """,
        0.1,
    )
    assert run['before'][0] > 300 * MEGABYTE
    assert run['before'][1] < 30 * MEGABYTE
    assert run['ram']['main']['private_rss'] > 300 * MEGABYTE


@pytest.mark.parametrize('kind', ['memfd', 'file', 'shared_memory'])
def test_a_mapping_that_unrelated_processes_share_counts_once(kind: str, tmp_path: object) -> None:
    need_root()
    run = tracked(
        f"""
        from multiprocessing import resource_tracker, shared_memory
        kind, path = sys.argv[2:]
        size = 100 * mmap.PAGESIZE * 250
        if kind == 'shared_memory':
            block = shared_memory.SharedMemory(create=True, size=size)
            path = '/dev/shm/' + block.name
        else:
            if kind == 'memfd':
                path = f'/proc/{{os.getpid()}}/fd/{{os.memfd_create("block")}}'
            with open(path, 'wb') as file:
                file.truncate(size)
        with open(path, 'r+b') as file:
            memory = mmap.mmap(file.fileno(), size)
        memory[::mmap.PAGESIZE] = bytes(size // mmap.PAGESIZE)
        words = [sys.executable, '-m', 'support.truth.mapper', path]
        wait, let_go = gate()
        forked = child(wait)
        unrelated = [subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
        for process in unrelated:
            process.stdout.readline()
        pids = [os.getpid(), forked, *(process.pid for process in unrelated)]
        if kind == 'shared_memory':
            pids.append(resource_tracker._resource_tracker._pid)
        with {TRACKER} as tracker:
            truth = union_of_frames(pids)
            wait_for_split(tracker)
        let_go()
        for process in unrelated:
            process.communicate()
        if kind == 'shared_memory':
            block.unlink()
        report(tracker, size=size, truth=truth)
        """,
        0.1,
        kind,
        tmp_path / 'block',
    )
    assert run['size'] < run['ram']['combined']['total_rss'] < 1.6 * run['size']
    assert run['ram']['combined']['total_rss'] == pytest.approx(run['truth'], rel=0.02)
    assert run['size'] < run['ram']['descendants']['total_rss'] < 1.6 * run['size']


def test_a_process_that_has_mapped_a_file_twice_has_it_twice_as_for_the_kernel(tmp_path: object) -> None:
    run = tracked(
        f"""
        size = 100 * mmap.PAGESIZE * 250
        handle = os.memfd_create('block')
        os.truncate(handle, size)
        blocks = [mmap.mmap(handle, size) for _ in range(2)]
        for block in blocks:
            write(block)
        wait, let_go = gate()
        pid = child(lambda: (blocks.clear(), wait()))
        with {TRACKER} as tracker:
            truth = status(os.getpid(), 'VmRSS')
            wait_for_split(tracker)
        let_go()
        report(tracker, size=size, truth=truth)
        """,
        0.1,
    )
    assert run['ram']['main']['total_rss'] == pytest.approx(run['truth'], rel=0.02)
    assert 2 * run['size'] < run['ram']['combined']['total_rss'] < 2.3 * run['size']  # and no third time


def test_disjoint_parts_of_one_file_add_up(tmp_path: object) -> None:
    need_root()
    run = tracked(
        f"""
        part = mmap.ALLOCATIONGRANULARITY * 256 * 40
        with open(sys.argv[2], 'wb') as file:
            file.truncate(4 * part)
        wait, let_go = gate()
        read, write = os.pipe()
        def work(number):
            with open(sys.argv[2], 'r+b') as file:
                # Two each have the same part: without the other, a page would be private memory.
                memory = mmap.mmap(file.fileno(), part, offset=number // 2 * part)
            memory[::mmap.PAGESIZE] = bytes(part // mmap.PAGESIZE)
            os.write(write, b'.')
            wait()
        with {TRACKER} as tracker:
            workers = [child(lambda number=number: work(number)) for number in range(8)]
            for _ in workers:
                os.read(read, 1)
            truth = union_of_frames([os.getpid(), *workers])
            wait_for_split(tracker)
        let_go()
        report(tracker, size=4 * part, truth=truth)
        """,
        0.1,
        tmp_path / 'block',
    )
    assert run['ram']['descendants']['total_rss'] > run['size']
    assert run['ram']['combined']['total_rss'] == pytest.approx(run['truth'], rel=0.02)
