"""RAM of simulated processes: when their pages are read, and what the largest sizes and the ceilings are."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.processes.process import Process
from gpu_tracker.resources import FIRST, LAST, MIDDLE
from gpu_tracker.resources.budget import Budget
from gpu_tracker.resources.ram.linux import LinuxRamReader
from support.simulated_memory import FAULTS, MB, Files, Tree

if TYPE_CHECKING:
    from gpu_tracker.resources.ram.exact import Sizes

ROOT, CHILD, OTHER = 10, 11, 12
Megabytes = tuple[float | None, ...]


def megabytes(sizes: Sizes) -> Megabytes:
    return tuple(None if size is None else size / MB for size in sizes)


class Machine(Tree):
    """A tree that is sampled once a second."""

    def __init__(self, *, cost: float = 0.0, limit: float | None = None, is_reaped: bool = True) -> None:
        super().__init__()
        self.files = Files(self, cost)
        self.budget = Budget(0.0)
        cpu_time = self.files.cpu_time
        self.reader = LinuxRamReader(self, self.files, self.budget, cpu_time, limit, is_reaped=is_reaped)
        self.now = 0.0

    def sample(self, kind: str = MIDDLE, *, seconds: float = 1.0) -> None:
        self.now += seconds
        self.files.read.clear()
        self.refresh()
        self.reader.read(self.now, kind)

    def become_poor(self) -> None:
        """Let there be nothing left for optional readings."""
        self.budget.spend(1000.0)

    def peak_at(self, pid: int, more: int) -> None:
        """Let a process have had more between two samples."""
        self.get(pid, more)
        self.free(pid, more)

    @property
    def has_read_pages(self) -> bool:
        return 'pages' in [name for name, _ in self.files.read]

    @property
    def totals(self) -> Megabytes:
        """The largest sizes of main, descendants and all of them."""
        return tuple(megabytes(group)[0] for group in self.reader.maxima)

    @property
    def ceilings(self) -> list[float]:
        return [ceiling / MB for ceiling in self.reader.ceilings.most]


@pytest.fixture
def machine() -> Machine:
    """Return one with a root of 100 MB and a child of 50, which share nothing and were sampled once."""
    found = Machine()
    found.start(ROOT, 100)
    found.start(CHILD, 50, parent=ROOT)
    found.sample(FIRST)
    return found


@pytest.fixture
def family() -> Machine:
    """Return one with a root of 100 MB and two copies of it, sampled once."""
    found = Machine()
    found.start(ROOT, 100)
    for pid in (CHILD, OTHER):
        found.fork(ROOT, pid)
    found.sample()
    return found


def test_main_alone() -> None:
    machine = Machine()
    machine.start(ROOT, 80)
    machine.map(ROOT, 7, 0, 20)
    machine.sample(FIRST)
    assert [megabytes(group) for group in machine.reader.maxima] == [(100, 100, 0), (None, None, None), (100, 100, 0)]
    assert machine.ceilings == [100, 0, 100]
    assert [megabytes(group) for group in machine.reader.current()] == [(100, 100, 0), (0, 0, 0), (100, 100, 0)]


def test_shared_memory_counts_once(family: Machine) -> None:
    assert [megabytes(group) for group in family.reader.maxima] == [(100, 0, 100)] * 3
    assert family.ceilings == [100, 100, 100]


def test_what_is_read_at_the_first_sample_is_all_there_is() -> None:
    machine = Machine()
    for pid in (ROOT, CHILD, OTHER):
        machine.start(pid, 20, parent=ROOT)
        machine.map(pid, 7, 0, 60)
    machine.sample(FIRST)
    assert machine.totals == (80, 100, 120)
    assert machine.ceilings == [80, 100, 120]


def test_files_of_a_new_program_that_others_have_are_no_more_than_was_read(machine: Machine) -> None:
    machine.map(ROOT, 7, 0, 60)
    machine.sample()
    machine.start(OTHER, 20, parent=ROOT)
    machine.map(OTHER, 7, 0, 60)
    machine.memory[OTHER].faults = 20 * FAULTS + 60 * FAULTS // 16  # 15 others come with each page
    machine.sample()
    assert machine.totals == (160, 130, 230)
    assert machine.ceilings == [160, 130, 230]


def test_files_that_replace_other_memory_do_not_hide_it(machine: Machine) -> None:
    machine.map(ROOT, 7, 0, 180)
    machine.sample()
    machine.become_poor()
    machine.get(CHILD, 180)
    machine.sample()
    machine.free(CHILD, 180)
    faults = machine.memory[CHILD].faults
    machine.map(CHILD, 7, 0, 180)
    machine.memory[CHILD].faults = faults + 12 * FAULTS  # 15 others come with each page
    machine.now += 200_000.0
    machine.sample()
    assert machine.has_read_pages
    assert machine.totals == (280, 230, 330)
    assert machine.ceilings[2] >= 510


def test_a_process_in_the_memory_of_another_gives_nothing_back(machine: Machine) -> None:
    machine.fork(ROOT, OTHER)
    machine.refresh()
    machine.members[OTHER].shares_memory = True
    machine.map(CHILD, 7, 0, 60)
    machine.sample()
    machine.memory[CHILD].faults += 60 * FAULTS
    assert machine.ceilings == [100, 110, 210]


def test_what_descendants_may_have_of_files_that_main_has_mapped_twice_raises_their_ceiling(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr('gpu_tracker.resources.ram.files.bytes_of_files', lambda *_: (60 * MB, 30 * MB, 30 * MB))
    machine.map(CHILD, 7, 0, 30)
    machine.sample()
    assert machine.totals == (100, 80, 210)
    assert machine.ceilings[1] == 110


def test_nothing_is_read_if_nothing_has_changed(machine: Machine) -> None:
    machine.files.read.clear()
    machine.reader.read(2.0, MIDDLE)
    assert machine.files.read == []
    machine.sample()
    assert machine.files.read == []


@pytest.mark.parametrize(('more', 'is_read'), [(1, False), (2, True), (50, True)])
def test_pages_are_read_if_a_group_may_have_more_than_ever(machine: Machine, more: int, is_read: bool) -> None:
    machine.get(ROOT, more)
    machine.sample()
    assert machine.has_read_pages is is_read
    assert machine.totals == (100 + more, 50, 150 + more if is_read else 150)
    assert machine.ceilings == [100 + more, 50, 150 + more]


def test_pages_are_not_read_below_the_largest_size(machine: Machine) -> None:
    machine.get(CHILD, 50)
    machine.sample()
    machine.free(CHILD, 60)
    machine.sample()
    machine.get(CHILD, 55)
    machine.sample()
    assert not machine.has_read_pages
    assert machine.totals == (100, 100, 200)


def test_a_single_process_is_read_when_it_has_doubled_or_grows_no_more() -> None:
    machine = Machine()
    machine.start(ROOT, 100)
    machine.sample(FIRST)
    readings = []
    for _ in range(20):
        machine.get(ROOT, 10)
        machine.sample()
        readings.append(machine.has_read_pages)
    assert readings.index(True) == 10
    assert sum(readings) == 1
    assert machine.totals == (300, None, 300)
    machine.memory[ROOT].faults += 1
    machine.sample()
    assert machine.has_read_pages
    assert megabytes(machine.reader.maxima[0]) == (300, 300, 0)


def test_processes_that_replace_others_of_the_same_size_are_read(family: Machine) -> None:
    for pid in (CHILD, OTHER):
        family.end(pid)
        family.reap(pid)
        family.start(pid + 10, 100, parent=ROOT)
    family.sample()
    assert family.totals == (100, 200, 300)


def test_memory_that_ended_copies_leave_is_read_as_private(family: Machine) -> None:
    for pid in (CHILD, OTHER):
        family.end(pid)
        family.reap(pid)
    family.sample()
    assert family.has_read_pages
    assert megabytes(family.reader.maxima[0]) == (100, 100, 100)


def test_copies_are_read_though_no_process_grows(family: Machine) -> None:
    family.write(CHILD, 40)
    family.sample()
    assert family.has_read_pages
    assert megabytes(family.reader.maxima[1]) == (140, 40, 100)
    assert family.totals == (100, 140, 140)


def test_memory_that_replaces_files_of_others_is_read(machine: Machine) -> None:
    for pid in (ROOT, CHILD):
        machine.map(pid, 7, 0, 180)
    machine.sample()
    machine.free(CHILD, 180, 7)
    machine.get(CHILD, 180)
    machine.sample()
    assert machine.has_read_pages
    assert machine.totals == (280, 230, 510)


def test_memory_that_replaces_files_of_others_raises_the_ceilings(machine: Machine) -> None:
    for pid in (ROOT, CHILD):
        machine.map(pid, 7, 0, 180)
    machine.sample()
    machine.become_poor()
    machine.free(CHILD, 180, 7)
    machine.get(CHILD, 180)
    machine.sample()
    assert machine.totals == (280, 230, 330)
    assert machine.ceilings == [280, 410, 510]


def test_what_main_writes_after_a_fork_is_read(machine: Machine) -> None:
    machine.fork(ROOT, OTHER)
    machine.sample()
    machine.write(ROOT, 60)
    machine.sample()
    assert machine.has_read_pages
    assert machine.totals == (100, 150, 210)


def test_page_faults_that_may_be_copies_raise_the_ceiling_and_no_figure(family: Machine) -> None:
    family.become_poor()
    family.write(CHILD, 40)
    family.sample()
    assert not family.has_read_pages
    assert family.totals == (100, 100, 100)
    assert family.ceilings == [100, 140, 140]


def test_page_faults_without_copies_are_found_out(family: Machine) -> None:
    family.memory[CHILD].faults += 40 * FAULTS
    family.sample()
    assert family.has_read_pages
    assert family.totals == (100, 100, 100)
    assert family.ceilings == [100, 140, 140]


def test_no_more_copies_than_shared_pages(family: Machine) -> None:
    family.become_poor()
    family.memory[CHILD].faults += 4000 * FAULTS
    family.sample()
    assert family.ceilings == [100, 200, 200]


def test_what_cannot_be_paid_is_read_later_though_nothing_changes(machine: Machine) -> None:
    machine.become_poor()
    machine.get(CHILD, 100)
    machine.sample()
    assert not machine.has_read_pages
    assert machine.totals == (100, 150, 150)
    assert machine.ceilings == [100, 150, 250]
    machine.now += 200_000.0
    machine.reader.read(machine.now, MIDDLE)
    assert machine.has_read_pages
    assert machine.totals == (100, 150, 250)


def test_exact_readings_stay_within_the_budget() -> None:
    machine = Machine(cost=0.03)
    for pid in (ROOT, CHILD, OTHER):
        machine.start(pid, 100, parent=ROOT)
    readings = 0
    for _ in range(300):
        for pid in (ROOT, CHILD, OTHER):
            machine.get(pid, 5)
        machine.sample()
        readings += machine.has_read_pages
    # The mark of the root is read at every sample.
    assert machine.files.spent <= 0.25 + 0.01 * 300 + 0.1 + 300 * 0.003
    assert readings > 10
    assert machine.totals[0] == 1600


def test_a_peak_between_two_samples_raises_the_group_by_what_others_had(machine: Machine) -> None:
    machine.peak_at(CHILD, 450)
    machine.sample()
    assert not machine.has_read_pages
    assert machine.totals == (100, 500, 600)
    assert machine.ceilings == [100, 500, 600]


def test_of_several_peaks_one_raises_the_group(machine: Machine) -> None:
    machine.start(OTHER, 50, parent=ROOT)
    machine.sample()
    machine.peak_at(CHILD, 150)
    machine.peak_at(OTHER, 250)
    machine.sample()
    # With that many page faults the child may have given back its 50 and got them again.
    assert machine.totals == (100, 300, 400)
    assert machine.ceilings == [100, 500, 600]  # they may have been at the same time


def test_a_peak_counts_once_however_others_grow_later(machine: Machine) -> None:
    machine.peak_at(CHILD, 450)
    machine.sample()
    machine.get(ROOT, 400)
    machine.sample()
    machine.peak_at(CHILD, 1)
    machine.sample()
    assert machine.totals == (500, 500, 600)


def test_others_may_have_given_back_what_they_had_before_a_peak(machine: Machine) -> None:
    machine.free(ROOT, 60)
    machine.peak_at(CHILD, 450)
    machine.sample()
    assert machine.totals == (100, 500, 540)


def test_a_peak_in_files_that_others_have_may_be_their_pages(machine: Machine) -> None:
    machine.map(ROOT, 7, 0, 200)
    machine.sample()
    machine.map(CHILD, 7, 0, 150)
    machine.free(CHILD, 150, 7)
    machine.sample()
    assert machine.totals == (300, 200, 350)


def test_a_copy_has_the_peak_of_its_parent_at_first() -> None:
    machine = Machine()
    machine.start(ROOT, 300)
    machine.sample(FIRST)
    machine.fork(ROOT, CHILD)
    machine.free(CHILD, 296)
    machine.sample()
    assert machine.totals == (300, 300, 300)


def test_a_peak_of_a_new_program_counts_beside_the_others() -> None:
    machine = Machine()
    machine.start(ROOT, 100)
    machine.sample(FIRST)
    machine.start(CHILD, 10, parent=ROOT)
    machine.peak_at(CHILD, 490)
    machine.sample()
    assert machine.totals == (100, 500, 600)


def test_a_peak_from_before_the_run_raises_nothing() -> None:
    machine = Machine()
    machine.start(ROOT, 100)
    machine.start(CHILD, 50, parent=ROOT)
    machine.peak_at(CHILD, 450)
    machine.sample(FIRST)
    assert machine.totals == (100, 50, 150)
    assert machine.ceilings == [100, 50, 150]


def test_a_child_that_no_sample_has_seen_raises_the_ceilings(machine: Machine) -> None:
    machine.start(OTHER, 70, parent=ROOT)
    machine.end(OTHER)
    machine.reap(OTHER)
    machine.sample()
    assert machine.totals == (100, 50, 150)
    assert machine.ceilings == [100, 120, 220]


def test_processes_that_end_while_they_are_read_stay_in_the_ceilings(machine: Machine) -> None:
    machine.get(CHILD, 100)
    machine.files.when_read = [lambda: machine.end(CHILD)]
    machine.sample()
    assert machine.totals == (100, 150, 150)
    assert machine.ceilings == [100, 150, 250]


def test_a_process_that_is_exiting_had_its_memory_until_then(machine: Machine) -> None:
    machine.get(CHILD, 100)
    machine.memory[CHILD].has = set()  # it is no zombie yet
    machine.sample()
    assert machine.ceilings == [100, 150, 250]


def test_memory_that_main_has_alone_is_private_if_no_page_was_read() -> None:
    machine = Machine()
    machine.start(ROOT, 80)
    machine.map(ROOT, 7, 0, 20)
    machine.sample(FIRST)
    machine.get(ROOT, 60)
    machine.sample()
    machine.fork(ROOT, CHILD)
    machine.sample()
    assert [megabytes(group)[1] for group in machine.reader.maxima] == [140, 0, 140]


def test_a_peak_below_one_from_before_the_run_raises_the_ceilings() -> None:
    machine = Machine()
    machine.start(ROOT, 100)
    machine.peak_at(ROOT, 450)
    machine.refresh()
    machine.sample(FIRST)
    machine.peak_at(ROOT, 300)
    machine.sample()
    assert machine.totals == (100, None, 100)
    assert machine.ceilings == [400, 0, 400]
    machine.sample()
    assert machine.ceilings == [400, 0, 400]


def test_another_program_of_a_process_has_no_peak_from_before_the_run() -> None:
    machine = Machine()
    machine.start(ROOT, 100)
    machine.peak_at(ROOT, 450)
    machine.sample(FIRST)
    machine.execute(ROOT, 10)
    machine.peak_at(ROOT, 300)
    machine.sample()
    assert machine.totals == (310, None, 310)


def test_an_orphan_hides_no_child_that_no_sample_has_seen(machine: Machine) -> None:
    machine.start(OTHER, 40, parent=1)
    machine.sample()
    machine.end(OTHER)
    machine.reap(OTHER)
    machine.memory[ROOT].reaped_faults += 20 * FAULTS
    machine.sample()
    assert machine.reader.ceilings.faults_of_orphans == 40 * FAULTS
    assert machine.ceilings == [100, 110, 210]


def test_what_a_child_had_after_it_was_read_last_raises_the_ceilings(machine: Machine) -> None:
    machine.get(CHILD, 30)
    machine.end(CHILD)
    machine.sample()
    machine.reap(CHILD)
    machine.sample()
    assert machine.totals == (100, 50, 150)
    assert machine.ceilings == [100, 80, 180]


def test_the_page_faults_of_main_up_to_its_end_bound_its_peak() -> None:
    machine = Machine()
    machine.start(ROOT, 100)
    machine.sample(FIRST)
    machine.get(ROOT, 30)
    machine.end(ROOT)
    machine.sample(LAST)
    assert machine.totals == (100, None, 100)
    assert machine.ceilings == [130, 0, 130]


def test_each_page_fault_may_bring_pages_of_a_file_around_it_if_nobody_reaps_main() -> None:
    machine = Machine(is_reaped=False)
    machine.start(ROOT, 100)
    machine.sample(FIRST)
    machine.memory[ROOT].faults += 30 * FAULTS
    machine.execute(ROOT, 0)
    machine.sample()
    assert machine.ceilings[0] == 100 + 30 * 16


def test_main_and_combined_may_have_got_pages_of_files_if_nobody_reaps_main() -> None:
    machine = Machine(is_reaped=False)
    machine.start(ROOT, 100)
    machine.sample(FIRST)
    machine.memory[ROOT].faults += 30 * FAULTS
    machine.end(ROOT)
    machine.sample(LAST)
    assert machine.ceilings == [580, 0, 580]


def test_huge_pages_after_the_mark_was_read_belong_to_the_next_sample() -> None:
    machine = Machine()
    machine.start(ROOT, 100)
    machine.sample(FIRST)
    machine.files.when_marked = lambda: setattr(machine.files, 'huge', 50)
    machine.memory[ROOT].faults += 1
    machine.sample()
    machine.memory[ROOT].faults += 50
    machine.end(ROOT)
    machine.sample(LAST)
    assert machine.ceilings[0] == pytest.approx(100 + 50 * ((2 << 20) + 4096) / MB)


def test_page_faults_count_from_the_last_mark_on_if_main_is_seen_exiting() -> None:
    machine = Machine()
    machine.start(ROOT, 100)
    machine.sample(FIRST)
    machine.get(ROOT, 30)
    machine.memory[ROOT].has.clear()  # it has given up its memory, and is no zombie yet
    machine.sample()
    machine.end(ROOT)
    machine.sample(LAST)
    assert machine.totals == (100, None, 100)
    assert machine.ceilings == [130, 0, 130]
    assert machine.reader.ceilings.most_of_main >= 130 * MB


def test_a_root_that_has_ended_leaves_its_descendants(machine: Machine) -> None:
    machine.end(ROOT)
    machine.get(CHILD, 100)
    machine.sample()
    assert machine.totals == (100, 150, 150)
    assert megabytes(machine.reader.current()[0]) == (None, None, None)


def test_memory_of_the_parent_in_which_a_process_runs_does_not_count(machine: Machine) -> None:
    machine.fork(ROOT, OTHER)
    machine.refresh()
    machine.members[OTHER].shares_memory = True
    machine.sample()
    assert machine.totals == (100, 50, 150)


@pytest.mark.parametrize(
    ('resident', 'of_files', 'counts'), [(12 << 10, 0, False), (12 << 10, 4 << 10, True), (200 << 10, 0, True)]
)
def test_a_program_in_the_middle_of_exec_does_not_count(
    machine: Machine, resident: int, of_files: int, *, counts: bool
) -> None:
    machine.start(OTHER, parent=ROOT)
    machine.refresh()
    machine.members[OTHER].resident, machine.members[OTHER].files = resident, of_files
    machine.reader.read(machine.now, MIDDLE)
    assert (('mark', OTHER) in machine.files.read) is counts


def test_a_command_is_watched_from_its_start_on() -> None:
    machine = Machine()
    machine.start(ROOT, 5)
    machine.refresh()
    machine.root.shares_memory = True
    machine.sample(FIRST)
    machine.reader.watch(machine.root)  # it is held, and has the memory of its launcher
    assert machine.totals == (None, None, None)
    machine.root.shares_memory = False
    machine.peak_at(ROOT, 15)
    machine.refresh()
    machine.reader.watch(machine.root)
    machine.end(ROOT)
    machine.sample(LAST)
    assert machine.totals == (20, None, 20)


def test_processes_that_may_not_be_read_are_a_reason() -> None:
    machine = Machine()
    machine.start(ROOT, 50)
    machine.start(CHILD, 30, parent=ROOT)
    machine.files.forbidden = {CHILD}
    machine.sample(FIRST)
    assert machine.reader.reasons == {'unreadable'}
    assert [megabytes(group) for group in machine.reader.maxima] == [(50, 50, 0), (30, None, None), (50, None, None)]
    assert machine.ceilings == [50, 30, 80]


def test_a_root_that_may_share_pages_with_outsiders_is_a_reason(family: Machine) -> None:
    assert family.reader.reasons == set()
    family.root_is_copy = True
    for pid in (CHILD, OTHER):
        family.get(pid, 50)
    family.sample()
    assert family.reader.reasons == {'copy'}


def test_a_memory_limit_is_checked_exactly_whatever_it_costs() -> None:
    machine = Machine(limit=200 * MB)
    machine.start(ROOT, 100)
    machine.start(CHILD, 50, parent=ROOT)
    machine.sample(FIRST)
    machine.become_poor()
    machine.get(CHILD, 40)
    machine.sample()
    assert not machine.has_read_pages
    machine.get(CHILD, 20)
    machine.sample()
    assert machine.has_read_pages
    assert machine.totals[2] == 210
    machine.get(CHILD, 90)
    machine.sample(seconds=100.0)
    assert not machine.has_read_pages  # it is known to be exceeded


def test_a_peak_beside_others_asks_for_a_reading_and_exceeds_no_limit() -> None:
    machine = Machine(limit=550 * MB)
    machine.start(ROOT, 100)
    machine.start(CHILD, 50, parent=ROOT)
    machine.sample(FIRST)
    machine.peak_at(CHILD, 450)
    machine.sample()
    assert machine.totals == (100, 500, 600)
    assert machine.reader.used == 500 * MB
    machine.become_poor()
    machine.get(CHILD, 410)
    machine.sample()
    assert machine.has_read_pages
    assert machine.reader.used == 560 * MB


def test_a_pause_of_nine_times_its_cost_follows_a_reading_for_a_memory_limit() -> None:
    machine = Machine(limit=150 * MB)
    machine.start(ROOT, 100)
    machine.fork(ROOT, CHILD)
    machine.sample()
    machine.become_poor()
    machine.files.cost = 0.125
    readings = []
    for _ in range(41):
        machine.memory[CHILD].faults += 60 * FAULTS  # there may be 160 MB, and there are 100
        machine.sample(seconds=0.125)
        readings.append(machine.has_read_pages)
    # Two processes take 0.25 s.
    assert [place for place, is_read in enumerate(readings) if is_read] == [0, 20, 40]


@pytest.mark.parametrize(('size', 'expected'), [(500, FIRST), (1500, LAST)])
def test_a_large_process_is_read_at_the_end_and_not_at_the_start(size: int, expected: str) -> None:
    machine = Machine()
    machine.start(ROOT, size)
    found = []
    for kind in (FIRST, LAST):
        machine.sample(kind)
        found += [kind] if machine.has_read_pages else []
    assert found == [expected]
    assert megabytes(machine.reader.maxima[0]) == (size, size, 0)


def test_between_exact_readings_sizes_follow_the_processes(family: Machine) -> None:
    family.become_poor()
    family.get(CHILD, 30)
    family.sample()
    assert [megabytes(group) for group in family.reader.current()] == [(100, 0, 100), (130, 30, 100), (130, 30, 100)]
    family.end(OTHER)
    family.sample()
    assert megabytes(family.reader.current()[2]) == (130, 30, 100)
    family.end(CHILD)
    family.reap(CHILD)
    family.sample()
    assert [megabytes(group)[0] for group in family.reader.current()] == [100, 0, 100]


def test_huge_pages_count_from_when_a_mark_was_read_on(machine: Machine) -> None:
    machine.memory[CHILD].huge = 64
    machine.memory[CHILD].faults += 32
    machine.sample()
    assert machine.totals == (100, 114, 214)
    assert megabytes(machine.reader.maxima[1]) == (114, 114, 0)


def test_little_is_kept_of_processes_that_have_ended(machine: Machine) -> None:
    for pid in range(100, 200):
        machine.fork(ROOT, pid)
        machine.get(pid, 3)
        machine.sample()
        machine.end(pid)
        machine.reap(pid)
        machine.sample()
    gc.collect()
    kept = [found for found in gc.get_objects() if isinstance(found, Process) and found.pid >= 100]
    assert len(kept) < 10


PIDS = (ROOT, CHILD, OTHER, 13)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(['get', 'peak_at', 'write', 'shrink']), st.sampled_from(PIDS), st.integers(0, 20)),
        st.tuples(st.just('fork'), st.sampled_from(PIDS), st.sampled_from(PIDS)),
        st.tuples(st.just('execute'), st.sampled_from(PIDS[1:]), st.integers(1, 20)),
        st.tuples(st.sampled_from(['end', 'reap']), st.sampled_from(PIDS[1:])),
    ),
    max_size=30,
)
Step = tuple[str, int] | tuple[str, int, int] | tuple[str, int, int, int] | tuple[str, int, int, int, int]


class Watched(Machine):
    """A machine that notes the most that its processes have really had, from the start of its command on."""

    def __init__(self) -> None:
        super().__init__()
        self.most = [0, 0, 0]
        self.start(ROOT)
        self.sample(FIRST)  # it is held back: no mark is from before
        self.step('get', ROOT, 10)

    def step(self, name: str, pid: int, *arguments: int) -> None:
        """Let a process do something, if it can."""
        memory = self.memory.get(pid)
        is_there = memory is not None and memory.ended == (name == 'reap')
        if is_there and not (name == 'fork' and arguments[0] in self.memory):
            getattr(self, name)(pid, *arguments)
            self.note()

    def shrink(self, pid: int, megabytes: int) -> None:
        """Give memory back; no program has none."""
        self.free(pid, min(megabytes, len(self.memory[pid].has) - 1))

    def unmap(self, pid: int, megabytes: int, inode: int) -> None:
        """Give pages of a file back; no program has none."""
        self.free(pid, min(megabytes, len(self.memory[pid].has) - 1), inode)

    def peak_at(self, pid: int, more: int) -> None:
        self.get(pid, more)
        self.note()
        self.free(pid, more)

    def note(self) -> None:
        """Note what the groups have now."""
        living = [pid for pid, memory in self.memory.items() if not memory.ended]
        groups = ([ROOT], [pid for pid in living if pid != ROOT], living)
        self.most = [max(most, self.bytes_of(pids)) for most, pids in zip(self.most, groups, strict=True)]


@given(st.lists(st.tuples(STEPS, st.sampled_from([0.0, 0.05])), max_size=5))
def test_no_figure_of_any_program_is_above_the_truth(parts: list[tuple[list[Step], float]]) -> None:
    machine = Watched()
    for steps, cost in parts:
        machine.files.cost = cost
        for step in steps:
            machine.step(*step)
        machine.sample()
    machine.sample(LAST)
    for found, most in zip(machine.reader.maxima, machine.most, strict=True):
        assert (found[0] or 0) <= most


CHANGES = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(['get', 'peak_at', 'write', 'shrink']), st.sampled_from(PIDS[:3]), st.integers(0, 20)
        ),
        st.tuples(st.just('map'), st.sampled_from(PIDS[:3]), st.integers(7, 8), st.integers(0, 9), st.integers(0, 9)),
        st.tuples(st.just('unmap'), st.sampled_from(PIDS[:3]), st.integers(0, 9), st.integers(7, 8)),
        st.tuples(st.just('end'), st.sampled_from(PIDS[1:3])),
    ),
    max_size=8,
)


@given(st.lists(st.tuples(CHANGES, st.booleans()), max_size=6))
def test_no_ceiling_is_below_what_there_was_between_two_samples(parts: list[tuple[list[Step], bool]]) -> None:
    machine = Watched()
    machine.sample()
    for pid in (CHILD, OTHER):
        machine.step('fork', ROOT, pid)
    machine.sample()
    for steps, is_poor in parts:
        machine.budget.spend(1.0 if is_poor else -1.0)
        for step in steps:
            machine.step(*step)
        machine.sample()
    for found, ceiling, most in zip(machine.reader.maxima, machine.reader.ceilings.most, machine.most, strict=True):
        assert found[0] is None or max(ceiling, found[0]) >= most * 0.98 - (1 << 16)


@given(STEPS, st.booleans())
def test_no_ceiling_of_any_program_is_below_the_truth_if_nothing_comes_and_goes_unseen(
    steps: list[Step], is_poor: bool
) -> None:
    machine = Watched()
    machine.sample()
    if is_poor:
        machine.become_poor()
    for step in steps:
        machine.step(*step)
        machine.sample()
    for found, ceiling, most in zip(machine.reader.maxima, machine.reader.ceilings.most, machine.most, strict=True):
        assert found[0] is None or max(ceiling, found[0]) >= most * 0.98 - (1 << 16)
