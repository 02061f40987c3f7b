"""What the kernel reports of processes that end, beside what they know of themselves."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from benchmarks.environments import CHECKOUT

from gpu_tracker.processes.ended import EndedProcesses
from gpu_tracker.processes.exit_records import ExitRecords
from gpu_tracker.processes.fork_notices import ForkNotices
from gpu_tracker.processes.linux import LinuxProcessTree
from support.cli_program import gpu_tracker
from support.programs import need_program
from support.truth import MEGABYTE, environment, tracked
from support.truth.figures import COUNTERS
from support.waiting import eventually

WITHOUT_RIGHT = ('setpriv', '--bounding-set=-net_admin', '--inh-caps=-net_admin')


def need(tool: str) -> None:
    need_program(tool)


@pytest.fixture(autouse=True)
def right() -> None:
    try:
        ExitRecords().close()
    except PermissionError:
        pytest.skip('needs root, with CAP_NET_ADMIN, to read the ends of processes')
    except OSError as error:
        pytest.skip(f'this machine does not report the ends of processes: {error}')


@pytest.fixture(scope='module')
def children(tmp_path_factory: pytest.TempPathFactory) -> str:
    need('cc')
    folder = tmp_path_factory.mktemp('children')
    source, program = CHECKOUT / 'benchmarks' / 'ended_children.c', folder / 'children'
    subprocess.run(['cc', '-O1', '-w', '-o', program, source], check=True)
    return str(program)


TRACKED = """
import json, subprocess, sys
import gpu_tracker as gput
kept = bytearray(b'\\1') * int(sys.argv[1])
with gput.Tracker(sleep_time=10, time_unit='seconds', ram_unit='bytes', sections=['io']) as tracker:
    truth = float(subprocess.run(sys.argv[2:], stdout=subprocess.PIPE, check=True).stdout)
usage, sampling = tracker.resource_usage, tracker.sampling
print(json.dumps({
    'truth': truth,
    'cpu': usage.cpu_utilization.descendants.mean_sum_percent / 100 * tracker._run.totals['seconds'],
    'ram': usage.max_ram.descendants.total_rss,
    'combined': usage.max_ram.combined.total_rss,
    'bounds': {
        group: [getattr(sampling, f'{group}_ram').lower, getattr(sampling, f'{group}_ram').upper]
        for group in ('main', 'descendants', 'combined')
    },
    'faults': usage.io.descendants.minor_page_faults,
    'reported': sampling.exit_records,
    'lost': sampling.exit_records_are_lost,
    'is_lower_bound': sampling.cpu_is_lower_bound,
    'text': str(sampling),
}))
"""


TOGETHER = r"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static long resident(void) {
    char line[200];
    long size = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, file)) sscanf(line, "VmHWM: %ld", &size);
    fclose(file);
    return size * 1024;
}

/* NUMBER children have MEGABYTES each at the same time. HOW: waited for, ignored, double-forked. */
int main(int count, char **words) {
    char how = words[1][0];
    int number = atoi(words[2]), ready[2], go[2];
    size_t size = (size_t)atoi(words[3]) << 20;
    long sum = 0, one;
    char byte = 0;
    pipe(ready), pipe(go);
    if (how == 'i') signal(SIGCHLD, SIG_IGN);
    for (int i = 0; i < number; i++) {
        if (fork() == 0) {
            if (how == 'd' && fork()) _exit(0);
            close(go[1]);
            memset(mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, size);
            one = resident();
            write(ready[1], &one, sizeof one);
            read(go[0], &byte, 1);
            _exit(0);
        }
    }
    for (int i = 0; i < number; i++) read(ready[0], &one, sizeof one), sum += one;
    close(go[1]);
    if (how != 'i') for (int i = 0; i < number; i++) wait(NULL);
    printf("%ld\n", sum);
    return 0;
}
"""

OF_PID = """
import json, sys
import gpu_tracker as gput
tracker = gput.Tracker(process_id=int(sys.argv[1]), sleep_time=10, time_unit='seconds')
tracker.start()
print('started', flush=True)
sys.stdin.read()
tracker.stop()
usage = tracker.resource_usage
cpu = usage.cpu_utilization.descendants.mean_sum_percent / 100 * tracker._run.totals['seconds']
print(json.dumps([cpu, tracker.sampling.exit_records]))
"""


def run(*words: object, kept: int = 0, **variables: str) -> dict[str, Any]:
    return tracked(TRACKED, kept, *words, **variables)


