"""``--cgroup`` on a machine where version 2 has all controllers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from support.lack_of_memory import LET_ONE_BE_KILLED
from support.own_group import DAEMON, MEBIBYTE, OPTIONS, OWN_FILES
from support.vm import ORDINARY_USER
from support.vm.tracked import BUSY, track

if TYPE_CHECKING:
    from support.vm import VirtualMachine


@pytest.mark.figures
def test_the_figures_are_those_of_the_groups_own_files(machine: VirtualMachine):
    done, found = track(machine, 'python', '-c', BUSY)
    own = json.loads(done.output)
    assert (found['made_in'], found['problem']) == ('cgroup v2', None)
    assert own['memory_peak'] <= found['memory_peak'] <= own['memory_peak'] + MEBIBYTE
    assert 90 * MEBIBYTE < found['memory_peak'] < 110 * MEBIBYTE
    assert own['cpu'] <= found['cpu_seconds'] <= own['cpu'] + 1
    assert found['user_cpu_seconds'] + found['system_cpu_seconds'] == pytest.approx(found['cpu_seconds'], abs=1e-3)
    assert found['cpu_seconds'] > 0.3
    assert [found['read'], found['written']] == own['storage'] == [3 * MEBIBYTE, 8 * MEBIBYTE]
    assert found['max_tasks'] == own['max_tasks'] == 6
    assert (found['oom_kills'], found['left_processes']) == (0, 0)


@pytest.mark.figures
def test_the_cpu_time_of_a_daemon_counts_exactly(machine: VirtualMachine):
    """Nobody waits for it, and it has ended before the command."""
    done, found = track(machine, 'python', '-S', '-c', DAEMON)
    of_daemon, of_main = json.loads(done.output)
    assert of_daemon >= 0.3
    assert of_daemon + of_main <= found['cpu_seconds'] <= of_daemon + of_main + 0.5
    assert found['left_processes'] == 0


def test_what_a_command_leaves_running_is_ended_with_it(machine: VirtualMachine):
    program = """
import os, signal, time
def leave(work):
    if os.fork() == 0:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
        while True: work()
def fork():
    time.sleep(0.01)
    if os.fork(): os._exit(0)
leave(lambda: time.sleep(60))
leave(fork)
print(os.getpid())
"""
    done, found = track(machine, 'python', '-S', '-c', program)
    assert found['left_processes'] in {2, 3}
    assert found['problem'] is None
    left = machine.run(
        [
            'python',
            '-c',
            "import os; print([open(f'/proc/{pid}/cmdline').read() for pid in os.listdir('/proc') if pid.isdigit()])",
        ]
    )
    assert 'leave(fork)' not in left.output, done


def test_a_child_that_is_killed_for_lack_of_memory_is_reported_though_the_command_ends_well(machine: VirtualMachine):
    program = f"""{OWN_FILES}{LET_ONE_BE_KILLED}
with open(f'{{folder_of()}}/memory.max', 'w') as file: file.write(str(50 * {MEBIBYTE}))
print(let_one_be_killed(f'{{folder_of()}}/memory.current', '100'))
"""
    done, found = track(machine, 'python', '-S', '-c', program)
    assert done.output == '-9\n'
    assert found['oom_kills'] == 1
    assert 45 * MEBIBYTE < found['memory_peak'] <= 50 * MEBIBYTE


def test_kills_in_the_group_of_a_nested_tracker_count_in_both(machine: VirtualMachine):
    program = f"""{OWN_FILES}{LET_ONE_BE_KILLED}
with open(f'{{folder_of()}}/memory.max', 'w') as file: file.write(str(50 * {MEBIBYTE}))
print(let_one_be_killed(f'{{folder_of()}}/memory.current', '100'))
"""
    done, outer = track(machine, 'gpu-tracker', *OPTIONS, '--', 'python', '-S', '-c', program)
    code, _, inner = done.output.partition('\n')
    assert (code, json.loads(inner)['own_group']['oom_kills'], outer['oom_kills']) == ('-9', 1, 1)


def test_a_group_with_a_limit_is_ended_as_a_whole(machine: VirtualMachine):
    program = f"""
import os, sys
from gpu_tracker.control_groups.obtaining import obtain
reading, writing = os.pipe()
pid = os.fork()
if pid == 0:
    os.read(reading, 1)
    if os.fork() == 0:
        grown = bytearray(b'x') * (100 * {MEBIBYTE})
    os.wait()
    os._exit(0)
group = obtain(pid)
group.limit_memory(50 * {MEBIBYTE})
os.write(writing, b'1')
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
print(group.end()['oom_kills'])
"""
    # The kernel counts the process twice that it has chosen before it ends all.
    assert machine.run(['python', '-c', program]).output in {'-9\n2\n', '-9\n3\n'}


def test_a_limit_of_memory_is_kept_by_the_kernel(machine: VirtualMachine):
    """The first sample in a long interval would be too late; all of the group is ended at once."""
    program = f"""
import os, time
if os.fork() == 0:
    os.setsid()
    grown = bytearray(b'x') * (100 * {MEBIBYTE})
time.sleep(600)
"""
    options = [*OPTIONS, '--memory-limit=50MiB', '--st=60', '-o', '/tmp/limited.json']
    done = machine.run(['gpu-tracker', *options, '--', 'python', '-S', '-c', program])
    assert done.code == 124, done
    assert (
        '--memory-limit=50MiB (52,428,800 bytes) was exceeded: for lack of memory the kernel has ended '
        in done.output + done.errors
    )
    found = json.loads(machine.read('/tmp/limited.json'))
    assert found['termination_reason'] == 'memory_limit'
    assert 45 * MEBIBYTE < found['own_group']['memory_peak'] <= 50 * MEBIBYTE


def test_a_limit_of_memory_without_a_group_is_soft(machine: VirtualMachine):
    words = ['gpu-tracker', '--cgroup', '--memory-limit=1GB', '-f', 'json', '--', 'python', '-S', '-c', '0']
    done = machine.run(words, user=ORDINARY_USER)
    assert done.code == 0
    limited = '--memory-limit=1GB is a soft limit in this run, checked at each sample: there is no control group'
    assert limited in done.errors
