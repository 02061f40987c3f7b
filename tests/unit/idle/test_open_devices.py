"""OpenDevices in a /proc folder made here; those of real processes are in the integration tests."""

from __future__ import annotations

import os
import shutil

import pytest

from gpu_tracker.idle.observing import device_files
from gpu_tracker.idle.observing.device_files import Identity, StatFinder, StatxFinder, identity_of
from gpu_tracker.idle.observing.open_devices import OpenDevices
from support.simulated_proc import stat_line

KERNEL_THREAD = 0x200000


class Proc:
    """A folder of processes, whose descriptors are links, and their clocks."""

    def __init__(self, path) -> None:
        self.path = path
        self.cpu = {}
        self.read = []
        self.now = 0.0

    def put(self, pid, *files, runs=True, flags=0, state='S', threads=1) -> None:
        folder = self.path / str(pid)
        shutil.rmtree(folder / 'fd', ignore_errors=True)
        (folder / 'fd').mkdir(parents=True)
        for number, file in enumerate(files):
            (folder / 'fd' / str(number)).symlink_to(file)
        name, _, rest = stat_line(pid, 1, state=state, threads=threads).partition(') ')
        fields = rest.split(' ')
        fields[6] = str(flags)
        (folder / 'stat').write_text(f'{name}) {" ".join(fields)}')
        if runs:
            self.cpu[pid] = self.cpu.get(pid, 0.0) + 0.001

    def clock(self, pid):
        self.read.append(pid)
        if pid not in self.cpu:
            raise ProcessLookupError
        return self.cpu[pid]

    def holders(self) -> OpenDevices:
        return OpenDevices(str(self.path), self.clock, lambda: self.now)


@pytest.fixture
def proc(tmp_path):
    path = tmp_path / 'proc'
    path.mkdir()
    (path / 'meminfo').touch()
    return Proc(path)


@pytest.fixture
def gpu(tmp_path):
    path = tmp_path / 'nvidia0'
    path.touch()
    return path


def seen(holders, *paths):
    return holders.poll({number: identity_of(str(path)) for number, path in enumerate(paths)})


def test_tells_who_holds_which_device(proc, gpu, tmp_path):
    other = tmp_path / 'nvidia1'
    other.touch()
    proc.put(10, gpu, '/dev/zero')
    proc.put(11, '/dev/zero')
    proc.put(12, other, gpu)
    assert seen(proc.holders(), gpu, other) == {0: {10, 12}, 1: {12}}


def test_tells_a_device_by_its_number_whichever_node_was_opened(proc):
    proc.put(10, '/dev/zero')
    assert proc.holders().poll({4: Identity(True, 1, 5), 5: Identity(True, 1, 9)}) == {4: {10}, 5: set()}


def test_two_names_of_one_device_are_both_held(proc, gpu):
    proc.put(10, gpu)
    assert seen(proc.holders(), gpu, gpu) == {0: {10}, 1: {10}}


def test_reads_nothing_without_devices(proc, gpu):
    proc.put(10, gpu)
    assert proc.holders().poll({}) == {}
    assert proc.read == []


def test_sees_what_a_process_that_has_run_opens_and_closes(proc, gpu):
    proc.put(10)
    holders = proc.holders()
    assert seen(holders, gpu) == {0: set()}
    proc.put(10, gpu)
    assert seen(holders, gpu) == {0: {10}}
    proc.put(10)
    assert seen(holders, gpu) == {0: set()}


def test_does_not_read_again_what_has_not_run(proc, gpu):
    proc.put(10)
    holders = proc.holders()
    seen(holders, gpu)
    proc.put(10, gpu, runs=False)
    assert seen(holders, gpu) == {0: set()}


def test_reads_everything_again_within_a_minute(proc, gpu):
    for pid in range(10, 20):
        proc.put(pid)
    holders = proc.holders()
    seen(holders, gpu)
    for pid in range(10, 20):
        proc.put(pid, gpu, runs=False)
    counts = []
    for proc.now in (6.1, 12.2, 30.5, 61.0):
        counts.append(len(seen(holders, gpu)[0]))
    assert counts == [1, 2, 5, 10]


def test_reads_everything_again_for_other_devices(proc, gpu, tmp_path):
    proc.put(10, gpu)
    proc.put(11, tmp_path / 'nvidia1')
    (tmp_path / 'nvidia1').touch()
    holders = proc.holders()
    assert seen(holders, gpu) == {0: {10}}
    assert seen(holders, gpu, tmp_path / 'nvidia1') == {0: {10}, 1: {11}}


def test_takes_the_clock_before_it_reads(proc, gpu):
    """Read after the descriptors it would hide what is opened in between."""
    proc.put(10)
    holders = proc.holders()

    def clock(pid):
        value = Proc.clock(proc, pid)
        proc.put(pid, gpu)  # it runs on
        return value

    holders = OpenDevices(str(proc.path), clock, lambda: 0.0)
    assert seen(holders, gpu) == {0: {10}}
    shutil.rmtree(proc.path / '10' / 'fd')
    (proc.path / '10' / 'fd').mkdir()
    holders._clock = proc.clock
    assert seen(holders, gpu) == {0: set()}


