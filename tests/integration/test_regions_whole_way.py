"""Regions through the whole way, from a program with a tracker to its recording, against what the program measures."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import gpu_tracker as gput
from gpu_tracker.regions import log
from support.region_log import made_log
from support.waiting import TIMEOUT

_PROGRAM = '''
import asyncio, json, multiprocessing, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
import gpu_tracker as gput

truth = []

class Step:
    """A region, and the times just outside and just inside of it."""

    def __init__(self, name, parent):
        self.stamps = [name, parent]

    def __enter__(self):
        self.stamps += [time.monotonic_ns(), time.thread_time_ns()]
        self.region = gput.region(self.stamps[0])
        self.region.__enter__()
        self.stamps += [time.thread_time_ns(), time.monotonic_ns()]

    def __exit__(self, *error):
        self.stamps += [time.monotonic_ns(), time.thread_time_ns()]
        self.region.__exit__(*error)
        self.stamps += [time.thread_time_ns(), time.monotonic_ns()]
        truth.append(self.stamps)

def recur(name, parent, depth):
    with Step(f'{name}.{depth}', parent):
        sum(range(5000))
        if depth:
            recur(name, f'{name}.{depth}', depth - 1)

async def task(name, parent):
    for turn in range(2):
        with Step(f'{name}-{turn}', parent):
            await asyncio.sleep(0.001)
            recur(f'{name}-{turn}r', f'{name}-{turn}', 2)

async def tasks(name):
    with Step(f'{name}all', None):
        await asyncio.gather(*(task(f'{name}t{number}', f'{name}all') for number in range(3)))

def thread(name):
    for turn in range(3):
        recur(f'{name}x{turn}', None, 3)
    asyncio.run(tasks(name))

def work(number, path):
    threads = [threading.Thread(target=thread, args=(f'p{number}h{h}',)) for h in range(4)]
    for one in threads: one.start()
    for one in threads: one.join()
    with open(f'{path}{number}', 'w') as file:
        json.dump(truth, file)

if __name__ == '__main__':
    with gput.Tracker(tracking_file=sys.argv[1], sleep_time=0.1):
        context = multiprocessing.get_context('spawn')
        workers = [context.Process(target=work, args=(number, sys.argv[2])) for number in range(3)]
        for worker in workers: worker.start()
        for worker in workers: worker.join()
'''
_ROUNDED = 2e-6
"""Seconds: a recording has microseconds."""


@pytest.fixture(scope='module')
def run(tmp_path_factory):
    """Return the regions of a recording by name, and what the program says of each."""
    folder = tmp_path_factory.mktemp('run')
    (folder / 'program.py').write_text(_PROGRAM)
    words = [sys.executable, folder / 'program.py', folder / 'run.db', folder / 'truth']
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr
    truth = [stamps for number in range(3) for stamps in json.loads((folder / f'truth{number}').read_text())]
    with gput.load(folder / 'run.db') as recording:
        regions = {region.name: region for region in recording.regions}
        assert len(regions) == len(recording.regions)
    return regions, truth


def test_no_region_is_missing_and_each_has_its_parent(run):
    regions, truth = run
    names = {region.id: region.name for region in regions.values()}
    assert len(truth) == 3 * 4 * (3 * 4 + 1 + 3 * 2 * 4)
    assert {name: names.get(region.parent_id) for name, region in regions.items()} == {
        name: parent for name, parent, *_ in truth
    }


def test_each_region_begins_and_ends_between_the_stamps_around_it(run):
    regions, truth = run
    shortest = {name: (stamps[4] - stamps[3]) * 1e-9 for name, _, *stamps in truth}
    longest = {name: (stamps[7] - stamps[0]) * 1e-9 for name, _, *stamps in truth}
    for name, region in regions.items():
        assert region.has_ended
        assert shortest[name] - _ROUNDED <= region.wall_time <= longest[name] + _ROUNDED
    # The recording counts from its own start: one distance fits all moments.
    earliest = max([stamps[0] * 1e-9 - regions[name].start for name, _, *stamps in truth]
                   + [stamps[4] * 1e-9 - regions[name].stop for name, _, *stamps in truth])  # fmt: skip
    latest = min([stamps[3] * 1e-9 - regions[name].start for name, _, *stamps in truth]
                 + [stamps[7] * 1e-9 - regions[name].stop for name, _, *stamps in truth])  # fmt: skip
    assert earliest <= latest + _ROUNDED


def test_cpu_time_of_threads_lies_between_the_stamps_and_that_of_tasks_is_unknown(run):
    regions, truth = run
    for name, _, *stamps in truth:
        used = regions[name].thread_cpu
        if 't' in name or name.endswith('all'):
            assert used is None
        else:
            assert (stamps[5] - stamps[2]) * 1e-9 - _ROUNDED <= used <= (stamps[6] - stamps[1]) * 1e-9 + _ROUNDED


_HOT = """
import multiprocessing, os, sys, time
import gpu_tracker as gput
from gpu_tracker.regions.blocks import flush

