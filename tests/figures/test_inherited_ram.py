"""Memory that processes inherit, move, copy and free: against the physical pages that they have mapped."""

from __future__ import annotations

import sys

import pytest

from support.truth import MEGABYTE, command, need_root, tracked
from support.truth.figures import wrong_ram

TRACKER = "gput.Tracker(sleep_time=0.05, ram_unit='bytes', time_unit='seconds')"
GROWN = """
import ctypes, os, sys, time
def address():
    return ctypes.addressof(ctypes.c_char.from_buffer(block))
def grow():
    before = address()
    block.append(1)  # realloc moves the pages to another place: mremap(2)
    if address() == before:
        sys.exit('not moved')
block = bytearray(b'1') * 80_000_000
"""


def test_pages_that_a_process_has_moved_after_a_fork_count_once() -> None:
    need_root()
    run = tracked(
        f"""
        {GROWN.replace(chr(10), chr(10) + ' ' * 8)}
        hear, tell = pipe()
        wait, let_go = gate()
        def work(number):
            grow()
            if number == 0:
                block[:40 * MEGABYTE:mmap.PAGESIZE] = bytes(len(range(0, 40 * MEGABYTE, mmap.PAGESIZE)))
            tell()
            wait()
        with {TRACKER} as tracker:
            children = [child(lambda n=n: work(n)) for n in range(3)]
            for _ in children:
                hear()
            truth = frames(children)
            settle(tracker, 0.05)
            let_go()
            for pid in children:
                os.waitpid(pid, 0)
        report(tracker, truth=truth)
        """
    )
    assert 120 * MEGABYTE < run['truth']['combined'] < 200 * MEGABYTE
    assert wrong_ram(run, run['truth'], is_seen=True) == []


def test_moved_pages_are_no_reason_to_end_a_command() -> None:
    program = f"""{GROWN}
for _ in range(4):
    if os.fork() == 0:
        grow()
        time.sleep(0.5)
        os._exit(0)
for _ in range(4):
    os.wait()
"""
    # All have 80 MB together, and an interpreter of some 10 MB each. The sum of their sizes is above 400 MB.
    command('--st=0.05', '--memory-limit=200MB', '--', sys.executable, '-c', program)


def test_memory_that_forked_workers_allocate_and_free_again_and_again_counts_once() -> None:
    need_root()
    run = tracked(
        f"""
        block = private(150 * MEGABYTE)
        write(block)
        begin, let_begin = gate()
        hear, tell = pipe()
        wait, let_go = gate()
        def work():
            begin()
            for _ in range(60):
                bytearray(b'1') * (4 * MEGABYTE)
            tell()
            wait()
        with {TRACKER} as tracker:
            children = [child(work) for _ in range(3)]
            truth = frames(children)
            settle(tracker, 0.05)
            let_begin()
            for _ in children:
                hear()
            settle(tracker, 0.05)
            let_go()
            for pid in children:
                os.waitpid(pid, 0)
        report(tracker, truth=truth)
        """
    )
    truth = run['truth']
    assert 150 * MEGABYTE < truth['combined'] < 200 * MEGABYTE
    more = {'main': 0, 'descendants': 12 * MEGABYTE, 'combined': 12 * MEGABYTE}  # all three may have theirs at a time
    assert wrong_ram(run, truth, {group: truth[group] + more[group] for group in truth}, is_seen=True) == []


@pytest.mark.parametrize('members', ['main and its children', 'children'])
def test_processes_that_take_turns_have_what_one_of_them_has(members: str) -> None:
    need_root()
    run = tracked(
        f"""
        size = 60 * MEGABYTE // mmap.PAGESIZE * mmap.PAGESIZE
        ring = [pipe() for _ in range(4)]
        enough = shared('anonymous', mmap.PAGESIZE, '')
        def turn():
            with private(size) as block:
                write(block)
        def work(number):
            while True:
                ring[number][0]()
                if enough[0]:
                    break
                turn()
                ring[(number + 1) % 4][1]()
            ring[(number + 1) % 4][1]()
        with {TRACKER} as tracker:
            before = totals(tracker)['samples']
            children = [child(lambda n=n: work(n)) for n in (1, 2, 3)]
            truth = frames(children)
            while not enough[0]:
                if sys.argv[1] != 'children':
                    turn()
                enough[0] = totals(tracker)['samples'] > before + 40
                ring[1][1]()
                ring[0][0]()
            for pid in children:
                os.waitpid(pid, 0)
        for group in truth:
            truth[group] += 0 if (group, sys.argv[1]) == ('main', 'children') else size
        report(tracker, truth=truth)
        """,
        members,
    )
    assert wrong_ram(run, run['truth']) == []


def test_shared_memory_that_a_child_has_for_a_moment_counts_once() -> None:
    need_root()
    run = tracked(
        """
        handle = os.memfd_create('block')
        os.truncate(handle, 300 * MEGABYTE)
        block = mmap.mmap(handle, 0)
        write(block)
        wait, let_go = gate()
        hear, tell = pipe()
        begin, let_begin = gate()
        def work():
            block.close()
            begin()
            with mmap.mmap(handle, 0) as again:
                read(again)
            tell()
            wait()
        pids = [child(work) for _ in range(3)]
        with gput.Tracker(sleep_time=1, ram_unit='bytes', time_unit='seconds') as tracker:
            let_begin()
            for _ in pids:
                hear()
            truth = union_of_frames([os.getpid(), *pids])
        let_go()
        report(tracker, truth=truth)
        """
    )
    truth = dict.fromkeys(('main', 'combined'), run['truth'])
    assert wrong_ram(run, truth, groups=('main', 'combined')) == []
    assert run['ram']['combined']['total_rss'] >= 0.98 * run['truth']
