"""Where ``--cgroup`` finds a group for a command in a whole hierarchy of version 2, and what it leaves behind."""

from __future__ import annotations

import json

from support.own_group import MEBIBYTE, OPTIONS
from support.vm import GROUPS, ORDINARY_USER, VirtualMachine
from support.vm.tracked import BUSY, WITHOUT_DISK, track


def test_groups_are_nested(machine: VirtualMachine):
    """The inner tracker is alone in the group that the outer one has made."""
    inner_words = ['gpu-tracker', *OPTIONS, '--', 'python', '-c', BUSY]
    done, outer = track(machine, *inner_words)
    own, _, inner_text = done.output.partition('\n')
    inner = json.loads(inner_text)['own_group']
    assert (inner['made_in'], outer['made_in']) == ('cgroup v2', 'cgroup v2')
    assert json.loads(own)['memory_peak'] <= inner['memory_peak'] < outer['memory_peak']
    assert json.loads(own)['cpu'] <= inner['cpu_seconds'] < outer['cpu_seconds']
    assert outer['written'] == inner['written'] == 8 * MEBIBYTE
    assert inner['max_tasks'] == 6
    assert outer['left_processes'] == 0


def test_an_ordinary_user_needs_a_group_that_is_delegated(machine: VirtualMachine, delegated: str):
    before = machine.read(f'{delegated}/cgroup.subtree_control')
    done, found = track(machine, 'python', '-c', WITHOUT_DISK, user=ORDINARY_USER, group=delegated)
    own = json.loads(done.output)
    assert (found['made_in'], found['problem']) == ('cgroup v2', None)
    assert own['memory_peak'] <= found['memory_peak'] <= own['memory_peak'] + MEBIBYTE
    assert found['max_tasks'] == 6
    assert (machine.names(delegated), machine.read(f'{delegated}/cgroup.subtree_control')) == ([], before)


def test_a_group_with_processes_of_others_gives_cpu_time_alone(machine: VirtualMachine, delegated: str):
    """The shell that has started gpu-tracker is not moved."""
    shell = ['sh', '-c', '"$@"; exit $?', 'sh', 'gpu-tracker', '--cgroup', '-f', 'json', '--', 'sleep', '0']
    done = machine.run(shell, user=ORDINARY_USER, group=delegated)
    found = json.loads(done.output)['own_group']
    assert (done.code, found['made_in'], found['memory_peak'], found['max_tasks']) == (0, 'cgroup v2', None, None)
    assert found['cpu_seconds'] > 0
    assert f'{delegated} has other processes in it (pid ' in found['problem']
    assert machine.names(delegated) == []


def test_a_command_runs_without_a_group_where_none_can_be_had(machine: VirtualMachine):
    done, found = track(machine, 'sleep', '0', user=ORDINARY_USER)
    reason = f'this user may make none in {GROUPS}; systemd does not run here'
    assert found == {**dict.fromkeys(found), 'unit': 'bytes', 'problem': reason}
    assert f'gpu-tracker: --cgroup: the command gets no control group of its own: {reason}\n' in done.errors


def test_a_container_with_control_groups_that_are_read_only_gives_none(machine: VirtualMachine):
    new_mounts, new_groups, bind, remount, read_only, private = 0x20000, 0x2000000, 0x1000, 0x20, 0x1, 0x40000
    program = f"""
import ctypes, os, sys
libc = ctypes.CDLL(None)
assert libc.unshare({new_mounts | new_groups}) == 0
assert libc.mount(None, b'/', None, {private | 0x4000}, None) == 0
assert libc.mount(b'none', b'{GROUPS}', None, {bind | remount | read_only}, None) == 0
os.execv(sys.executable, [sys.executable, '-m', 'gpu_tracker', '--cgroup', '-f', 'json', '--', 'sleep', '0'])
"""
    done = machine.run(['python', '-c', program])
    found = json.loads(done.output)['own_group']
    assert found['problem'].startswith('the control groups are mounted read-only, as in most containers; ')
    assert found['made_in'] is None


def test_the_group_of_a_tracker_that_was_killed_goes_with_the_next_run(machine: VirtualMachine):
    program = """
import os, signal, subprocess, sys
reading, writing = os.pipe()
tracker = subprocess.Popen(
    [sys.executable, '-m', 'gpu_tracker', '--cgroup', '--', 'sh', '-c', 'echo $$; exec sleep 600'],
    stdout=writing, stderr=writing,
)
pid = int(os.read(reading, 100))
tracker.kill()
tracker.wait()
print([name for name in os.listdir('/sys/fs/cgroup') if name.startswith('gpu-tracker-run-')])
os.kill(pid, signal.SIGKILL)
"""
    left = machine.run(['python', '-c', program])
    assert left.output.startswith("['gpu-tracker-run-"), left
    assert len(machine.names(GROUPS)) == 1
    track(machine, 'sleep', '0')
    machine.write(f'{GROUPS}/cgroup.subtree_control', '-memory -io -pids')  # as before the one that was killed
