"""DRM clients of processes, each once, found in a folder as of proc(5)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.gpus.drm.clients import LISTED_AGAIN, Clients, listed_again
from support.gpus.drm_tree import DrmTree, browser
from support.tracked_program import answer, as_root

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def tree(tmp_path: Path) -> DrmTree:
    return DrmTree(tmp_path)


def lines(client_id: int, memory: int = 100, device: str = '0000:03:00.0') -> list[str]:
    return [
        'drm-driver:\tamdgpu',
        f'drm-client-id:\t{client_id}',
        f'drm-pdev:\t{device}',
        f'drm-memory-vram:\t{memory}',
    ]


def found(reader: Clients, pids: set[int] | None, now: float) -> list[tuple[int, str, int | None]]:
    """Return pid, client ID and bytes of each client."""
    return sorted(
        (holding.pid, holding.client.key[1], holding.client.memory(is_integrated=False))
        for holding in reader.read(pids, now)
    )


def unnoticed(tree: DrmTree, pid: int) -> os.stat_result:
    """Return what :func:`hide` needs."""
    return (tree.proc / str(pid) / 'fd').stat()


def hide(tree: DrmTree, pid: int, before: os.stat_result) -> None:
    """Make the folder of descriptors look as before: in proc(5), only their number shows there."""
    folder = tree.proc / str(pid) / 'fd'
    os.utime(folder, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert folder.stat().st_size == before.st_size


def test_a_client_with_many_descriptors_counts_once(tree: DrmTree) -> None:
    for descriptor in range(20):
        tree.client(10, descriptor, lines(1))
    tree.client(10, 40, lines(2, memory=7))
    tree.descriptor(10, 41)
    assert found(Clients(str(tree.proc)), {10}, 0) == [(10, '1', 100), (10, '2', 7)]


def test_a_client_that_processes_share_counts_once_for_the_one_that_had_it_first(tree: DrmTree) -> None:
    tree.client(30, 5, lines(1))
    reader = Clients(str(tree.proc))
    assert found(reader, {30}, 0) == [(30, '1', 100)]
    tree.client(20, 5, lines(1))
    assert found(reader, {20, 30}, 1) == [(30, '1', 100)]
    tree.end(30)
    assert found(reader, {20}, 2) == [(20, '1', 100)]
    assert found(Clients(str(tree.proc)), {20}, 3) == [(20, '1', 100)]


def test_of_several_that_have_it_from_the_start_the_lowest_process_id_counts(tree: DrmTree) -> None:
    for pid in (30, 20, 40):
        tree.client(pid, 5, lines(1))
    assert found(Clients(str(tree.proc)), {40, 30, 20}, 0) == [(20, '1', 100)]


def test_the_same_id_on_another_device_is_another_client(tree: DrmTree) -> None:
    tree.client(10, 5, lines(1))
    tree.client(10, 6, lines(1, device='0000:04:00.0'))
    assert found(Clients(str(tree.proc)), {10}, 0) == [(10, '1', 100), (10, '1', 100)]


def test_a_browser_with_twenty_clients_in_four_processes(tree: DrmTree) -> None:
    tree.add(browser())
    reader = Clients(str(tree.proc))
    everything = found(reader, {1001, 1002, 1003, 1004}, 0)
    assert len(everything) == 20
    assert {pid for pid, _, _ in everything} == {1001}
    assert sum(size or 0 for _, _, size in everything) == 838_860_800
    tree.end(1001)
    assert {pid for pid, _, _ in found(reader, {1002, 1003, 1004}, 1)} == {1002}


def test_figures_are_those_of_now(tree: DrmTree) -> None:
    tree.client(10, 5, lines(1))
    reader = Clients(str(tree.proc))
    assert found(reader, {10}, 0) == [(10, '1', 100)]
    tree.client(10, 5, lines(1, memory=250))
    assert found(reader, {10}, 0.1) == [(10, '1', 250)]
    tree.client(10, 5, [*lines(1, memory=300), 'drm-engine-gfx:\t7 ns'])
    assert found(reader, {10}, 0.2) == [(10, '1', 300)]


def test_a_new_descriptor_is_found_where_their_number_has_changed(tree: DrmTree) -> None:
    tree.descriptor(10, 1)
    reader = Clients(str(tree.proc))
    assert found(reader, {10}, 0) == []
    tree.client(10, 5, lines(1))
    assert found(reader, {10}, 0.1) == [(10, '1', 100)]


def test_one_that_took_the_place_of_another_is_found_after_ten_seconds(tree: DrmTree) -> None:
    tree.descriptor(10, 5)
    reader = Clients(str(tree.proc))
    assert found(reader, {10}, 0) == []
    before = unnoticed(tree, 10)
    tree.close(10, 5)
    tree.client(10, 5, lines(1))
    hide(tree, 10, before)
    assert found(reader, {10}, 0.1) == []
    assert found(reader, {10}, LISTED_AGAIN) == [(10, '1', 100)]


def test_a_descriptor_that_is_another_client_by_now_has_its_process_listed_at_once(tree: DrmTree) -> None:
    tree.client(10, 5, lines(1))
    reader = Clients(str(tree.proc))
    assert found(reader, {10}, 0) == [(10, '1', 100)]
    tree.client(10, 5, lines(2, memory=7))
    assert found(reader, {10}, 0.1) == [(10, '2', 7)]


@pytest.mark.parametrize(('pid', 'size', 'seconds'), [(64, 3, 10.0), (32, 3, 7.5), (63, 3, 5.078125), (63, 0, 1.0)])
def test_when_descriptors_are_listed_again_though_their_number_is_the_same(pid: int, size: int, seconds: float) -> None:
    assert listed_again(pid, size) == seconds


def test_processes_that_are_gone_or_never_were(tree: DrmTree) -> None:
    tree.client(10, 5, lines(1))
    reader = Clients(str(tree.proc))
    assert found(reader, {10, 11}, 0) == [(10, '1', 100)]
    tree.end(10)
    assert found(reader, {10, 11}, 1) == []


def test_all_processes_of_the_machine(tree: DrmTree) -> None:
    tree.client(10, 5, lines(1))
    tree.client(11, 5, lines(2))
    (tree.proc / 'self').symlink_to('10')
    (tree.proc / 'loadavg').write_text('0.0')
    reader = Clients(str(tree.proc))
    assert found(reader, None, 0) == [(10, '1', 100), (11, '2', 100)]
    assert reader.is_complete


def test_no_proc_at_all(tmp_path: Path) -> None:
    assert Clients(str(tmp_path / 'nothing')).read(None, 0) == []


def test_a_process_that_computes_with_rocm(tree: DrmTree) -> None:
    tree.client(10, 5, lines(1))
    tree.descriptor(10, 6, '/dev/kfd')
    tree.client(11, 5, lines(2))
    tree.client(12, 5, [line.replace('amdgpu', 'i915') for line in lines(3, device='0000:00:02.0')])
    tree.descriptor(12, 6, '/dev/kfd')
    holdings = Clients(str(tree.proc)).read({10, 11, 12}, 0)
    assert {holding.pid: holding.has_kfd for holding in holdings} == {10: True, 11: False, 12: False}


LISTINGS = """
import json, os, sys
from gpu_tracker.gpus.drm.clients import Clients