def work(number):
    for _ in range(number):
        with gput.region('hot'): pass

if __name__ == '__main__':
    how, each = sys.argv[1], int(sys.argv[2])
    before = time.monotonic_ns()
    if how == 'end':
        work(each)
    elif how == 'flush':
        work(each)
        flush()
    else:
        context = multiprocessing.get_context(how)
        workers = [context.Process(target=work, args=(each,)) for _ in range(2)]
        for worker in workers: worker.start()
        for worker in workers: worker.join()
    print(time.monotonic_ns() - before, flush=True)
    if how == 'flush':
        os._exit(0)
"""


@pytest.mark.parametrize(
    ('how', 'processes', 'each'), [('end', 1, 20_000), ('flush', 1, 20_000), ('fork', 2, 20_000), ('spawn', 2, 20_000)]
)
def test_many_calls_are_few_lines_that_add_up_to_all_of_them(tmp_path, how, processes, each):
    (tmp_path / 'hot.py').write_text(_HOT)
    with made_log(joined=False) as written:
        done = subprocess.run(
            [sys.executable, tmp_path / 'hot.py', how, str(each)],
            env=written.environment,
            check=True,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        took = int(done.stdout)
        single, ends, folds = written.begins, written.ends, written.folds
        assert len(single) + sum(fold.calls for fold in folds) == processes * each
        assert len(single) == len(ends) == 199 * processes
        assert len(folds) <= processes * (took // 10**9 + 2)
        total = sum(ends[begin.id].t - begin.t for begin in single) + sum(fold.total for fold in folds)
        assert 0 < total <= took * processes


def test_a_pool_that_is_ended_while_it_waits_keeps_what_was_in_a_region(tmp_path):
    (tmp_path / 'pool.py').write_text("""
import multiprocessing
import gpu_tracker as gput

@gput.region('job')
def work(number):
    for _ in range(1000):
        with gput.region('hot'): pass

if __name__ == '__main__':
    with multiprocessing.get_context('fork').Pool(2) as pool:  # it kills its workers at its end
        pool.map(work, range(4))
""")
    with made_log(joined=False) as written:
        subprocess.run([sys.executable, tmp_path / 'pool.py'], env=written.environment, check=True, timeout=TIMEOUT)
        hot = sum(begin.name == 'hot' for begin in written.begins) + sum(fold.calls for fold in written.folds)
        assert hot == 4000
        assert sum(begin.name == 'job' for begin in written.begins) == 4


def test_a_program_that_a_region_starts_has_it_as_its_parent(tmp_path):
    (tmp_path / 'outer.py').write_text("""
import subprocess, sys
words = [sys.executable, '-m', 'gpu_tracker', 'region']
inner = [*words, 'middle', '--', sys.executable, '-c', "import gpu_tracker\\nwith gpu_tracker.region('inner'): pass"]
sys.exit(subprocess.run([*words, 'outer', '--', *inner]).returncode)
""")
    with made_log(joined=False) as written:
        done = subprocess.run(
            [sys.executable, tmp_path / 'outer.py'],
            env=written.environment,
            check=False,
            capture_output=True,
            timeout=TIMEOUT,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b'', b'')
        assert written.parents == [('outer', None), ('middle', 'outer'), ('inner', 'middle')]
        assert len(written.ends) == 3


def test_where_nothing_is_tracked_nothing_is_written_and_the_environment_stays(tmp_path):
    program = """
import os, gpu_tracker as gput
before = dict(os.environ)
with gput.region('a', k=1, sync=lambda: 1 / 0): pass
assert gput.region('b')(lambda: 5)() == 5
print(dict(os.environ) == before, os.listdir('.'))
"""
    environment = {'PYTHONPATH': ':'.join(sys.path), 'TMPDIR': str(tmp_path)}
    done = subprocess.run(
        [sys.executable, '-c', program],
        env=environment,
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.stdout == 'True []\n'


def test_lines_of_nested_trackers_are_in_both_recordings(tmp_path):
    (tmp_path / 'nested.py').write_text("""
import os, sys, gpu_tracker as gput
with gput.Tracker(tracking_file='outer.db', sleep_time=0.1):
    with gput.region('first'): pass
    with gput.Tracker(tracking_file='inner.db', sleep_time=0.1):
        with gput.region('second'): pass
    with gput.region('third'): pass
print(sorted(name for name in os.environ if name.startswith('GPU_TRACKER_REGION')))
""")
    environment = {'PYTHONPATH': ':'.join(sys.path), 'PATH': '/usr/bin:/bin'}
    assert log.LOGS_VARIABLE not in environment
    done = subprocess.run(
        [sys.executable, 'nested.py'],
        env=environment,
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.stdout == '[]\n'
    names = []
    for file in ('outer.db', 'inner.db'):
        with gput.load(tmp_path / file) as recording:
            names.append([region.name for region in recording.regions])
    assert names == [['first', 'second', 'third'], ['second']]