@pytest.mark.parametrize('how', ['waited for', 'ignored', 'double-forked'])
def test_children_of_a_millisecond_count_whoever_waits_for_them(children: str, how: str) -> None:
    found = run(children, how, 300, 1, 0)
    assert found['reported'] == (601 if how == 'double-forked' else 301)
    assert not found['lost']
    # Of the others, clocks may have everything as well, and else what is added is a bit too little.
    assert not found['is_lower_bound'] or how != 'waited for'
    # Beside them there are the forks of their parent, and the ends of those that somebody in the tree has waited for.
    assert 0.95 * found['truth'] < found['cpu'] < 2.5 * found['truth'] + 0.1
    assert 'Processes reported by the kernel at their end: ' in found['text']


def test_without_these_reports_daemons_are_not_known(children: str) -> None:
    found = run(children, 'double-forked', 300, 1, 0, GPU_TRACKER_TASKSTATS='off')
    assert found['reported'] is None
    assert 'reported by the kernel' not in found['text']


def test_the_peak_of_a_short_child_counts_though_main_is_larger(children: str) -> None:
    found = run(children, 'waited for', 1, 1, 64, kept=200 * MEGABYTE)
    assert 64 << 20 <= found['ram'] <= 80 * MEGABYTE
    assert found['combined'] >= 200 * MEGABYTE


@pytest.mark.parametrize('how', ['waited for', 'ignored', 'double-forked'])
def test_bounds_hold_where_unseen_children_were_there_at_once(tmp_path: Path, how: str) -> None:
    need('cc')
    (tmp_path / 'together.c').write_text(TOGETHER)
    program = tmp_path / 'together'
    subprocess.run(['cc', '-O1', '-w', '-o', program, tmp_path / 'together.c'], check=True)
    found = run(program, how, 3, 48, kept=100 * MEGABYTE)
    bounds, truth = found['bounds'], found['truth']  # what the three had together, as they know it of themselves
    assert truth >= 3 * 48 << 20
    for group, true in (('descendants', truth), ('combined', truth + 100 * MEGABYTE)):
        lower, upper = bounds[group]
        assert lower <= true + 20 * MEGABYTE  # the interpreter, and the program that forks
        assert upper is None or upper >= true - COUNTERS
    assert bounds['descendants'][0] >= 48 << 20
    assert bounds['combined'][0] >= 100 * MEGABYTE


def test_page_faults_of_children_that_are_ignored_count(children: str) -> None:
    found = run(children, 'ignored', 20, 1, 1)
    assert found['faults'] >= 0.9 * 20 * 256


def test_what_a_process_that_is_tracked_by_its_pid_has_left_is_known(children: str) -> None:
    with subprocess.Popen(
        ['sh', '-c', f'read go; exec {children} double-forked 100 1 0'],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        tracker = subprocess.Popen(
            [
                sys.executable,
                '-c',
                OF_PID,
                str(process.pid),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        assert tracker.stdout.readline() == 'started\n'
        truth = float(process.communicate('\n')[0])
    cpu, reported = json.loads(tracker.communicate()[0])
    assert reported == 200
    assert cpu > 0.95 * truth


def test_what_a_subreaper_has_waited_for_in_place_of_another_counts_once(tmp_path: Path) -> None:
    """A process ends without having waited for its child; its own parent waits for it, the command for the child."""
    program = """
import ctypes, os, time
SUBREAPER = 36
ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
if os.fork() == 0:
    if os.fork() == 0:
        if os.fork() == 0:
            while time.process_time() < 0.4: pass
            os._exit(0)
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        time.sleep(0.3)
        os._exit(0)
    os.wait()
    time.sleep(2)
    os._exit(0)
os.wait()
time.sleep(0.5)
"""
    report = tmp_path / 'report.json'
    done = gpu_tracker('--tu=seconds', '-f', 'json', '-o', str(report), '--', sys.executable, '-S', '-c', program)
    assert done.returncode == 0, done.stderr
    found = json.loads(report.read_text())
    cpu = found['cpu_utilization']['descendants']['mean_sum_percent'] / 100 * found['compute_time']['time']
    assert 0.39 < cpu < 0.6


def test_without_the_right_all_is_as_before(children: str) -> None:
    need('setpriv')
    found = tracked(TRACKED, 0, children, 'waited for', 100, 1, 0, before=WITHOUT_RIGHT)
    assert found['reported'] is None
    assert found['cpu'] >= 0.8 * found['truth']


def test_a_switch_that_is_neither_on_nor_off_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, '-c', 'import gpu_tracker as gput; gput.Tracker().start()'],
        capture_output=True,
        text=True,
        check=False,
        env=environment(GPU_TRACKER_TASKSTATS='maybe'),
    )
    assert done.stderr.splitlines()[-1].endswith(
        "the environment variable GPU_TRACKER_TASKSTATS must be on or off, not 'maybe'"
    )


class Here:
    """The processes that this test ends."""

    def __init__(self) -> None:
        self.tree = LinuxProcessTree(os.getpid(), own_pid=1)
        self._sources = ExitRecords(), ForkNotices()
        self.ended = EndedProcesses(self.tree, *self._sources, is_launched=False, counts_amounts=True)
        self.refresh()
        self.ended.begin()

    def leave_room_for_few(self) -> None:
        """Let no more than some 4 KB wait from now on, of what the whole machine does."""
        for source in self._sources:
            source._socket._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)

    def refresh(self) -> None:
        self.ended.take(time.monotonic())
        self.tree.refresh()

    def count(self) -> int:
        self.refresh()
        return self.ended.count