def test_forgets_a_process_that_is_gone(proc, gpu):
    proc.put(10, gpu)
    holders = proc.holders()
    seen(holders, gpu)
    shutil.rmtree(proc.path / '10')
    assert seen(holders, gpu) == {0: set()}
    assert holders._processes == {}


def test_a_process_that_ends_during_the_look_is_no_error(proc, gpu):
    proc.put(10, gpu)
    shutil.rmtree(proc.path / '10' / 'fd')
    assert seen(proc.holders(), gpu) == {0: set()}
    del proc.cpu[10]
    assert seen(proc.holders(), gpu) == {0: set()}


def test_a_reused_pid_is_read(proc, gpu):
    proc.put(10, gpu)
    holders = proc.holders()
    seen(holders, gpu)
    proc.put(10, runs=False)
    proc.cpu[10] = 0.0005
    assert seen(holders, gpu) == {0: set()}


def test_without_clocks_everything_is_read_at_each_look(proc, gpu):
    proc.put(10, runs=False)
    holders = proc.holders()
    seen(holders, gpu)
    proc.put(10, gpu, runs=False)
    assert seen(holders, gpu) == {0: {10}}


def test_asks_parts_of_the_kernel_once(proc, gpu):
    proc.put(2, flags=KERNEL_THREAD)
    proc.put(10)
    holders = proc.holders()
    seen(holders, gpu)
    proc.read.clear()
    seen(holders, gpu)
    assert proc.read == [10]


def test_finds_what_other_threads_hold_when_the_first_has_ended(proc, gpu):
    proc.put(10, state='Z', threads=2)
    for thread in (10, 11):
        (proc.path / '10' / 'task' / str(thread) / 'fd').mkdir(parents=True)
    (proc.path / '10' / 'task' / '11' / 'fd' / '3').symlink_to(gpu)
    assert seen(proc.holders(), gpu) == {0: {10}}


def test_finds_what_other_threads_hold_when_the_first_one_denies_its_table(proc, gpu):
    proc.put(10, state='Z', threads=2)
    (proc.path / '10' / 'task' / '10').mkdir(parents=True)
    (proc.path / '10' / 'task' / '10' / 'fd').touch()
    (proc.path / '10' / 'task' / '11' / 'fd').mkdir(parents=True)
    (proc.path / '10' / 'task' / '11' / 'fd' / '3').symlink_to(gpu)
    assert seen(proc.holders(), gpu) == {0: {10}}


def test_knows_that_the_processes_of_others_are_not_listed(proc, gpu):
    proc.put(10)
    holders = proc.holders()
    assert not holders.are_others_hidden
    seen(holders, gpu)
    assert holders.are_others_hidden
    proc.put(1)
    seen(holders, gpu)
    assert not holders.are_others_hidden


def test_a_zombie_holds_nothing(proc, gpu):
    proc.put(10, state='Z')
    holders = proc.holders()
    assert seen(holders, gpu) == {0: set()}
    assert holders.unseen == set()


class Unreadable:
    """Finds nothing in the folders of some processes, for want of rights."""

    def find(self, folder):
        raise PermissionError


def test_tells_those_whose_descriptors_are_not_to_be_seen(proc, gpu):
    proc.put(10, gpu)
    proc.put(11, gpu)
    proc.put(2, flags=KERNEL_THREAD)
    proc.put(12, state='Z')
    holders = proc.holders()
    holders.poll({0: identity_of(str(gpu))})
    holders._finder = Unreadable()
    for pid in (10, 2, 12):
        proc.cpu[pid] += 1
    assert seen(holders, gpu) == {0: {11}}
    assert holders.unseen == {10}
    assert holders.count == 4
    shutil.rmtree(proc.path / '10')
    seen(holders, gpu)
    assert holders.unseen == set()


@pytest.fixture(params=['statx', 'stat'])
def find(request):
    def found(identities, folder):
        statx = device_files._statx()
        if request.param == 'statx' and statx is None:
            pytest.skip('this machine has no statx(2)')
        finder = StatxFinder(identities, statx) if request.param == 'statx' else StatFinder(identities)
        handle = os.open(folder, os.O_RDONLY)
        try:
            return finder.find(handle)
        finally:
            os.close(handle)

    return found


def test_finds_devices_and_files_among_descriptors(find, tmp_path):
    folder = tmp_path / 'fd'
    folder.mkdir()
    (tmp_path / 'nvidia7').touch()
    identities = {1: Identity(True, 1, 5), 7: identity_of(str(tmp_path / 'nvidia7')), 8: Identity(True, 195, 8)}
    assert find(identities, folder) is None
    (folder / '0').symlink_to(tmp_path / 'gone')
    assert find(identities, folder) == set()
    (folder / '1').symlink_to('/dev/zero')
    (folder / '2').symlink_to(tmp_path / 'nvidia7')
    assert find(identities, folder) == {1, 7}


def test_a_plain_file_is_no_device_of_its_number(find, tmp_path):
    (tmp_path / 'plain').touch()
    assert find({0: Identity(True, 0, 0)}, tmp_path) == set()
