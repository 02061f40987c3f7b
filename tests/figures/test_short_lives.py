"""Processes that end before or right after a sample: their figures are right, or marked as lower bounds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.programs import need_program
from support.truth import MEGABYTE, command, need_root, tracked
from support.truth.figures import wrong_cpu, wrong_ram

if TYPE_CHECKING:
    from collections.abc import Iterator

FEW = 20 * MEGABYTE
"""What an interpreter or a shell has beside what it is written for."""

GROWING = """
import os, sys
first = bytearray(b'1') * 50_000_000
os.write(1, b'.')
sys.stdin.read(1)
block = bytearray(b'1') * 150_000_000
os.write(1, b'.')
sys.stdin.read()
"""


@pytest.fixture(scope='module')
def flash(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give a program that has 60 MB for a few milliseconds, and prints its high-water mark."""
    need_program('cc')
    path = str(tmp_path_factory.mktemp('flash') / 'flash')
    source = Path(__file__).parents[1] / 'support' / 'truth' / 'flash.c'
    subprocess.run(['cc', '-O1', '-Wall', '-Wextra', '-Werror', '-o', path, str(source)], check=True)
    return path


@pytest.mark.parametrize('megabytes', [0, 60])
@pytest.mark.parametrize('shell', [False, True])
def test_a_command_that_is_too_short_to_be_read_is_unknown_or_marked(flash: str, megabytes: int, shell: bool) -> None:
    run = command('--st=1', *(['-e', f'{flash} {megabytes}; true'] if shell else ['--', flash, megabytes]))
    truth = int(run['stdout'])
    group = 'descendants' if shell else 'main'
    lowest = {'main': 0, 'descendants': 0, 'combined': truth, group: truth}
    most = {'main': 3 * MEGABYTE, 'descendants': 0, 'combined': truth + 3 * MEGABYTE}  # a shell
    highest = {**most, group: truth} if shell else lowest
    assert wrong_ram(run, lowest, highest, may_be_unknown=True) == []


def test_a_process_of_a_block_that_is_too_short_to_be_read_is_unknown_or_marked(flash: str) -> None:
    run = tracked(
        """
        with gput.Tracker(sleep_time=1, ram_unit='bytes', time_unit='seconds') as tracker:
            truth = int(subprocess.run([sys.argv[1], '60'], stdout=subprocess.PIPE, check=True).stdout)
        report(tracker, truth=truth, main=status(os.getpid(), 'VmHWM'))
        """,
        flash,
    )
    lowest = {'main': 0, 'descendants': run['truth'], 'combined': run['truth']}
    highest = {'main': run['main'], 'descendants': run['truth'], 'combined': run['truth'] + run['main']}
    assert wrong_ram(run, lowest, highest, may_be_unknown=True) == []


@pytest.mark.parametrize('way', ['command', 'block'])
def test_copies_of_100_megabytes_that_are_there_for_a_moment_count_or_the_figures_are_marked(way: str) -> None:
    program = """
import mmap, os, resource, time
block = bytearray(b'1') * 100_000_000
def work():
    said, say = os.pipe()
    hold, go = os.pipe()
    for _ in range(3):
        if os.fork() == 0:
            block[::mmap.PAGESIZE] = bytes(len(block[::mmap.PAGESIZE]))
            os.write(say, b'1')
            os.read(hold, 1)
            os._exit(0)
    for _ in range(3):
        os.read(said, 1)
    time.sleep(0.2)
    os.write(go, b'111')
    for _ in range(3):
        os.wait()
"""
    if way == 'command':
        more = 'used = resource.getrusage(resource.RUSAGE_CHILDREN)\nprint(used.ru_utime + used.ru_stime)\n'
        run = command('--st=1', '--', sys.executable, '-c', f'{program}\ntime.sleep(0.6)\nwork()\n{more}')
        truth = float(run['stdout'])
    else:
        run = tracked(
            """
            exec(sys.argv[1])
            with gput.Tracker(sleep_time=1, ram_unit='bytes', time_unit='seconds') as tracker:
                time.sleep(0.6)
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                work()
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
            report(tracker, truth=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            """,
            program,
        )
        truth = run['truth']
    size = 100 * MEGABYTE
    lowest = {'main': size, 'descendants': 3 * size, 'combined': 4 * size}
    highest = {'main': size + FEW, 'descendants': 4 * size + FEW, 'combined': 4 * size + 2 * FEW}
    # Between two samples a second apart no child may be seen: then descendants are unknown, and combined is marked.
    assert wrong_ram(run, lowest, highest, may_be_unknown=True) == []
    assert run['ram']['combined']['total_rss'] is not None
    assert wrong_cpu(run, {'descendants': truth}, slack=0.04) == []


@pytest.mark.parametrize('parent', ['keeps a zombie', 'waits'])
def test_a_process_that_is_killed_right_after_it_has_grown_is_known_or_marked(parent: str) -> None:
    run = tracked(
        """
        process = subprocess.Popen([sys.executable, '-c', sys.argv[2]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process.stdout.read(1)
        tracker = gput.Tracker(sleep_time=1, ram_unit='bytes', time_unit='seconds', process_id=process.pid)
        with tracker:
            before = totals(tracker)['samples']
            until(tracker, lambda seen: seen['samples'] > before + 2)
            process.stdin.write(b'.')
            process.stdin.flush()
            process.stdout.read(1)
            truth = status(process.pid, 'VmHWM')
            process.kill()
            if sys.argv[1] == 'waits':
                process.wait()
            else:
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        process.wait()
        report(tracker, truth=truth)
        """,
        parent,
        GROWING,
    )
    assert run['truth'] > 200 * MEGABYTE
    truth = {'main': run['truth'], 'descendants': 0, 'combined': run['truth']}
    assert wrong_ram(run, truth) == []


@pytest.mark.parametrize('interval', [0.05, 1])
@pytest.mark.parametrize('threads', [1, 3])
def test_a_process_whose_parent_waits_for_it_is_known_to_its_end_or_marked(threads: int, interval: float) -> None:
    need_root()
    run = tracked(
        f"""
        from support.truth.foreign import *
        wait, end = gate()
        foreign = Foreign(lambda: (burn(0.3), wait(), burn_in_threads(0.5, {threads})))
        tracker = gput.Tracker(sleep_time={interval}, ram_unit='bytes', time_unit='seconds', process_id=foreign.pid)
        with tracker:
            foreign.let_go()
            until(tracker, lambda seen: seen['cpu']['main'][0] >= 0.3)
            end()
            truth = foreign.truth()
        report(tracker, truth=truth)
        """
    )
    assert run['truth'] >= 0.3 + 0.5 * threads
    assert wrong_cpu(run, {'main': run['truth'], 'combined': run['truth']}) == []