@pytest.fixture
def here() -> Any:
    found = Here()
    yield found
    found.ended.close()


FIVE_THOUSAND = """
import os
for _ in range(50):
    children = [os.fork() or os._exit(0) for _ in range(100)]
    for child in children:
        os.waitpid(child, 0)
"""
"""Starts them in little time: all that ends on the machine meanwhile takes of the room that there is for them."""


def end_children(number: int) -> None:
    for _ in range(number):
        child = os.posix_spawn('/bin/true', ['true'], os.environ)
        os.waitpid(child, 0)


def test_more_ends_than_there_is_room_for_are_noticed(here: Here) -> None:
    end_children(1)
    assert eventually(here.count)  # what shows that records arrive needs room as well
    here.leave_room_for_few()
    end_children(200)
    here.refresh()
    assert here.ended.record()['exit_records_lost'] is True
    assert here.ended.count < 200


def test_5000_processes_at_once_are_not_too_many(here: Here) -> None:
    subprocess.run([sys.executable, '-S', '-c', FIVE_THOUSAND], check=True)
    assert eventually(lambda: here.count() >= 5001)
    assert here.ended.count == 5001  # with the one that has started the others
    assert not here.ended.is_incomplete


def burn_in_child(seconds: float) -> tuple[int, float]:
    """Return the number of a child that has ended, and its CPU seconds."""
    child = os.fork()
    if child == 0:
        while time.process_time() < seconds:
            pass
        os._exit(0)
    used = os.wait4(child, 0)[2]
    return child, used.ru_utime + used.ru_stime


def test_two_processes_with_the_same_number_one_after_the_other_count_both(here: Here) -> None:
    last_number = Path('/proc/sys/kernel/ns_last_pid')
    if not last_number.exists():
        pytest.skip('this machine has no ns_last_pid (CONFIG_CHECKPOINT_RESTORE)')
    pid, used = burn_in_child(0.1)
    truth, number, again = used, 1, 0
    deadline = time.monotonic() + 200
    while again != pid and time.monotonic() < deadline:  # somebody else may start a process in between
        last_number.write_text(str(pid - 1))
        again, used = burn_in_child(0.02)
        truth, number = truth + used, number + 1
    assert again == pid
    assert eventually(lambda: here.count() >= number)
    assert here.ended.count == number
    assert not here.ended.is_incomplete
    recorded = here.ended.sums.parents[os.getpid()].children.seconds
    assert 0.8 * truth < recorded < 1.1 * truth + 0.05


def test_a_program_that_calls_exec_and_one_with_threads_are_one_process_each(here: Here) -> None:
    program = 'import threading\nfor _ in range(3): threading.Thread(target=sum, args=([],)).start()'
    subprocess.run(['/bin/sh', '-c', 'exec "$0" -S -c "$1"', sys.executable, program], check=True)
    assert eventually(lambda: here.count() >= 1)
    assert here.ended.count == 1


def test_none_are_opened_where_that_is_refused(tmp_path: Path) -> None:
    need('setpriv')
    program = (
        'import os; from gpu_tracker.processes.ended import open_ended; '
        'print(open_ended(None, is_launched=False, counts_amounts=False))'
    )
    words = [*WITHOUT_RIGHT, sys.executable, '-c', program]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, env=environment(), cwd=tmp_path)
    assert done.stdout == 'None\n'
