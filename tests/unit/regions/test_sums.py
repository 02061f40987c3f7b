from __future__ import annotations

import signal
import threading

import pytest

import gpu_tracker as gput
from gpu_tracker.regions import blocks, calls, process
from support.region_log import made_log


@pytest.fixture
def written():
    process.current = process.Process(None)  # names are counted from the first call in a process
    with made_log(joined=True) as made:
        yield made


def total(written, name):
    """Return how many calls of a name are written, in lines of their own and in sums."""
    single = sum(begin.name == name for begin in written.begins)
    return single + sum(fold.calls for fold in written.folds if fold.name == name)


def test_from_the_200th_on_calls_are_summed(written):
    for _ in range(1000):
        with gput.region('hot'):
            pass
    blocks.flush()
    assert sum(begin.name == 'hot' for begin in written.begins) == 199
    assert total(written, 'hot') == 1000
    fold = written.folds[0]
    assert fold.shortest <= fold.total / fold.calls <= fold.longest
    assert fold.last - fold.first >= fold.total
    assert fold.thread_cpu <= fold.last - written.begins[0].t  # no thread uses more than the time that passes
    assert (fold.total * 1e-9) ** 2 / fold.calls <= fold.squares * 1.0001


def test_20000_calls_are_a_few_hundred_lines(written):
    for _ in range(20_000):
        with gput.region('hot'):
            pass
    blocks.flush()
    assert total(written, 'hot') == 20_000
    seconds = (written.parsed[-1].last - written.parsed[0].t) * 1e-9
    assert len(written.lines) <= 2 * 199 + 2 * seconds + 10


def test_errors_are_counted(written):
    for number in range(300):
        try:
            with gput.region('hot'):
                if number >= 250:
                    raise ValueError  # noqa: TRY301 - it is to end the region
        except ValueError:
            pass
    blocks.flush()
    assert sum(fold.errors for fold in written.folds) == 50


def test_a_summed_region_is_the_parent_of_what_is_in_it(written):
    for _ in range(300):
        with gput.region('outer'), gput.region('inner'):
            pass
    blocks.flush()
    outer = {fold.id for fold in written.folds if fold.name == 'outer'}
    assert outer
    assert {fold.parent for fold in written.folds if fold.name == 'inner'} <= outer
    assert total(written, 'inner') == total(written, 'outer') == 300


def test_the_sums_in_a_region_are_written_before_its_end(written):
    with gput.region('task'):
        for _ in range(300):
            with gput.region('hot'):
                pass
    assert total(written, 'hot') == 300
    assert {fold.parent for fold in written.folds} == {written.begin('task').id}


def test_a_call_that_comes_a_second_after_the_last_has_lines_of_its_own(written, monkeypatch):
    now = [10**12]
    monkeypatch.setattr(calls.time, 'monotonic_ns', lambda: now[0])
    for _ in range(400):
        now[0] += 10**9
        with gput.region('slow'):
            now[0] += 10**8
    assert len(written.begins) == 400
    assert written.folds == []


def test_names_beyond_the_limit_are_summed_as_one(written):
    for number in range(1500):
        with gput.region(f'name {number}'):
            pass
    blocks.flush()
    assert len({begin.name for begin in written.begins}) == 1199
    assert {fold.name for fold in written.folds} == {'(other names)'}
    assert total(written, '(other names)') == 301


def test_calls_with_lines_of_their_own_keep_their_names_beyond_the_limit(written):
    for number in range(1500):
        calls.end(calls.begin(f'name {number}', None, is_single=True), None)
    assert [begin.name for begin in written.begins] == [f'name {number}' for number in range(1500)]


def test_many_threads_lose_no_call(written):
    def work():
        for _ in range(1000):
            with gput.region('hot'):
                pass

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    blocks.flush()
    assert total(written, 'hot') == 8000
    assert len({fold.thread_id for fold in written.folds}) == 8


def test_deep_recursion_and_short_threads_stay_bounded(written):
    def recur(depth):
        with gput.region('deep'):
            if depth:
                recur(depth - 1)

    for _ in range(10):
        recur(150)
    for _ in range(1500):
        thread = threading.Thread(target=recur, args=(0,))
        thread.start()
        thread.join()
    blocks.flush()
    assert total(written, 'deep') == 3010


def test_a_signal_handler_may_open_regions_anywhere(written):
    def handle(*_):
        with gput.region('handler'):
            pass

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        for _ in range(20_000):
            with gput.region('hot'):
                pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    blocks.flush()
    assert total(written, 'hot') == 20_000


def test_a_summed_call_that_ends_after_the_sum_was_written_is_in_the_next(written):
    for _ in range(250):
        with gput.region('hot'):
            pass
    with gput.region('hot'):
        blocks.flush()
        assert total(written, 'hot') == 250
    blocks.flush()
    assert total(written, 'hot') == 251
