"""CPU seconds that no counter tells, against what wait4(2) tells the one who waits, and the processes themselves."""

from __future__ import annotations

import errno
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from support.cli_program import gpu_tracker
from support.programs import need_program
from support.truth import environment, need_root, need_task_clocks, tracked

if TYPE_CHECKING:
    from pathlib import Path

AS_NOBODY = ['setpriv', '--reuid=65534', '--clear-groups', '--inh-caps=-all,+dac_read_search,+dac_override']
"""The right to search folders is for an interpreter that only root may reach."""
NO_OTHER_RIGHTS = '--ambient-caps=-all,+dac_read_search,+dac_override'

FOREIGN = """
from support.truth.foreign import *
def work():
    {}
foreign = Foreign(work)
with gput.Tracker(process_id=foreign.pid, sleep_time=float(sys.argv[1])) as tracker:
    foreign.let_go()
    truth = foreign.truth()
print(json.dumps({{**seconds(tracker), 'truth': truth}}))
"""
"""Tracks a process that does ``work``, until its parent has waited for it."""

SWITCHES = 0.06
"""The part of what is used that may be missing: task clocks do not count switches between threads and the ends of
processes, and what the host of a virtual machine has taken is only known in ticks and for all processes together."""
END = 0.02
"""Seconds that the end of a process may take, or two ticks."""


@pytest.fixture(autouse=True)
def without_exit_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clocks alone say what counters miss."""
    monkeypatch.setenv('GPU_TRACKER_TASKSTATS', 'off')


@pytest.fixture(autouse=True)
def task_clocks() -> None:
    need_task_clocks()


def foreign(work: str, interval: float = 1.0, **options: Any) -> dict[str, Any]:
    return tracked(FOREIGN.format(work), interval, **options)


def assert_known(run: dict[str, Any]) -> None:
    known = run['main'] + run['descendants']
    assert run['truth'] * (1 - SWITCHES) - END <= known <= run['truth'] + END
    assert not run['is_lower_bound']


@pytest.mark.parametrize('interval', [0.1, 10.0])
@pytest.mark.parametrize('threads', [1, 4])
def test_a_process_whose_parent_waits_for_it_is_known_to_its_end(threads: int, interval: float) -> None:
    run = foreign(f'burn_in_threads(0.7, {threads})', interval)
    assert run['truth'] >= 0.7 * threads
    assert run['descendants'] == 0
    assert_known(run)


@pytest.mark.parametrize('interval', [0.1, 10.0])
def test_so_are_children_that_it_has_waited_for_apart_from_itself(interval: float) -> None:
    run = foreign('burn(0.2); [os.waitpid(child(lambda: burn(0.02)), 0) for _ in range(30)]', interval)
    assert run['truth'] >= 0.8
    assert 0.2 <= run['main'] <= run['truth'] - 0.55
    assert_known(run)


def test_and_threads_and_children_that_were_there_at_the_start() -> None:
    run = tracked(
        """
        from support.truth.foreign import *
        def work():
            wait, let_go = gate()
            told, tell = os.pipe()
            def follow():
                wait()
                burn_in_threads(0.2, 1)
            def ready():
                thread = threading.Thread(target=follow)
                thread.start()
                os.write(tell, b'.')
                thread.join()
            workers = [child(ready) for _ in range(2)]
            thread = threading.Thread(target=follow)
            thread.start()
            os.read(told, 1), os.read(told, 1)
            os.write(is_ready, b'.')
            first()
            let_go()
            thread.join()
            for worker in workers:
                os.waitpid(worker, 0)
        ready, is_ready = os.pipe()
        first, let_go = gate()
        foreign = Foreign(work)
        foreign.let_go()
        os.read(ready, 1)
        with gput.Tracker(process_id=foreign.pid, sleep_time=10) as tracker:
            let_go()
            truth = foreign.truth()
        print(json.dumps({**seconds(tracker), 'truth': truth}))
        """
    )
    assert 0.2 <= run['main'] <= 0.3
    assert run['descendants'] >= 0.39
    # What all of it had used before the start is in the truth as well: the ends and the starts of three processes.
    assert run['truth'] - 0.1 <= run['main'] + run['descendants'] <= run['truth'] + END


def test_children_that_it_ignores_are_known_too() -> None:
    run = foreign(
        'signal.signal(signal.SIGCHLD, signal.SIG_IGN); '
        'pids = [child(lambda: burn(0.02)) for _ in range(30)]; '
        'eventually(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids))'
    )
    assert run['truth'] == pytest.approx(run['main'], abs=END)  # wait4 does not tell them
    assert 0.6 * (1 - SWITCHES) <= run['descendants'] <= 0.6 + 30 * 0.01
    assert not run['is_lower_bound']


@pytest.mark.parametrize('interval', [0.1, 10.0])
def test_a_tracker_that_it_uses_itself_is_in_nobodys_figures(interval: float) -> None:
    run = foreign('with gput.Tracker(sleep_time=0.01): burn(0.5)', interval)
    assert run['descendants'] < 0.02
    assert_known(run)


def test_an_ordinary_user_may_have_this_too() -> None:
    need_root()
    need_program('setpriv')
    with open('/proc/sys/kernel/perf_event_paranoid', encoding='ascii') as setting:
        if int(setting.read()) > 2:
            pytest.skip('needs a perf_event_paranoid of 2 or less')
    run = tracked(
        """
        from support.truth.foreign import *
        foreign = Foreign(lambda: burn_in_threads(0.3, 2))
        with gput.Tracker(process_id=foreign.pid, sleep_time=10) as tracker:
            foreign.let_go()
            truth = foreign.truth()
        print(json.dumps({**seconds(tracker), 'truth': truth, 'user': os.getuid()}))
        """,
        before=[*AS_NOBODY, NO_OTHER_RIGHTS],
    )
    assert run['user'] == 65534
    assert_known(run)


@pytest.mark.parametrize('error', [errno.ENOSYS])  # EPERM: tests/truth/test_wrong_figures.py
def test_where_the_kernel_refuses_it_the_figure_is_a_lower_bound(error: int) -> None:
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


IGNORING = """
import os, signal, sys, time
if sys.argv[1:] == ['ignoring']:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
told, tell = os.pipe()
for _ in range(100):
    if os.fork() == 0:
        while time.process_time() < 0.02:
            pass
        os.write(tell, f'{time.process_time()}\\n'.encode())
        os._exit(0)
    try:
        os.wait()
    except ChildProcessError:
        pass
