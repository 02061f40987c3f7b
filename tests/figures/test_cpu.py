"""CPU seconds against what wait4(2) and the processes themselves say."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from support.truth import command, tracked
from support.truth.figures import wrong_cpu

if TYPE_CHECKING:
    from pathlib import Path

TRACKER = "gput.Tracker(sleep_time=float(sys.argv[1]), ram_unit='bytes', time_unit='seconds')"


def test_a_hundred_short_children_count_whatever_the_interval() -> None:
    run = tracked(
        """
        truth = 0.0
        with gput.Tracker(sleep_time=1.0) as rare, gput.Tracker(sleep_time=0.1) as frequent:
            for _ in range(50):
                pair = [child(lambda: burn(0.02)) for _ in range(2)]
                for pid in pair:
                    used = os.wait4(pid, 0)[2]
                    truth += used.ru_utime + used.ru_stime
        found = [
            tracker.resource_usage.cpu_utilization.descendants.mean_sum_percent / 100 * tracker._run.totals['seconds']
            for tracker in (rare, frequent)
        ]
        print(json.dumps({'found': found, 'truth': truth}))
        """
    )
    assert run['truth'] >= 2
    assert run['found'] == pytest.approx([run['truth']] * 2, rel=0.02)


CHILDREN = """
import os, signal, sys, time
how, number = sys.argv[1], int(sys.argv[2])
if how == 'ignored':
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
told, tell = os.pipe()
for _ in range(number):
    if os.fork() == 0:
        if how == 'double-forked' and os.fork():
            os._exit(0)
        while time.process_time() < 0.02:
            pass
        os.write(tell, f'{time.process_time()}\\n'.encode())
        os._exit(0)
    if how != 'ignored':
        os.wait()
os.close(tell)
with open(told) as lines:  # until all have ended
    print(sum(map(float, lines)))
