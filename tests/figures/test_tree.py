"""Which processes count, with real ones: adopted, hidden, replaced, ended, another user's."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from support.programs import need_program
from support.truth import MEGABYTE, environment, need_root, tracked
from support.waiting import TIMEOUT

TRACKER = "gput.Tracker(sleep_time=float(sys.argv[1]), ram_unit='bytes', time_unit='seconds')"


def test_a_grandchild_stays_when_its_parent_ends() -> None:
    run = tracked(
        f"""
        wait, let_go = gate()
        part, let_part = gate()
        def grandchild():
            block = fill(100 * MEGABYTE)
            part()
            more = fill(200 * MEGABYTE)
            wait()
        with {TRACKER} as tracker:
            pid = child(lambda: (child(grandchild), wait()))
            until(tracker, lambda seen: seen['cpu']['threads'][1] == 2)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            let_part()
            until(tracker, lambda seen: (seen['ram']['descendants'][0] or 0) > 300 * MEGABYTE)
        let_go()
        report(tracker)
        """,
        0.05,
    )
    assert 300 * MEGABYTE < run['ram']['descendants']['total_rss'] < 350 * MEGABYTE
    assert run['usage']['cpu_utilization']['descendants_n_threads'] == 2


def test_a_process_that_was_forked_away_unseen_is_known_by_its_group() -> None:
    # The one between leads a group, and is seen; its grandchild comes and is adopted between two samples.
    run = tracked(
        f"""
        wait, let_go = gate()
        part, let_part = gate()
        def orphan():
            block = fill(100 * MEGABYTE)
            wait()
        def leader():
            os.setsid()
            part()
            child(lambda: child(orphan))
            os.wait()
        with {TRACKER} as tracker:
            pid = child(leader)
            until(tracker, lambda seen: seen['cpu']['threads'][1] == 1)
            let_part()
            os.waitpid(pid, 0)
            until(tracker, lambda seen: (seen['ram']['descendants'][0] or 0) > 100 * MEGABYTE)
        let_go()
        report(tracker)
        """,
        0.3,
    )
    assert 100 * MEGABYTE < run['ram']['descendants']['total_rss'] < 150 * MEGABYTE


def test_a_daemon_of_a_command_is_handed_to_the_launcher_and_counts() -> None:
    program = (
        'import os, time\n'
        'alive, life = os.pipe()\n'
        'if os.fork():\n    os.wait()\n    os.close(life)\n'
        'elif os.fork():\n    os._exit(0)\n'
        'else:\n'
        '    os.setsid()\n    end = time.process_time() + 0.5\n'
        '    block = bytearray(b"1") * 200_000_000\n'
        '    while time.process_time() < end: pass\n'
        '    os._exit(0)\n'
        'os.read(alive, 1)\n'  # until the daemon has ended
    )
    run = subprocess.run(
        [sys.executable, '-m', 'gpu_tracker', '-f', 'json', '--st', '0.1', '--ru=bytes', '--tu=seconds',
         '--', sys.executable, '-c', program],
        capture_output=True, text=True, timeout=TIMEOUT, check=True, env=environment(),
    )  # fmt: skip
    usage = json.loads(run.stdout)
    seconds = usage['cpu_utilization']['descendants']['mean_sum_percent'] / 100 * usage['compute_time']['time']
    assert 0.495 < seconds < 0.6
    assert usage['max_ram']['descendants']['total_rss'] > 200 * MEGABYTE


def test_a_program_that_replaces_itself_starts_anew_and_keeps_its_time() -> None:
    run = tracked(
        f"""
        wait, let_go = gate()
        def work():
            block = fill(200 * MEGABYTE)
            burn(0.3)
            wait()
            os.execv('/bin/cat', ['cat'])
        read, write = os.pipe()
        with {TRACKER} as tracker:
            pid = child(lambda: (os.dup2(read, 0), os.close(write), work()))
            until(tracker, lambda seen: seen['cpu']['descendants'][0] > 0.3)
            let_go()
            eventually(lambda: open(f'/proc/{{pid}}/comm').read() == 'cat\\n')
            before = totals(tracker)['samples']
            until(tracker, lambda seen: seen['samples'] > before + 2)
            size = status(pid, 'VmRSS')
            os.close(write)
            used = os.wait4(pid, 0)[2]
        report(tracker, size=size, truth=used.ru_utime + used.ru_stime)
        """,
        0.1,
    )
    assert run['size'] < 10 * MEGABYTE
    assert run['cpu']['descendants'] == pytest.approx(run['truth'], rel=0.02, abs=0.02)
    assert 200 * MEGABYTE < run['ram']['descendants']['total_rss'] < 250 * MEGABYTE


def test_a_process_that_ends_while_it_is_tracked_keeps_its_figures() -> None:
    run = tracked(
        """
        wait, let_go = gate()
        wait_to_end, let_end = gate()
        def work():
            wait()
            block = fill(200 * MEGABYTE)
            burn(0.3)
            wait_to_end()
            burn(0.2)
        pid = child(work)
        with gput.Tracker(sleep_time=0.05, process_id=pid, ram_unit='bytes', time_unit='seconds') as tracker:
            let_go()
            until(tracker, lambda seen: (seen['ram']['main'][0] or 0) > 200 * MEGABYTE)
            let_end()
            eventually(lambda: os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG))
        used = os.wait4(pid, 0)[2]
        report(tracker, truth=used.ru_utime + used.ru_stime)
        """
    )
    assert run['cpu']['main'] == pytest.approx(run['truth'], rel=0.02, abs=0.02)
    assert 200 * MEGABYTE < run['ram']['main']['total_rss'] < 230 * MEGABYTE
    assert run['ram']['descendants']['total_rss'] == 0


def test_a_process_whose_first_thread_has_ended_is_no_zombie() -> None:
    need_program('cc')
    run = tracked(
        f"""
        import tempfile
        folder = tempfile.mkdtemp()
        source = '''
        #include <pthread.h>
        #include <stdlib.h>
        #include <string.h>
        #include <unistd.h>
        static void *work(void *unused) {{
            char *block = malloc(100000000);
            memset(block, 1, 100000000);
            while (read(0, block, 1) > 0) {{}}
            _exit(block[99999999] - 1);
        }}
        int main(void) {{
            pthread_t thread;
            pthread_create(&thread, NULL, work, NULL);
            pthread_exit(NULL);
        }}
        '''
        subprocess.run(['cc', '-x', 'c', '-', '-o', folder + '/program', '-pthread'], input=source.encode(), check=True)
        with {TRACKER} as tracker:
            process = subprocess.Popen([folder + '/program'], stdin=subprocess.PIPE)
            eventually(lambda: ') Z ' in open(f'/proc/{{process.pid}}/stat').read())
            until(tracker, lambda seen: (seen['ram']['descendants'][1] or 0) > 100 * MEGABYTE)
            process.communicate()
        report(tracker)
        """,
        0.1,
    )
    assert 100 * MEGABYTE < run['ram']['descendants']['total_rss'] < 110 * MEGABYTE


OTHER_USERS = """
import mmap, os, sys, time
block = bytearray(b'1') * 100_000_000
def child():
    own = bytearray(b'1') * 200_000_000
    os.write(1, b'.')
    sys.stdin.read()