os.close(tell)
with open(told) as lines:
    print(sum(map(float, lines)))
"""
"""A program with children of 20 ms, of whom the kernel tells it nothing; prints what they say they have used."""
LOWER_BOUND = 'CPU utilization: at least what is reported\n'


def of_command(folder: Path, *words: str, interval: float) -> tuple[float, float, str]:
    """Return what the children of a command say they have used, what is reported, and what is printed of that."""
    file = folder / 'report.json'
    options = ('--verbose', '-f', 'json', '--tu=seconds', f'--st={interval}', f'--output={file}')
    run = gpu_tracker(*options, '--', *words, env=environment())
    usage = json.loads(file.read_text())
    mean = usage['cpu_utilization']['descendants']['mean_sum_percent']
    return float(run.stdout), mean / 100 * usage['compute_time']['time'], run.stderr


@pytest.mark.parametrize('interval', [0.1, 10.0])
def test_children_whose_end_a_command_ignores_from_its_start_are_counted(tmp_path: Path, interval: float) -> None:
    ignoring = ['/bin/sh', '-c', 'trap "" CHLD; exec "$@"', 'sh', sys.executable, '-c', IGNORING]
    truth, descendants, _ = of_command(tmp_path, *ignoring, interval=interval)
    assert truth >= 2
    assert descendants == pytest.approx(truth, rel=SWITCHES)


def test_those_whose_end_it_ignores_later_are_counted_from_soon_on_and_the_record_says_that(tmp_path: Path) -> None:
    words = [sys.executable, '-c', IGNORING, 'ignoring']
    truth, descendants, printed = of_command(tmp_path, *words, interval=0.1)
    assert truth >= 2
    assert truth * 0.85 <= descendants <= truth * (1 + SWITCHES)
    assert printed.endswith(LOWER_BOUND)


def test_the_record_of_a_command_that_waits_for_its_children_says_nothing_of_that(tmp_path: Path) -> None:
    truth, descendants, printed = of_command(tmp_path, sys.executable, '-c', IGNORING, interval=0.1)
    assert descendants == pytest.approx(truth, rel=SWITCHES)
    assert LOWER_BOUND not in printed


def test_children_that_the_tracked_block_ignores_are_counted() -> None:
    run = tracked(
        """
        from support.truth.foreign import *
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        told, tell = os.pipe()
        def work():
            burn(0.02)
            os.write(tell, f'{time.process_time()}\\n'.encode())
        with gput.Tracker(sleep_time=10) as tracker:
            for _ in range(50):
                pid = child(work)
                eventually(lambda: not os.path.exists(f'/proc/{pid}'))
            os.close(tell)
            with open(told) as lines:
                truth = sum(map(float, lines))
        print(json.dumps({**seconds(tracker), 'truth': truth}))
        """
    )
    assert run['descendants'] == pytest.approx(run['truth'], rel=SWITCHES)
    assert not run['is_lower_bound']


def test_so_are_those_of_a_child_that_has_no_file_to_say_so() -> None:
    run = tracked(
        """
        from support.truth.foreign import *
        import ctypes
        class Action(ctypes.Structure):
            _fields_ = [('handler', ctypes.c_void_p), ('mask', ctypes.c_byte * 128), ('flags', ctypes.c_int)]
        SA_NOCLDWAIT = 2
        told, tell = os.pipe()
        seen, let_go = gate()
        def work():
            burn(0.1)
            os.write(tell, f'{time.process_time()}\\n'.encode())
        with gput.Tracker(sleep_time=0.05) as tracker:
            room = ctypes.create_string_buffer(bytes(Action(None, flags=SA_NOCLDWAIT)), 256)
            assert ctypes.CDLL(None).sigaction(signal.SIGCHLD, room, None) == 0
            first = child(lambda: (burn(0.1), seen()))
            until(tracker, lambda now: now['cpu']['descendants'][0] >= 0.1)
            let_go()
            until(tracker, lambda now: now['record']['has_clocks'])
            for _ in range(20):
                pid = child(work)
                eventually(lambda: not os.path.exists(f'/proc/{pid}'))
            os.close(tell)
            with open(told) as lines:
                truth = sum(map(float, lines)) + 0.1
        print(json.dumps({**seconds(tracker), 'truth': truth}))
        """
    )
    assert run['descendants'] == pytest.approx(run['truth'], rel=SWITCHES)
    assert run['is_lower_bound']  # the first one's very last moments are not known
