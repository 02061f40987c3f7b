"""Regions across threads, processes, asyncio and recursion, against a truth that the program itself keeps."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import textwrap
from concurrent.futures import ProcessPoolExecutor

import pytest

import gpu_tracker as gput
from gpu_tracker.recording.writing.region_lines import Begin
from support.region_log import made_log
from support.waiting import TIMEOUT

_TRUTH = """
    import asyncio, json, multiprocessing, os, sys, threading, time
    import gpu_tracker as gput

    truth = []

    class Step:
        '''A region, and the times just outside and just inside of it.'''

        def __init__(self, name, parent):
            self.stamps = [name, parent]

        def __enter__(self):
            self.stamps.append(time.monotonic_ns())
            self.region = gput.region(self.stamps[0])
            self.region.__enter__()
            self.stamps.append(time.monotonic_ns())

        def __exit__(self, *error):
            self.stamps.append(time.monotonic_ns())
            self.region.__exit__(*error)
            self.stamps.append(time.monotonic_ns())
            truth.append(self.stamps)

    def recur(name, parent, depth):
        with Step(f'{name}.{depth}', parent):
            time.sleep(0)
            if depth:
                recur(name, f'{name}.{depth}', depth - 1)

    async def task(name, parent):
        for turn in range(5):
            with Step(f'{name}-{turn}', parent):
                await asyncio.sleep(0.001)
                recur(f'{name}-{turn}r', f'{name}-{turn}', 2)

    async def tasks(name):
        with Step(f'{name}all', None):
            await asyncio.gather(*(task(f'{name}t{number}', f'{name}all') for number in range(3)))

    def thread(name):
        for turn in range(5):
            recur(f'{name}x{turn}', None, 3)
        asyncio.run(tasks(name))

    def process(number, path):
        threads = [threading.Thread(target=thread, args=(f'p{number}h{h}',)) for h in range(4)]
        for one in threads: one.start()
        for one in threads: one.join()
        with open(f'{path}{number}', 'w') as file:
            json.dump(truth, file)

    if __name__ == '__main__':
        context = multiprocessing.get_context(sys.argv[1])
        workers = [context.Process(target=process, args=(number, sys.argv[2])) for number in range(3)]
        for worker in workers: worker.start()
        for worker in workers: worker.join()