if os.fork():
    os.wait()
else:
    child()
"""


def test_processes_of_another_user_count_with_one_warning() -> None:
    need_root()
    need_program('setpriv')
    # The right to search folders is for an interpreter that only root may reach.
    nobody = ['setpriv', '--reuid=65534', '--clear-groups', '--inh-caps=-all,+dac_read_search,+dac_override']
    with subprocess.Popen([sys.executable, '-c', OTHER_USERS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.read(1)
        run = tracked(
            """
            import logging
            warnings = []
            class Keep(logging.Handler):
                def emit(self, record):
                    warnings.append(record.getMessage())
            logging.getLogger('gpu_tracker').addHandler(Keep())
            pid = int(sys.argv[1])
            with gput.Tracker(sleep_time=0.05, process_id=pid, ram_unit='bytes', time_unit='seconds') as tracker:
                samples = totals(tracker)['samples']
                until(tracker, lambda seen: seen['samples'] > samples)
                truth = status(pid, 'VmRSS')
            report(tracker, truth=truth, warnings=warnings, user=os.getuid())
            """,
            other.pid,
            before=[*nobody, '--ambient-caps=-all,+dac_read_search,+dac_override'],
        )
        other.communicate()
    assert run['user'] == 65534
    assert len(run['warnings']) == 1
    assert 'belong to another user' in run['warnings'][0]
    main, descendants = run['ram']['main'], run['ram']['descendants']
    assert main['total_rss'] == pytest.approx(run['truth'], rel=0.01)
    assert 300 * MEGABYTE < descendants['total_rss'] < 350 * MEGABYTE
    assert main['private_rss'] is main['shared_rss'] is None
    assert descendants['private_rss'] is descendants['shared_rss'] is None
    assert run['usage']['cpu_utilization']['descendants_n_threads'] == 1
