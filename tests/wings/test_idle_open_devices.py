"""Who holds devices open, among all real processes of the machine."""

from __future__ import annotations

import array
import contextlib
import os
import socket
import stat
import subprocess
import sys

import pytest

from gpu_tracker.idle.observing.device_events import DeviceEvents
from gpu_tracker.idle.observing.device_files import find_devices
from gpu_tracker.idle.observing.gpu_processes import Programs
from gpu_tracker.idle.observing.open_devices import OpenDevices
from support.claims.claim_actors import tool
from support.waiting import eventually

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason='needs root, which makes device nodes')

# Opens and closes what it is told, a line each, and answers.
HOLDER = """
import sys
held = {}
for line in sys.stdin:
    word, path = line.split()
    if word == 'open':
        held[path] = open(path)
    else:
        held.pop(path).close()
    print('done', flush=True)
"""
# Ends its first thread while another goes on, with a file open.
WITHOUT_FIRST_THREAD = """
import ctypes, platform, sys, threading
file = open(sys.argv[1])
threading.Thread(target=sys.stdin.read).start()
ctypes.CDLL(None).syscall({'x86_64': 60, 'aarch64': 93}[platform.machine()], 0)
"""
# Receives a descriptor from its standard input, a socket, and keeps it.
RECEIVER = """
import array, socket, sys
mine = socket.socket(fileno=0)
_, passed, _, _ = mine.recvmsg(1, socket.CMSG_SPACE(4))
mine.send(b'x')
mine.recv(1)
"""
# The interpreter may be where other users cannot reach it: it is started before.
UNSEEN = """
import os, sys
from gpu_tracker.idle.observing.device_files import Identity
from gpu_tracker.idle.observing.open_devices import OpenDevices
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
holders = OpenDevices()
holders.poll({0: Identity(True, 195, 0)})
print(len(holders.unseen), holders.are_others_hidden)
"""


class Process:
    """A process that opens and closes files when it is told."""

    def __init__(self, process) -> None:
        self.process = process
        self.pid = process.pid

    def tell(self, words) -> None:
        self.process.stdin.write(f'{words}\n')
        self.process.stdin.flush()
        assert self.process.stdout.readline() == 'done\n'


@contextlib.contextmanager
def started(*words, **options):
    settings = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE, 'text': True}
    with subprocess.Popen([sys.executable, '-c', *words], **(settings | options)) as process:
        try:
            yield Process(process)
        finally:
            process.kill()


@pytest.fixture
def gpu(tmp_path):
    (tmp_path / 'nvidia0').touch()
    return tmp_path / 'nvidia0'


def test_sees_a_foreign_process_open_and_close_a_device(gpu):
    holders = OpenDevices()
    with started(HOLDER) as one, started(HOLDER) as two:
        devices = find_devices(str(gpu.parent))
        assert holders.poll(devices) == {0: set()}
        one.tell(f'open {gpu}')
        assert holders.poll(devices) == {0: {one.pid}}
        two.tell(f'open {gpu}')
        assert holders.poll(devices) == {0: {one.pid, two.pid}}
        one.tell(f'close {gpu}')
        assert holders.poll(devices) == {0: {two.pid}}
    assert holders.poll(devices) == {0: set()}


def test_sees_a_process_whose_first_thread_has_ended(gpu):
    holders = OpenDevices()
    devices = find_devices(str(gpu.parent))
    with started(WITHOUT_FIRST_THREAD, str(gpu)) as one:
        eventually(lambda: 'Z' in _state(one.pid))
        assert holders.poll(devices) == {0: {one.pid}}
        assert OpenDevices().poll(devices) == {0: {one.pid}}


def test_sees_a_descriptor_that_was_passed_to_a_process(gpu):
    holders = OpenDevices()
    devices = find_devices(str(gpu.parent))
    mine, theirs = socket.socketpair()
    with mine, theirs, started(RECEIVER, stdin=theirs, stdout=None) as one:
        assert holders.poll(devices) == {0: set()}
        handle = os.open(gpu, os.O_RDONLY)
        mine.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [handle]))])
        os.close(handle)
        assert mine.recv(1) == b'x'
        assert holders.poll(devices) == {0: {one.pid}}


