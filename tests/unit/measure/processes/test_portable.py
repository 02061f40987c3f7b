from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest

from gpu_tracker.processes import SAMPLER_MARK, default_reader
from gpu_tracker.processes.portable import PortableProcessTree
from gpu_tracker.resources.context import open_process_tree
from gpu_tracker.resources.ram.portable import PortableRamReader

IDLE = 'import sys; print(flush=True); sys.stdin.read()'


@pytest.fixture
def child():
    with subprocess.Popen([sys.executable, '-c', IDLE], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process
        process.kill()


def opened(pid: int, **options: int) -> PortableProcessTree:
    return PortableProcessTree(pid, **({'own_pid': 0} | options))


def test_the_processes_are_those_of_the_direct_reader(child: subprocess.Popen[bytes]) -> None:
    portable = opened(os.getpid())
    direct = open_process_tree('proc', os.getpid(), own_pid=0)
    portable.refresh()
    assert portable.members.keys() == direct.members.keys() >= {os.getpid(), child.pid}
    for pid, process in portable.members.items():
        assert process.parent == direct.members[pid].parent
        assert process.resident == pytest.approx(direct.members[pid].resident, rel=0.05)
    assert portable.members[child.pid].threads == direct.members[child.pid].threads == 1
    for process in direct.members.values():
        direct._files.close(process)


def test_a_new_process_is_found_and_one_that_ends_is_told() -> None:
    tree = opened(os.getpid())
    with subprocess.Popen([sys.executable, '-c', IDLE], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        tree.refresh()
        assert process.pid in tree.members
        process.communicate()
    tree.refresh()
    assert process.pid not in tree.members
    assert process.pid in [member.pid for member in tree.gone]


def test_a_zombie_keeps_its_time_and_has_no_memory(child: subprocess.Popen[bytes]) -> None:
    tree = opened(child.pid)
    child.stdin.close()
    deadline = time.monotonic() + 300
    while psutil.Process(child.pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
    before = tree.root.own_cpu
    tree.refresh()
    assert (tree.root.ended, tree.root.resident, tree.root.threads, tree.root_gone) == (True, 0, 0, False)
    assert tree.root.own_cpu >= before
    assert PortableRamReader(tree).current()[0][0] is None
    child.wait()
    tree.refresh()
    assert tree.root_gone
    assert not tree.members


def test_a_process_that_is_older_than_its_parent_is_another_ones_child(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows leaves the ID of a parent that has ended, which another process may get."""
    started = psutil.Process.create_time
    monkeypatch.setattr(psutil.Process, 'create_time', lambda self: started(self) - 3600 * (self.pid == child.pid))
    assert child.pid not in opened(os.getpid()).members


def test_samplers_are_no_members(child: subprocess.Popen[bytes]) -> None:
    assert child.pid not in opened(os.getpid(), own_pid=child.pid).members
    words = [sys.executable, '-c', IDLE, SAMPLER_MARK]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        assert process.pid not in opened(os.getpid()).members
        process.communicate()


def test_there_is_no_such_process() -> None:
    with subprocess.Popen([sys.executable, '-c', '']) as process:
        pass
    for reader in ('psutil', 'proc'):
        with pytest.raises(ProcessLookupError):
            open_process_tree(reader, process.pid)


def test_sizes_add_up_and_what_is_private_or_shared_is_unknown(child: subprocess.Popen[bytes]) -> None:
    tree = opened(os.getpid())
    main, descendants, combined = PortableRamReader(tree).current()
    assert combined[0] == main[0] + descendants[0]
    assert main[0] == tree.root.resident
    for group in (main, descendants, combined):
        assert group[1:] == (None, None)


@pytest.mark.skipif(sys.platform != 'linux', reason='this machine does not run Linux')
def test_the_direct_reader_is_chosen_on_linux() -> None:
    assert default_reader() == 'proc'


def test_a_process_has_its_name_and_its_command_line(child: subprocess.Popen[bytes]) -> None:
    root = opened(child.pid).root
    assert (root.name, root.command_line) == (
        os.path.basename(sys.executable).encode(),
        f'{sys.executable}\0-c\0{IDLE}\0'.encode(),
    )