"""


def run(program: str, written, tmp_path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program that writes to the log."""
    path = tmp_path / 'program.py'
    path.write_text(textwrap.dedent(program))
    done = subprocess.run(
        [sys.executable, path, *arguments],
        env=written.environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture
def written():
    with made_log(joined=False) as made:
        yield made


@pytest.mark.parametrize('method', ['fork', 'spawn', 'forkserver'])
def test_threads_processes_tasks_and_recursion_agree_with_the_truth(written, tmp_path, method):
    run(_TRUTH, written, tmp_path, method, str(tmp_path / 'truth'))
    truth = [stamps for number in range(3) for stamps in json.loads((tmp_path / f'truth{number}').read_text())]
    assert len(truth) == len(written.begins) == 3 * 4 * (5 * 4 + 1 + 3 * 5 * 4)
    names = {begin.id: begin.name for begin in written.begins}
    by_name = {begin.name: begin for begin in written.begins}
    ends = written.ends
    for name, parent, before, begun, ending, after in truth:
        begin = by_name[name]
        assert names.get(begin.parent) == parent
        assert before <= begin.t <= begun
        assert ending <= ends[begin.id].t <= after


def test_threads_that_begin_their_first_regions_at_the_same_time_are_in_one_process(written, tmp_path):
    run(
        """
        import os, sys, threading
        import gpu_tracker as gput
        gput.region
        sys.setswitchinterval(1e-6)
        def work():
            together.wait()
            with gput.region('first'): pass
        for _ in range(100):
            if not os.fork():
                together = threading.Barrier(8)
                threads = [threading.Thread(target=work) for _ in range(8)]
                for thread in threads: thread.start()
                for thread in threads: thread.join()
                os._exit(0)
            os.wait()
        """,
        written,
        tmp_path,
    )
    begun = [begin.id for begin in written.begins]
    assert len(begun) == len(set(begun)) == 100 * 8
    assert written.ends.keys() == set(begun)


def test_a_forked_process_begins_anew_in_the_region_it_was_forked_in(written, tmp_path):
    run(
        """
        import os
        import gpu_tracker as gput
        kept = gput.region('made before')
        for _ in range(500):
            with gput.region('hot'): pass
        with gput.region('outer'):
            if not os.fork():
                with kept, gput.region('child'): pass
                for _ in range(10):
                    with gput.region('hot'): pass
            else:
                os.wait()
        """,
        written,
        tmp_path,
    )
    outer, child = written.begin('outer'), written.begin('child')
    assert written.begin('made before').parent == outer.id
    assert written.begin('made before').process_id == child.process_id != outer.process_id
    assert child.id >> 41 == child.process_id
    assert len([begin for begin in written.begins if begin.name == 'outer']) == 1
    hot = [begin for begin in written.begins if begin.name == 'hot']
    assert sum(begin.process_id == child.process_id for begin in hot) == 10
    assert sum(fold.calls for fold in written.folds) == 500 - 199
    assert written.ends.keys() == {begin.id for begin in written.begins}


def test_a_fork_while_threads_write_sums_hangs_nobody(written, tmp_path):
    run(
        """
        import os, threading
        import gpu_tracker as gput
        from gpu_tracker.regions.blocks import flush
        going = True
        with gput.region('hot'): pass  # Python hangs where a thread imports at the moment of a fork
        def work():
            while going:
                with gput.region('hot'): gput.region('x')
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads: thread.start()
        codes = []
        for _ in range(30):
            pid = os.fork()
            if not pid:
                for _ in range(300):
                    with gput.region('in child'): pass
                flush()
                os._exit(0)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        going = False
        for thread in threads: thread.join()
        assert codes == [0] * 30
        """,
        written,
        tmp_path,
    )
    single = sum(begin.name == 'in child' for begin in written.begins)
    assert single + sum(fold.calls for fold in written.folds if fold.name == 'in child') == 30 * 300


def _hot(number: int) -> int:
    for _ in range(number):
        with gput.region('hot'):
            pass
    return os.getpid()


@pytest.mark.parametrize('method', ['fork', 'spawn', 'forkserver'])
def test_workers_write_their_sums_at_their_end(tmp_path, method):
    with made_log(joined=True) as written:
        context = multiprocessing.get_context(method)
        with ProcessPoolExecutor(2, mp_context=context) as pool:
            workers = set(pool.map(_hot, [1000] * 4))
        single = [begin for begin in written.begins if begin.process_id in workers]
        folds = [fold for fold in written.folds if fold.process_id in workers]
        assert len(single) + sum(fold.calls for fold in folds) == 4000


def test_a_killed_process_keeps_what_has_begun(written, tmp_path):
    path = tmp_path / 'program.py'
    path.write_text(
        'import os, signal, gpu_tracker as gput\n'
        "with gput.region('outer'), gput.region('inner'): os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, path], env=written.environment, check=False, timeout=TIMEOUT)
    assert written.parents == [('outer', None), ('inner', 'outer')]
    assert written.ends == {}


@pytest.mark.parametrize(
    'trouble',
    [
        'os.closerange(3, 1000)',
        'os.chdir("/proc")',
        'os.unlink(os.environ["GPU_TRACKER_REGIONS"])',
        'resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))',
        'os.closerange(3, 1000); resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))',
        'os.setuid(65534) if not os.getuid() else None',
        'os.setuid(65534) if not os.getuid() else None; os.closerange(3, 1000)',
        'resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))',
    ],
)
def test_the_program_never_fails_for_its_regions(tmp_path, trouble):
    with made_log(joined=False) as written:
        copy = f'{written.path}.copy'
        os.link(written.path, copy)
        try:
            done = run(
                f"""
                import os, resource
                import gpu_tracker as gput
                with gput.region('before'): pass
                with gput.region('while'):
                    {trouble}
                    for _ in range(1000):
                        with gput.region('after', a=1): pass
                os.write(1, b'fine')
                """,
                written,
                tmp_path,
            )
            assert (done.stdout, done.stderr) == ('fine', '')
        finally:
            if not os.path.exists(written.path):
                os.link(copy, written.path)
            os.unlink(copy)
        assert written.begins[0].name == 'before'


def test_the_mark_before_an_exec_is_not_the_programs_own(written, tmp_path):
    run(
        """
        import os, sys
        filled = bytearray(b'x') * 300_000_000
        os.execv(sys.executable, [sys.executable, '-c',
            'import gpu_tracker as gput\\nwith gput.region("small"): pass'])
        """,
        written,
        tmp_path,
    )
    assert written.begin('small').peak < 150_000
    assert written.end('small').peak < 150_000


def test_nothing_heavy_is_imported():
    heavy = [
        'typing',
        'dataclasses',
        'contextlib',
        'logging',
        'json',
        'inspect',
        'functools',
        'psutil',
        'pynvml',
        'collections',
    ]
    done = subprocess.run(
        [
            sys.executable,
            '-S',
            '-c',
            f"""
import sys
sys.path[:0] = {sys.path!r}
import gpu_tracker
before = set(sys.modules)
with gpu_tracker.region('a'): pass
print([name for name in {heavy!r} if name in sys.modules and name not in before])
""",
        ],
        check=True,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.stdout == '[]\n'


def test_a_program_that_is_started_in_a_step_has_it_as_its_parent(written, tmp_path):
    written_environment = {**written.environment, 'GPU_TRACKER_REGION': '17'}
    subprocess.run(
        [sys.executable, '-c', "import gpu_tracker as gput\nwith gput.region('a'): pass"],
        env=written_environment,
        check=True,
        timeout=TIMEOUT,
    )
    assert isinstance(written.parsed[0], Begin)
    assert written.begin('a').parent == 17
