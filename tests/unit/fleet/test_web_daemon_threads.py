from __future__ import annotations

import asyncio
import threading

import pytest

from gpu_tracker.fleet.web.serve import MOST_THREADS, DaemonThreads


def test_it_does_what_an_executor_does():
    def fail():
        raise ValueError('no')

    threads = DaemonThreads()
    assert threads.submit(divmod, 7, 2).result(60) == (3, 1)
    assert threads.submit(int, 'ff', base=16).result(60) == 255
    with pytest.raises(ValueError, match='no'):
        threads.submit(fail).result(60)


def test_it_serves_an_event_loop():
    async def main():
        asyncio.get_running_loop().set_default_executor(DaemonThreads())
        return await asyncio.gather(*(asyncio.to_thread(pow, number, 2) for number in range(100)))

    assert asyncio.run(main()) == [number**2 for number in range(100)]


def test_its_threads_are_daemons_and_not_without_number():
    go_on, seen = threading.Event(), set()

    def work():
        seen.add(threading.current_thread())
        go_on.wait()

    threads = DaemonThreads()
    futures = [threads.submit(work) for _ in range(3 * MOST_THREADS)]
    go_on.set()
    for future in futures:
        future.result(60)
    assert 1 <= len(seen) <= MOST_THREADS
    assert all(thread.daemon for thread in seen)


def test_work_that_was_cancelled_is_not_done():
    go_on, done = threading.Event(), []
    threads = DaemonThreads()
    busy = [threads.submit(go_on.wait) for _ in range(MOST_THREADS)]
    late = threads.submit(done.append, 1)
    assert late.cancel()
    go_on.set()
    assert all(future.result(60) for future in busy)
    assert threads.submit(len, done).result(60) == 0