listed = []
sys.addaudithook(lambda event, words: listed.append(words[0]) if event == 'os.listdir' else None)
reader, counts, files = Clients(), [], []
for opens in (False, False, True, False):
    if opens:
        files.append(open('/dev/null'))
    reader.read({os.getpid()}, 0.0)
    counts.append(len(listed))
print(json.dumps([counts, listed[0] == f'/proc/{os.getpid()}/fd']))
"""


def test_the_kernel_says_when_a_process_has_opened_a_file() -> None:
    assert answer(LISTINGS) == [[1, 1, 2, 2], True]


FOREIGN = """
import json, os
from gpu_tracker.gpus.drm.clients import Clients

os.setgroups([])
os.setgid(65534)
os.setuid(65534)
reader = Clients()
print(json.dumps([len(reader.read(None, 0.0)), reader.is_complete, 1 in reader.unreadable]))
"""


@as_root
@pytest.mark.parametrize(('hidden', 'is_listed'), [(0, True), (1, True), (2, False)], ids=['off', 'files', 'all'])
def test_processes_of_other_users_are_known_to_be_missing(hidden: int, is_listed: bool) -> None:
    hiding = f'mount -t proc -o hidepid={hidden} proc /proc && exec "$@"'
    words = ('unshare', '--mount', 'sh', '-c', hiding, 'sh')
    assert answer(FOREIGN, words=words) == [0, False, is_listed]


IN_A_CONTAINER = """
import json
from gpu_tracker.gpus.drm.clients import Clients

reader = Clients()
reader.read(None, 0.0)
print(json.dumps([reader.is_complete, sorted(reader.unreadable)]))
"""


@as_root
def test_processes_of_other_containers_are_known_to_be_missing() -> None:
    words = ('unshare', '--pid', '--fork', '--mount-proc')
    assert answer(IN_A_CONTAINER, words=words) == [False, []]


WITHOUT_PTRACE = """
import json, os, subprocess, sys
from gpu_tracker.gpus.drm.clients import Clients

with subprocess.Popen(['cat'], stdin=subprocess.PIPE, user=65534) as other:
    reader = Clients()
    reader.read({os.getpid(), other.pid}, 0.0)
    other.stdin.close()
    print(json.dumps(reader.unreadable == {other.pid}))
"""


@as_root
def test_root_without_all_rights_knows_what_it_cannot_read() -> None:
    without = ('setpriv', '--inh-caps=-sys_ptrace', '--bounding-set=-sys_ptrace')
    assert answer(WITHOUT_PTRACE, words=without) is True


AT_ITS_END = """
import json, os
from gpu_tracker.gpus.drm.clients import Clients

os.setuid(65534)
child = os.fork()
if child == 0:
    os._exit(0)
os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
reader = Clients()
reader.read({child}, 0.0)
print(json.dumps([os.stat(f'/proc/{child}/fd').st_uid, len(reader.unreadable)]))
"""


@as_root
def test_a_process_that_has_ended_and_waits_to_be_reaped_hides_nothing() -> None:
    assert answer(AT_ITS_END) == [0, 0]


BECOMES_ANOTHER_USERS = """
import ctypes, json, os, sys
from gpu_tracker.gpus.drm.clients import Clients

PR_SET_DUMPABLE = 4
os.setuid(65534)
libc = ctypes.CDLL(None)
libc.prctl(PR_SET_DUMPABLE, 1)
(go, said), (done, says) = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    os.read(go, 1)
    libc.prctl(PR_SET_DUMPABLE, 0)
    os.write(says, b'.')
    os.read(go, 1)
    os._exit(0)
reader = Clients()
reader.read({child}, 0.0)
before = len(reader.unreadable)
os.write(said, b'.')
os.read(done, 1)
reader.read({child}, 0.1)
print(json.dumps([before, len(reader.unreadable)]))
os.write(said, b'.')
os.waitpid(child, 0)
"""


@as_root
def test_a_process_that_gets_more_rights_than_its_user_cannot_be_read_from_then_on() -> None:
    assert answer(BECOMES_ANOTHER_USERS) == [0, 1]