def test_what_a_process_inherits_it_holds(gpu):
    with open(gpu) as file, started('import signal; signal.pause()', stdin=file, stdout=None) as one:
        file.close()
        assert OpenDevices().poll(find_devices(str(gpu.parent))) == {0: {one.pid}}


@needs_root
def test_an_own_node_of_the_same_number_counts_as_in_a_container(tmp_path):
    (tmp_path / 'dev').mkdir()
    (tmp_path / 'container').mkdir()
    for folder in ('dev', 'container'):
        _make_node(tmp_path / folder / 'nvidia0', (1, 5))
    _make_node(tmp_path / 'dev' / 'nvidia1', (1, 9))
    devices = find_devices(str(tmp_path / 'dev'))
    with started(HOLDER) as one:
        one.tell(f'open {tmp_path / "container" / "nvidia0"}')
        holders = OpenDevices().poll(devices)
        assert one.pid in holders[0]
        assert one.pid not in holders[1]


@needs_root
def test_a_node_with_the_number_of_dev_null_is_not_held_by_all_that_hold_dev_null(tmp_path):
    _make_node(tmp_path / 'nvidia0', (1, 3))
    devices = find_devices(str(tmp_path))
    with started(HOLDER) as one:
        one.tell('open /dev/null')
        assert OpenDevices().poll(devices) == {0: set()}
        one.tell(f'open {tmp_path / "nvidia0"}')
        assert OpenDevices().poll(devices) == {0: {one.pid}}


def seen_by_nobody(options: str) -> list[str]:
    """Return what an ordinary user sees in a /proc that is mounted with some options."""
    script = f'mount -t proc -o {options} proc /proc && exec "$@"'
    words = [*tool('unshare', '--mount', 'sh', '-c', script, 'sh'), sys.executable, '-c', UNSEEN]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()


@needs_root
def test_counts_what_an_ordinary_user_cannot_see():
    unseen, hidden = seen_by_nobody('hidepid=0')
    assert int(unseen) > 0
    assert hidden == 'False'


@needs_root
def test_knows_that_proc_hides_others_from_an_ordinary_user():
    assert seen_by_nobody('hidepid=2') == ['0', 'True']


def test_an_open_wakes_and_the_holder_is_there(gpu):
    wake = DeviceEvents(str(gpu.parent))
    wake.watch([0])
    holders = OpenDevices()
    devices = find_devices(str(gpu.parent))
    holders.poll(devices)
    with started(HOLDER) as one:
        one.tell(f'open {gpu}')
        assert wake.drain().opened == {0}
        assert holders.poll(devices) == {0: {one.pid}}
        one.tell(f'close {gpu}')
        assert wake.drain().closed == {0}
        assert holders.poll(devices) == {0: set()}
    wake.close()


def test_names_a_real_script_and_its_descendants(tmp_path):
    script = tmp_path / 'a-job-with-a-long-name.sh'
    script.write_text('#!/bin/sh\nsleep 100 &\necho $!\nwait\n')
    script.chmod(stat.S_IRWXU)
    with subprocess.Popen([script], stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            grandchild = int(process.stdout.readline())
            programs = Programs()
            assert programs.describe(process.pid).program == 'a-job-with-a-long-name.sh'
            assert programs.names(process.pid)[0] == 'a-job-with-a-lo'
            assert programs.is_ignored(process.pid, ['a-job-with-a-long-name.sh'])
            assert programs.is_ours(grandchild, {process.pid})
            assert not programs.is_ours(os.getpid(), {process.pid})
        finally:
            os.killpg(process.pid, 9)


def _make_node(path, number) -> None:
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(*number))
        path.open('rb').close()
    except PermissionError:
        pytest.skip('needs root, with the right to make and open device nodes')


def _state(pid) -> str:
    with open(f'/proc/{pid}/stat') as file:
        return file.read().rpartition(')')[2].split()[0]
