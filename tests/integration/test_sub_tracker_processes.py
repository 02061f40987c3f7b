"""Code blocks of several processes in one file, and of processes that fork."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.sub_tracker.block_file import read_blocks, read_rows
from support.sub_tracking import run_program, write_blocks
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from pathlib import Path

N_CALLS = 50

_WRITE = """
import sys
from gpu_tracker.sub_tracker import SubTracker
for _ in range(int(sys.argv[2])):
    with SubTracker('b', sub_tracking_file=sys.argv[1], overwrite=sys.argv[3] == 'overwrite'):
        pass
"""

_WORKERS = """
import multiprocessing, os, sys
from gpu_tracker.sub_tracker import SubTracker

def work(number):
    with SubTracker('b', sub_tracking_file=sys.argv[1], overwrite=True):
        return os.getpid()

if __name__ == '__main__':
    context = multiprocessing.get_context(sys.argv[2])
    processes = set()
    for _ in range(3):
        with context.Pool(1) as pool:
            processes.add(pool.apply(work, (0,)))
    print(len(processes))
"""

_FORK = """
import os, sys
from gpu_tracker.sub_tracker import SubTracker
os.chdir(sys.argv[1])
made_before = SubTracker('before')
named_before = SubTracker('named', sub_tracking_file='named' + sys.argv[2])
with named_before:
    pass
with SubTracker('around', sub_tracking_file='named' + sys.argv[2]):
    child = os.fork()
    if not child:
        with made_before, named_before:
            pass
    else:
        os.waitpid(child, 0)
if not child:
    os._exit(0)
print(child, os.getpid())
"""

_FORK_WHILE_WRITING = """
import os, sys, threading
from gpu_tracker.sub_tracker import SubTracker
path = sys.argv[1]
done = threading.Event()

def write():
    while not done.is_set():
        with SubTracker('thread', sub_tracking_file=path):
            pass

threads = [threading.Thread(target=write) for _ in range(3)]
for thread in threads:
    thread.start()
for _ in range(20):
    child = os.fork()
    if not child:
        with SubTracker('child', sub_tracking_file=path):
            pass
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
done.set()
for thread in threads:
    thread.join()
"""


@pytest.fixture(params=['.csv', '.sqlite'])
def path(request, tmp_path: Path) -> str:
    return str(tmp_path / f'blocks{request.param}')


def test_four_processes_write_to_one_file_at_once(path: str):
    words = [sys.executable, '-c', _WRITE, path, str(N_CALLS), 'append']
    processes = [subprocess.Popen(words, stderr=subprocess.DEVNULL) for _ in range(4)]

    assert [process.wait(TIMEOUT) for process in processes] == [0] * 4
    assert Counter(row.process_id for row in read_rows(path)) == {process.pid: 2 * N_CALLS for process in processes}
    blocks = read_blocks(path)
    assert (len(blocks['b'].calls), blocks['b'].n_unfinished) == (4 * N_CALLS, 0)
    if path.endswith('.csv'):
        with open(path, encoding='utf-8') as file:
            assert sum(line.startswith('process_id') for line in file) == 1


@pytest.mark.parametrize(
    ('ending', 'method'), [('.csv', 'spawn'), ('.csv', 'fork'), ('.csv', 'forkserver'), ('.sqlite', 'spawn')]
)
def test_workers_of_one_run_do_not_remove_what_others_of_it_have_written(tmp_path: Path, ending: str, method: str):
    path = str(tmp_path / f'blocks{ending}')
    write_blocks_of_an_earlier_run(path)
    program = tmp_path / 'workers.py'
    program.write_text(_WORKERS)

    words = [sys.executable, '-W', 'ignore', str(program), path, method]
    done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, '3\n', '')
    assert {row.name for row in read_rows(path)} == {'b'}
    assert len({row.process_id for row in read_rows(path)}) == 3


def write_blocks_of_an_earlier_run(path: str) -> None:
    run_program(_WRITE.replace("'b'", "'old'"), path, 2, 'append')


def test_rows_of_an_earlier_run_stay_and_are_named_in_a_warning(path: str):
    write_blocks_of_an_earlier_run(path)

    words = [sys.executable, '-c', _WRITE, path, '2', 'append']
    done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT, check=False)

    assert done.returncode == 0
    assert done.stderr == (
        f'{path} has code blocks from before this program was started; new ones follow them '
        '(remove it, or use overwrite=True, to start anew).\n'
    )
    assert [row.name for row in read_rows(path)] == ['old'] * 4 + ['b'] * 4


def test_overwrite_removes_rows_of_an_earlier_run_once(path: str):
    write_blocks_of_an_earlier_run(path)

    run_program(_WRITE, path, 3, 'overwrite')

    assert [row.name for row in read_rows(path)] == ['b'] * 6


def test_a_file_of_gpu_tracker_5_is_replaced_with_overwrite_only(path: str, tmp_path: Path):
    write_blocks(tmp_path / path, [(999_999_999, 'old', 0, 1.0), (999_999_999, 'old', 1, 2.0)])

    for how, names in (('append', ['old'] * 2), ('overwrite', ['b'] * 4)):
        words = [sys.executable, '-c', _WRITE, path, '2', how]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        assert [row.name for row in read_rows(path)] == names
        assert ('it does not have the columns of a sub-tracking file' in done.stderr) == (how == 'append')


@pytest.mark.parametrize('ending', ['.csv', '.sqlite'])
def test_objects_made_before_a_fork_write_as_the_process_that_they_are_used_in(tmp_path: Path, ending: str):
    child, parent = map(int, run_program(_FORK, tmp_path, ending).split())

    named = list(read_rows(str(tmp_path / f'named{ending}')))
    assert [(row.process_id, row.name, row.position) for row in named] == [
        (parent, 'named', 0),
        (parent, 'named', 1),
        (parent, 'around', 0),
        (child, 'named', 0),
        (child, 'named', 1),
        (parent, 'around', 1),  # once: it was begun by the parent
    ]
    assert len({row.call_id for row in named}) == 3
    before = list(read_rows(str(tmp_path / f'{child}.csv')))
    assert [(row.process_id, row.name) for row in before] == [(child, 'before')] * 2
    assert not (tmp_path / f'{parent}.csv').exists()


def test_a_fork_waits_for_the_end_of_a_row(path: str):
    run_program(_FORK_WHILE_WRITING, path)

    blocks = read_blocks(path)
    assert (len(blocks['child'].calls), blocks['child'].n_unfinished) == (20, 0)
    assert blocks['thread'].n_unfinished == 0


def test_a_process_that_is_killed_in_a_block_leaves_its_start(path: str):
    program = _WRITE.replace('pass', 'print(flush=True); sys.stdin.read()')
    words = [sys.executable, '-c', program, path, '1', 'append']
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        process.kill()

    eventually(lambda: process.poll() is not None)
    blocks = read_blocks(path)
    assert (blocks['b'].calls, blocks['b'].n_unfinished) == ([], 1)


def test_marking_a_block_imports_nothing_heavy(tmp_path: Path):
    modules = ['asyncio', 'csv', 'dataclasses', 'inspect', 'linecache', 'logging', 'pandas', 'sqlite3', 'typing']
    program = (
        'import sys, gpu_tracker\n'
        'with gpu_tracker.SubTracker(sub_tracking_file=sys.argv[1]): pass\n'
        f'print([name for name in {modules} if name in sys.modules])\n'
    )

    assert run_program(program, tmp_path / 'x.csv') == '[]\n'