"""
"""Prints what its children of 20 ms say that they have used."""


@pytest.mark.parametrize('interval', [0.1, 10])
@pytest.mark.parametrize('how', ['waited for', 'ignored', 'double-forked'])
def test_short_children_of_a_command_count_or_the_figure_is_marked(how: str, interval: float) -> None:
    run = command(f'--st={interval}', '--', sys.executable, '-S', '-c', CHILDREN, how, 30)
    truth = float(run['stdout'])
    assert truth >= 0.6
    # Each start and end of a process takes some time that it does not know itself.
    more = 0.2 + 0.01 * 30
    assert wrong_cpu(run, {'descendants': truth}, {'descendants': truth + more}) == []


@pytest.mark.parametrize('how', ['waited for', 'ignored', 'double-forked'])
def test_short_children_of_a_program_that_a_block_runs_count_or_the_figure_is_marked(how: str) -> None:
    run = tracked(
        f"""
        with {TRACKER} as tracker:
            words = [sys.executable, '-S', '-c', *sys.argv[2:]]
            truth = float(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)
        report(tracker, truth=truth)
        """,
        0.1,
        CHILDREN,
        how,
        30,
    )
    more = 0.2 + 0.01 * 30
    assert wrong_cpu(run, {'descendants': run['truth']}, {'descendants': run['truth'] + more}) == []


def test_main_with_threads_is_its_own_process_time_and_never_more_than_all_cores() -> None:
    run = tracked(
        f"""
        import hashlib
        enough = threading.Event()
        def work():
            while not enough.is_set():
                hashlib.pbkdf2_hmac('sha256', b'password', b'salt', 20000)
        with {TRACKER} as tracker:
            before = time.process_time()
            threads = [threading.Thread(target=work) for _ in range(os.cpu_count() + 1)]
            for thread in threads:
                thread.start()
            until(tracker, lambda seen: seen['cpu']['threads'][0] == os.cpu_count() + 2)
            enough.set()
            for thread in threads:
                thread.join()
            truth = time.process_time() - before
        report(tracker, truth=truth)
        """,
        0.1,
    )
    cores = os.cpu_count()
    main = run['usage']['cpu_utilization']['main']
    assert run['cpu']['main'] == pytest.approx(run['truth'], rel=0.02, abs=0.02)
    assert main['mean_sum_percent'] <= main['max_sum_percent'] <= cores * 100
    assert run['usage']['cpu_utilization']['main_n_threads'] == cores + 2
    assert run['usage']['cpu_utilization']['descendants_n_threads'] == 0


def test_one_busy_thread_is_never_more_than_one_core() -> None:
    run = tracked(
        f"""
        with {TRACKER} as tracker:
            before = totals(tracker)['samples']
            while totals(tracker)['samples'] < before + 20:
                burn(0.05)
        report(tracker)
        """,
        0.01,
    )
    main = run['usage']['cpu_utilization']['main']
    assert main['mean_sum_percent'] <= main['max_sum_percent'] <= 103
    assert main['max_hardware_percent'] == pytest.approx(main['max_sum_percent'] / os.cpu_count())


def test_children_of_a_program_that_ignores_their_end_keep_their_time() -> None:
    # The kernel adds nothing to the times of such a parent.
    run = tracked(
        f"""
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        wait, let_go = gate()
        result, tell = os.pipe()
        def work():
            burn(0.1)
            wait()
            os.write(tell, f'{{time.process_time()}}\\n'.encode())
        with {TRACKER} as tracker:
            for _ in range(2):
                child(work)
            until(tracker, lambda seen: seen['cpu']['descendants'][0] > 0.2)
            let_go()
            os.close(tell)
            with open(result) as lines:
                truth = sum(map(float, lines))
        report(tracker, truth=truth)
        """,
        0.05,
    )
    assert run['truth'] >= 0.2
    assert run['cpu']['descendants'] == pytest.approx(run['truth'], abs=0.03)


def test_a_daemon_that_init_reaps_counts_and_keeps_its_time(tmp_path: Path) -> None:
    run = tracked(
        f"""
        seen_file = sys.argv[2]
        wait, let_go = gate()
        result, tell = os.pipe()
        def daemon():
            os.setsid()
            burn(0.1)
            wait()
            os.write(tell, f'{{os.getpid()}} {{time.process_time()}}'.encode())
        def parent():
            child(daemon)
            eventually(lambda: os.path.exists(seen_file))
        with {TRACKER} as tracker:
            first = child(parent)
            until(tracker, lambda seen: seen['cpu']['threads'][1] >= 2)
            open(seen_file, 'x').close()
            os.waitpid(first, 0)
            until(tracker, lambda seen: seen['cpu']['descendants'][0] > 0.1)
            let_go()
            pid, truth = os.read(result, 100).split()
            eventually(lambda: not os.path.exists(f'/proc/{{int(pid)}}'))
            burn(0.1)
        report(tracker, truth=float(truth))
        """,
        0.05,
        tmp_path / 'seen',
    )
    assert run['cpu']['descendants'] == pytest.approx(run['truth'], abs=0.06)
    assert run['cpu']['main'] >= 0.1


def test_what_a_subreaper_has_waited_for_in_place_of_another_counts_once() -> None:
    # A process ends without having waited for its child: its own parent waits for it, this program for the child.
    run = tracked(
        f"""
        import ctypes
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
        ended, tell = os.pipe()
        wait, let_go = gate()
        wait_above, let_go_above = gate()
        def parent():
            os.waitid(os.P_PID, child(lambda: burn(0.2)), os.WEXITED | os.WNOWAIT)
            os.write(tell, b'.')
            wait()
        def above():
            os.waitpid(child(parent), 0)
            wait_above()
        with {TRACKER} as tracker:
            first = child(above)
            os.read(ended, 1)
            settle(tracker, 0.2)
            let_go()
            used = os.wait3(0)[2]
            settle(tracker, 0.2)
            let_go_above()
            rest = os.wait3(0)[2]
        report(tracker, truth=sum(it.ru_utime + it.ru_stime for it in (used, rest)))
        """,
        0.2,
    )
    assert 0.2 <= run['truth'] < 0.3
    assert run['cpu']['descendants'] == pytest.approx(run['truth'], abs=0.05)
