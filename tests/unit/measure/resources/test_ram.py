from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.resources import FIRST, LAST, MIDDLE
from gpu_tracker.resources.budget import Budget
from gpu_tracker.resources.ram.linux import LinuxRamReader
from support.simulated_memory import MEGABYTE, FakeFiles, FakeProcess, FakeTree

if TYPE_CHECKING:
    from gpu_tracker.resources.ram.reading import RamReading, Resident

ROOT = 10


class Sampled:
    """A source over a fake tree, with a clock."""

    def __init__(self, cost: float = 0.0) -> None:
        self.tree = FakeTree()
        self.files = FakeFiles(self.tree, cost)
        self.budget = Budget(0.0)
        self.source = LinuxRamReader(self.tree, self.files, self.budget, self.files.cpu_time)
        self.now = 0.0

    def sample(self, kind: str = MIDDLE, *, changed: bool = True) -> RamReading:
        self.tree.changes += changed
        reading = self.source.read(self.now, kind)
        self.now += 1.0
        return reading

    def early(self, *due: FakeProcess) -> RamReading:
        self.tree.changes += 1
        return self.source.read_early(self.now, due)

    def spend_all(self) -> None:
        """Let there be nothing left for exact readings, but at the end."""
        self.budget.spend(10.0)


def megabytes(resident: Resident) -> tuple[float | None, ...]:
    return tuple(
        None if size is None else size / MEGABYTE for size in (resident.total, resident.private, resident.shared)
    )


def peak(resident: Resident) -> float | None:
    return None if resident.peak is None else resident.peak / MEGABYTE


@pytest.fixture
def sampled() -> Sampled:
    return Sampled()


def test_main_alone(sampled: Sampled) -> None:
    sampled.tree.put(ROOT, private=100, shared=20)
    reading = sampled.sample()
    assert megabytes(reading.main) == megabytes(reading.combined) == (120, 100, 20)
    assert megabytes(reading.descendants) == (0, 0, 0)
    assert reading.upper == (120 * MEGABYTE, 0, 120 * MEGABYTE)


def test_what_is_shared_counts_once(sampled: Sampled) -> None:
    sampled.tree.put(ROOT, private=10, shared=200)
    for pid in (11, 12):
        sampled.tree.put(pid, private=5, shared=200, parent=ROOT, family=ROOT)
    reading = sampled.sample()
    assert megabytes(reading.main) == (210, 10, 200)
    assert megabytes(reading.descendants) == (210, 10, 200)
    assert megabytes(reading.combined) == (220, 20, 200)


def test_nothing_is_read_twice_while_nothing_changes(sampled: Sampled) -> None:
    sampled.tree.put(ROOT, private=100)
    sampled.tree.put(11, private=100, parent=ROOT)
    sampled.sample()
    sampled.sample()
    sampled.files.read.clear()
    reading = sampled.sample()
    assert sampled.files.read == []
    assert not reading.is_exact
    assert reading.main.total == 100 * MEGABYTE
    assert reading.combined.total is None  # it cannot be more than at the exact reading


def test_while_the_tree_stands_still_the_reading_does(sampled: Sampled) -> None:
    sampled.tree.put(ROOT, private=100)
    sampled.tree.put(11, private=100, parent=ROOT)
    complete = sampled.sample()
    assert sampled.sample(changed=False) is complete
    sampled.source.watch(sampled.tree.root)
    assert sampled.sample(changed=False) is not complete


def test_an_estimate_is_confirmed_also_where_nothing_changes_any_more(sampled: Sampled) -> None:
    for pid in (ROOT, 11):
        child = sampled.tree.put(pid, private=100, parent=ROOT)
    sampled.sample()
    child.mark = 150 * MEGABYTE
    sampled.tree.put(11, private=100, faults=12800)
    assert not sampled.sample().is_exact
    assert sampled.sample(changed=False).is_exact


def test_what_could_not_be_afforded_is_read_later_though_the_tree_stands_still() -> None:
    sampled = Sampled(cost=0.2)
    for pid in (ROOT, 11):
        sampled.tree.put(pid, private=100, parent=ROOT)
    assert sampled.sample(changed=False).combined.total == 200 * MEGABYTE
    for pid in (ROOT, 11):
        sampled.tree.put(pid, private=300, parent=ROOT)
    readings = [sampled.sample(changed=False) for _ in range(60)]
    assert not readings[0].is_exact
    assert readings[1] is readings[0]  # nothing is made anew before it can be paid
    assert any(reading.is_exact for reading in readings)
    assert {reading.combined.total for reading in readings} == {600 * MEGABYTE}


def test_pages_that_become_private_without_growth_are_read_again(sampled: Sampled) -> None:
    sampled.tree.put(ROOT, private=0, shared=400)
    sampled.tree.put(11, private=0, shared=400, parent=ROOT, family=ROOT)
    assert megabytes(sampled.sample().combined) == (400, 0, 400)
    sampled.tree.put(ROOT, private=200, shared=200, faults=0)
    sampled.tree.put(11, private=200, shared=200, parent=ROOT, family=ROOT, faults=200 * 256)
    assert megabytes(sampled.sample().combined) == (600, 400, 200)


def test_processes_that_replace_others_of_the_same_size_are_read(sampled: Sampled) -> None:
    sampled.tree.put(ROOT, private=1, shared=200)
    for pid in (11, 12, 13):
        sampled.tree.put(pid, private=0, shared=200, parent=ROOT, family=ROOT)
    assert megabytes(sampled.sample().combined)[0] == 201
    for pid in (11, 12, 13):
        sampled.tree.end(pid)
        sampled.tree.put(pid + 10, private=200, parent=ROOT)
    assert megabytes(sampled.sample().descendants)[0] == 600


def test_memory_that_is_left_to_one_process_is_read_as_private(sampled: Sampled) -> None:
    sampled.tree.put(ROOT, private=1, shared=300)
    sampled.tree.put(11, private=1, shared=300, parent=ROOT, family=ROOT)
    assert megabytes(sampled.sample().main) == (301, 1, 300)
    sampled.tree.end(11)
    sampled.tree.put(ROOT, private=301, shared=0, faults=0)
    assert megabytes(sampled.sample().main) == (301, 301, 0)


def test_a_peak_between_two_samples_counts_with_what_the_others_have(sampled: Sampled) -> None:
    sampled.tree.put(ROOT, private=50)
    child = sampled.tree.put(11, private=20, parent=ROOT)
    sampled.sample()
    child.mark = 520 * MEGABYTE
    child.faults += 1
    reading = sampled.sample()
    assert peak(reading.main) is None
    assert peak(reading.descendants) == 520
    assert peak(reading.combined) == 570


def test_a_peak_from_before_the_start_does_not_count(sampled: Sampled) -> None:
    sampled.tree.put(ROOT, private=50).mark = 900 * MEGABYTE
    reading = sampled.sample()
    assert peak(reading.main) is peak(reading.combined) is None
    assert reading.upper == (900 * MEGABYTE, 0, 900 * MEGABYTE)


def test_a_copy_that_drops_what_it_got_has_not_peaked(sampled: Sampled) -> None:
    sampled.tree.put(ROOT, private=300)
    sampled.sample()
    sampled.tree.put(ROOT, private=300, faults=5)
    child = sampled.tree.put(11, private=4, shared=0, parent=ROOT, family=ROOT)
    child.forked = True
    child.mark = 301 * MEGABYTE
    reading = sampled.sample()
    assert peak(reading.combined) == pytest.approx(305)  # 304 are there, and a megabyte may have come on top


def test_a_copy_that_has_dropped_what_it_got_has_not_peaked_when_its_mark_turns_out_a_little_higher(
    sampled: Sampled,
) -> None:
    sampled.spend_all()
    sampled.tree.put(ROOT, private=300)
    sampled.sample()
    child = sampled.tree.put(11, private=4, parent=ROOT, family=ROOT, faults=100)
    child.forked = True
    child.mark = 300 * MEGABYTE
    sampled.early(child)
    sampled.tree.put(11, private=4)
    child.mark = 301 * MEGABYTE
    reading = sampled.early(child)
    assert reading is not None
    assert peak(reading.combined) <= 305


@pytest.mark.parametrize(('mark', 'expected'), [(300.5, 311), (302, 512)])
def test_a_mark_that_is_hardly_higher_is_no_new_peak(sampled: Sampled, mark: float, expected: float) -> None:
    sampled.tree.put(ROOT, private=10)
    one = sampled.tree.put(11, private=300, parent=ROOT)
    sampled.tree.put(12, private=1, parent=ROOT)
    sampled.sample()
    sampled.tree.put(11, private=100)
    sampled.tree.put(12, private=200)
    sampled.sample()
    one.mark = int(mark * MEGABYTE)
    sampled.tree.put(11, private=100, faults=25600)
    assert peak(sampled.sample().combined) == pytest.approx(expected, abs=1)


def test_what_others_have_got_since_they_had_least_was_not_there_at_a_peak(sampled: Sampled) -> None:
    sampled.tree.put(ROOT, private=10)
    one = sampled.tree.put(11, private=100, parent=ROOT)
    other = sampled.tree.put(12, private=200, parent=ROOT)
    sampled.sample()
    sampled.tree.put(12, private=20)
    sampled.early(other)
    one.mark = 290 * MEGABYTE
    sampled.tree.put(11, private=200, faults=70000)
    sampled.tree.put(12, private=110)
    assert peak(sampled.early(one).combined) == pytest.approx(320, abs=2)


@pytest.mark.parametrize('still_leaving', [290, 100, 0])
def test_inherited_memory_that_leaves_page_by_page_counts_once(sampled: Sampled, still_leaving: int) -> None:
    sampled.tree.put(ROOT, private=10, shared=300)
    sampled.sample()
    child = sampled.tree.put(11, private=1, shared=300, parent=ROOT, family=ROOT)
    child.shared, child.leaving = 3, 297  # its mapping has gone before its pages are read
    child.mark = 301 * MEGABYTE
    assert sampled.sample().is_exact
    sampled.spend_all()
    child.leaving = still_leaving
    sampled.tree.put(11, private=1, shared=3, family=ROOT)
    sampled.tree.put(12, private=1, shared=3, parent=ROOT, family=ROOT)
    reading = sampled.early(child)
    assert reading.combined.total == pytest.approx(312 * MEGABYTE, abs=MEGABYTE)


@pytest.fixture
def with_file(sampled: Sampled) -> tuple[Sampled, FakeProcess]:
    """Return a root with 250 MB of a file beside 50 MB of its own, and a child with 20 MB."""
    sampled.tree.put(ROOT, private=300, files=250)
    child = sampled.tree.put(11, private=20, parent=ROOT)
    sampled.sample()
    return sampled, child


def test_pages_of_a_file_that_others_have_do_not_peak(with_file: tuple[Sampled, FakeProcess]) -> None:
    sampled, child = with_file
    child.mark = 320 * MEGABYTE
    child.faults += 300 * MEGABYTE // (64 * 4096) + 1
    assert peak(sampled.sample().combined) == pytest.approx(300 + 20 + 50)


def test_anonymous_pages_peak_whatever_files_others_have(with_file: tuple[Sampled, FakeProcess]) -> None:
    sampled, child = with_file
    child.mark = 320 * MEGABYTE
    child.faults += 300 * MEGABYTE // 4096 + 1
    assert peak(sampled.sample().combined) == 300 + 320


def test_anonymous_pages_that_were_seen_to_come_need_no_new_faults(with_file: tuple[Sampled, FakeProcess]) -> None:
    sampled, child = with_file
    sampled.tree.put(11, private=270, parent=ROOT)
    sampled.sample()
    child.mark = 500 * MEGABYTE
    sampled.tree.put(11, private=20, parent=ROOT, faults=230 * MEGABYTE // 4096 + 1)
    assert peak(sampled.sample().combined) == 300 + 500


def test_huge_pages_peak_whatever_files_others_have(with_file: tuple[Sampled, FakeProcess]) -> None:
    sampled, child = with_file
    child.mark = 320 * MEGABYTE
    child.faults += 150
    assert peak(sampled.sample().combined) == pytest.approx(300 + 320 - 150 * 64 * 4096 / MEGABYTE)


def test_pages_of_a_file_that_a_process_was_seen_with_do_not_peak_when_it_drops_them(
    with_file: tuple[Sampled, FakeProcess],
) -> None:
    sampled, child = with_file
    sampled.tree.put(11, private=270, files=250, parent=ROOT)
    sampled.sample()
    sampled.tree.put(11, private=20, parent=ROOT, faults=100_000)
    child.mark = 275 * MEGABYTE
    assert peak(sampled.sample().combined) == 300 + 20 + 5


def test_a_root_that_has_ended_is_unknown_and_its_descendants_are_not(sampled: Sampled) -> None:
    root = sampled.tree.put(ROOT, private=30)
    sampled.tree.put(11, private=40, parent=ROOT)
    sampled.sample()
    root.ended = True
    reading = sampled.sample()
    assert reading.main.total is None
    assert reading.descendants.total == 40 * MEGABYTE


def test_a_program_that_has_not_begun_is_no_part(sampled: Sampled) -> None:
    sampled.tree.put(ROOT, private=10, shared=100)
    child = sampled.tree.put(11, private=20, shared=100, family=ROOT)
    child.resident = child.anonymous = 12 << 10
    reading = sampled.sample()
    assert megabytes(reading.combined) == (110, 10, 100)
    assert not reading.descendants.total
    sampled.tree.put(11, private=20, shared=100, family=ROOT)
    assert megabytes(sampled.sample().descendants) == (120, 20, 100)


def test_a_root_that_has_not_begun_is_unknown(sampled: Sampled) -> None:
    root = sampled.tree.put(ROOT, private=10)
    root.resident = root.anonymous = 12 << 10
    assert megabytes(sampled.sample().main) == (None, None, None)


def test_memory_of_the_parent_in_which_a_process_runs_does_not_count(sampled: Sampled) -> None:
    sampled.tree.put(ROOT, private=300)
    sampled.tree.put(11, private=300, parent=ROOT, family=ROOT).shares_memory = True
    reading = sampled.sample()
    assert megabytes(reading.descendants) == (0, 0, 0)
    assert megabytes(reading.combined) == (300, 300, 0)


def test_processes_of_another_user_have_no_split(sampled: Sampled) -> None:
    sampled.tree.put(ROOT, private=50)
    sampled.tree.put(11, private=30, parent=ROOT)
    sampled.files.forbidden.add(11)
    reading = sampled.sample()
    assert sampled.source.unreadable
    assert megabytes(reading.main) == (50, 50, 0)
    assert megabytes(reading.descendants) == (30, None, None)
    assert megabytes(reading.combined) == (80, None, None)


def test_exact_readings_stay_within_the_budget() -> None:
    sampled = Sampled(cost=0.03)
    for pid in (ROOT, 11, 12):
        sampled.tree.put(pid, private=100, parent=ROOT)
    for _ in range(300):
        for pid in (ROOT, 11, 12):
            sampled.tree.put(pid, private=sampled.tree.members[pid].private + 5, faults=5 * 256)
        reading = sampled.sample()
        assert reading.main.total == sampled.tree.root.resident
    assert sampled.files.spent <= 0.25 + 0.01 * 300 + 0.1 + 300 * 0.003  # and the mark of the root at every sample
    assert sampled.files.read.count('smaps') > 50


def test_while_much_changes_in_a_moment_half_of_the_budget_is_kept() -> None:
    sampled = Sampled(cost=0.03)
    sampled.tree.put(ROOT, private=100, shared=900)
    sampled.tree.put(11, private=100, shared=900, parent=ROOT, family=ROOT)
    exact = []
    for _ in range(20):
        sampled.tree.put(11, private=110, shared=890, family=ROOT, faults=2560)  # 10 MB of 1.1 GB, in 10 ms
        exact.append(sampled.sample().is_exact)
        sampled.now += 0.01 - 1.0
    assert 0 < sum(exact) <= 3
    sampled.now += 1.0
    assert sampled.sample().is_exact


def test_a_single_process_is_read_seldom_while_it_grows_and_again_when_it_has_grown(sampled: Sampled) -> None:
    sampled.tree.put(ROOT, private=100, shared=10)
    sampled.sample()
    sampled.files.read.clear()
    for size in range(105, 355, 5):
        sampled.tree.put(ROOT, private=size, shared=10, faults=5 * 256)
        # What has come is anonymous, which in a process that is alone is private.
        assert megabytes(sampled.sample().main)[:2] == (size + 10, size)
    assert sampled.files.read.count('smaps_rollup') == 1
    assert megabytes(sampled.sample(changed=False).main) == (360, 350, 10)
    assert sampled.files.read.count('smaps_rollup') == 2


def test_pages_of_a_file_that_a_single_process_has_mapped_are_not_taken_for_private(sampled: Sampled) -> None:
    sampled.tree.put(ROOT, private=100)
    sampled.sample()
    sampled.tree.put(ROOT, private=150, files=30)
    assert megabytes(sampled.sample().main) == (150, 120, 30)
    sampled.tree.put(ROOT, private=115)
    assert megabytes(sampled.sample().main)[:2] == (115, 115)


def test_between_exact_readings_a_lower_bound_is_told() -> None:
    sampled = Sampled(cost=0.0)
    sampled.tree.put(ROOT, private=100)
    sampled.tree.put(11, private=100, parent=ROOT)
    sampled.sample()
    sampled.files.cost = 0.3
    sampled.tree.put(ROOT, private=200, faults=25600)
    sampled.sample()
    sampled.tree.put(ROOT, private=300, faults=25600)
    assert sampled.sample().combined.total == 400 * MEGABYTE
    assert 'smaps_rollup' not in sampled.files.read


def test_what_a_process_has_dropped_does_not_count_beside_what_has_come_since() -> None:
    sampled = Sampled(cost=0.0)
    sampled.tree.put(ROOT, private=100)
    child = sampled.tree.put(11, private=320, files=300, parent=ROOT)
    sampled.sample()
    sampled.tree.put(11, private=20, parent=ROOT, faults=0)
    child.mark = 321 * MEGABYTE
    sampled.tree.put(11, private=320, parent=ROOT, faults=80_000)
    assert peak(sampled.sample().combined) == 100 + 321


def test_a_large_tree_is_not_read_at_the_start_but_at_the_end() -> None:
    sampled = Sampled()
    sampled.tree.put(ROOT, private=1500)
    assert megabytes(sampled.sample(FIRST).main) == (
        1500,
        1500,
        0,
    )  # its anonymous memory: reading is predicted to take 8 ms
    assert sampled.files.read == ['peak']
    assert megabytes(sampled.sample(LAST).main) == (1500, 1500, 0)
    assert 'smaps_rollup' in sampled.files.read


def test_what_can_never_be_afforded_leaves_the_total_true() -> None:
    sampled = Sampled()
    sampled.tree.put(ROOT, private=60_000)  # predicted: 0.34 s
    for kind in (FIRST, LAST):
        assert megabytes(sampled.sample(kind).main) == (60_000, 60_000, 0)
    assert not {'smaps', 'smaps_rollup'} & set(sampled.files.read)


def test_at_the_end_sums_are_read_where_mappings_cost_too_much() -> None:
    sampled = Sampled()
    for pid in (ROOT, 11, 12):
        sampled.tree.put(pid, private=4000, shared=500, parent=ROOT)
    sampled.sample(FIRST)
    reading = sampled.sample(LAST)
    assert set(sampled.files.read) == {'smaps_rollup', 'peak'}
    assert megabytes(reading.combined) == (12_750, 12_000, 750)


def test_a_command_that_is_watched_at_its_start_keeps_its_peak(sampled: Sampled) -> None:
    root = sampled.tree.put(ROOT, private=1)
    sampled.sample()
    root.mark = 7 * MEGABYTE
    sampled.source.watch(root)
    root.ended = True
    assert peak(sampled.sample().main) == 7


def test_a_reading_says_whether_pages_were_counted(sampled: Sampled) -> None:
    sampled.tree.put(ROOT, private=100)
    sampled.tree.put(11, private=20, parent=ROOT)
    reading = sampled.sample()
    assert reading.is_exact
    assert reading.given_back == 0
    sampled.spend_all()
    sampled.tree.put(11, private=220, faults=200 * 256)
    reading = sampled.sample()
    assert not reading.is_exact
    assert megabytes(reading.combined) == (320, 320, 0)


def test_what_was_given_back_since_pages_were_counted_is_told(sampled: Sampled) -> None:
    sampled.tree.put(ROOT, private=100)
    sampled.tree.put(11, private=20, parent=ROOT)
    sampled.sample()
    sampled.spend_all()
    sampled.tree.put(11, private=220, faults=200 * 256)
    sampled.sample()
    sampled.tree.put(11, private=50, faults=0)
    sampled.sample()
    reading = sampled.sample(LAST)
    assert reading.is_exact
    assert reading.combined.total == 150 * MEGABYTE
    assert reading.given_back == 170 * MEGABYTE


def test_what_a_process_had_whose_peak_was_seen_is_given_back(sampled: Sampled) -> None:
    sampled.tree.put(ROOT, private=100)
    child = sampled.tree.put(11, private=20, parent=ROOT)
    sampled.sample()
    sampled.spend_all()
    child.mark = 320 * MEGABYTE
    child.faults += 300 * 256
    sampled.tree.end(11)
    sampled.tree.members[11] = child  # its mark is read before it is gone
    child.ended = False
    child.resident = child.anonymous = 20 * MEGABYTE
    sampled.early(child)
    sampled.tree.members.pop(11)
    child.resident = child.anonymous = 0
    child.ended = True
    reading = sampled.sample(LAST)
    assert reading.is_exact
    assert reading.given_back == 320 * MEGABYTE


def test_of_a_copy_that_has_ended_its_inherited_pages_were_not_given_back(sampled: Sampled) -> None:
    sampled.tree.put(ROOT, private=100)
    sampled.sample()
    sampled.spend_all()
    sampled.tree.put(11, private=30, shared=100, parent=ROOT, family=ROOT, faults=30 * 256)
    sampled.tree.put(ROOT, private=0, shared=100, faults=0)
    assert sampled.sample().combined.total == 130 * MEGABYTE
    sampled.tree.end(11)
    reading = sampled.sample(LAST)
    assert reading.is_exact
    # 30 of its own; and of its page faults it is not known that they have made no copies.
    assert reading.given_back == 60 * MEGABYTE


def test_copies_that_a_process_has_made_of_inherited_pages_are_given_back_when_it_ends(sampled: Sampled) -> None:
    sampled.tree.put(ROOT, private=100)
    sampled.sample()
    sampled.spend_all()
    sampled.tree.put(11, private=100, parent=ROOT, family=ROOT, faults=100 * 256)
    assert sampled.sample().combined.total == 200 * MEGABYTE
    sampled.tree.end(11)
    reading = sampled.sample(LAST)
    assert reading.is_exact
    assert reading.given_back >= 100 * MEGABYTE


def test_copies_that_the_parent_has_made_are_given_back_when_its_child_ends(sampled: Sampled) -> None:
    sampled.tree.put(ROOT, private=0, shared=100)
    sampled.tree.put(11, private=0, shared=100, parent=ROOT, family=ROOT, faults=0)
    sampled.sample()
    sampled.spend_all()
    sampled.tree.put(ROOT, private=100, faults=100 * 256)
    sampled.tree.put(11, private=100, family=ROOT, faults=0)
    assert sampled.sample().combined.total == 200 * MEGABYTE
    sampled.tree.end(11)
    reading = sampled.sample(LAST)
    assert reading.is_exact
    assert reading.given_back >= 100 * MEGABYTE


def test_memory_that_is_handed_over_is_not_there_twice(sampled: Sampled) -> None:
    sampled.tree.put(ROOT, private=10)
    first = sampled.tree.put(11, private=20, parent=ROOT)
    sampled.tree.put(12, private=20, parent=ROOT)
    sampled.sample()
    sampled.sample()
    first.mark = 520 * MEGABYTE
    first.faults += 500 * 256
    sampled.tree.put(12, private=520, faults=500 * 256)
    reading = sampled.sample()
    assert reading.combined.total == 550 * MEGABYTE
    assert peak(reading.combined) == 550
    assert reading.upper[2] == 1050 * MEGABYTE
    assert reading.combined.lower == 550 * MEGABYTE


def test_between_two_samples_an_estimate_is_told_while_little_has_grown(sampled: Sampled) -> None:
    sampled.tree.put(ROOT, private=100)
    child = sampled.tree.put(11, private=20, parent=ROOT)
    sampled.sample()
    sampled.files.read.clear()
    sampled.tree.put(11, private=25, faults=5 * 256)
    reading = sampled.early(child)
    assert megabytes(reading.combined) == (125, 125, 0)
    assert not reading.is_exact
    assert sampled.files.read == ['peak']
    assert reading.upper == (100 * MEGABYTE, 25 * MEGABYTE, 125 * MEGABYTE)


def test_between_two_samples_pages_are_counted_where_much_has_grown(sampled: Sampled) -> None:
    sampled.tree.put(ROOT, private=100)
    child = sampled.tree.put(11, private=20, parent=ROOT)
    sampled.sample()
    sampled.tree.put(11, private=120, faults=100 * 256)
    reading = sampled.early(child)
    assert reading.is_exact
    assert megabytes(reading.combined) == (220, 220, 0)
    assert sampled.early(child) is None


def test_a_peak_that_was_read_between_two_samples_is_told_once(sampled: Sampled) -> None:
    sampled.tree.put(ROOT, private=100)
    child = sampled.tree.put(11, private=20, parent=ROOT)
    sampled.sample()
    sampled.sample()
    child.mark = 320 * MEGABYTE
    child.faults += 300 * 256
    assert peak(sampled.early(child).combined) == 420
    assert peak(sampled.sample(changed=False).combined) is None


def test_marks_of_processes_that_do_not_count_are_not_read_early(sampled: Sampled) -> None:
    sampled.tree.put(ROOT, private=100)
    sampled.sample()
    child = sampled.tree.put(11, private=100, parent=ROOT, family=ROOT)
    child.shares_memory = True
    sampled.files.read.clear()
    sampled.early(child)
    assert sampled.files.read == []


def test_huge_pages_count_as_soon_as_a_mark_tells_of_them(sampled: Sampled) -> None:
    sampled.tree.put(ROOT, private=100)
    child = sampled.tree.put(11, private=20, parent=ROOT)
    sampled.sample()
    child.huge_pages = 64
    child.faults += 32
    reading = sampled.sample()
    assert reading.upper == (100 * MEGABYTE, 84 * MEGABYTE, 184 * MEGABYTE)
    sampled.tree.put(11, private=20)
    assert megabytes(sampled.sample().combined) == (184, 184, 0)


def test_how_many_there_were_at_once_is_told_when_all_have_been_waited_for(sampled: Sampled) -> None:
    sampled.tree.put(ROOT, private=50)
    for pid in (11, 12, 13):
        sampled.tree.put(pid, private=5, parent=ROOT)
    sampled.sample()
    assert sampled.source.most_waited_for is None
    for pid in (11, 12, 13):
        sampled.tree.end(pid)
    sampled.sample()
    assert sampled.source.most_waited_for == 3


def test_of_another_users_process_estimates_tell_the_total(sampled: Sampled) -> None:
    sampled.tree.put(ROOT, private=50)
    sampled.tree.put(11, private=30, parent=ROOT)
    sampled.files.forbidden.add(11)
    sampled.sample()
    sampled.spend_all()
    sampled.tree.put(11, private=90, faults=60 * 256)
    reading = sampled.sample()
    assert megabytes(reading.combined) == (140, None, None)
    assert megabytes(reading.descendants) == (90, None, None)


def test_nothing_is_kept_of_processes_that_have_ended(sampled: Sampled) -> None:
    sampled.tree.put(ROOT, private=100)
    sampled.tree.put(11, private=500, parent=ROOT)
    sampled.sample()
    sampled.tree.end(11)
    references = []
    for pid in range(100, 300):
        references.append(weakref.ref(sampled.tree.put(pid, private=5, parent=ROOT, family=ROOT)))
        sampled.sample()
        sampled.tree.end(pid)
        sampled.sample()
    gc.collect()
    assert sum(reference() is not None for reference in references) < 10


def test_between_exact_readings_an_estimate_without_reading_is_at_hand(sampled: Sampled) -> None:
    sampled.tree.put(ROOT, private=10, shared=200)
    for pid in (11, 12):
        sampled.tree.put(pid, private=5, shared=200, parent=ROOT, family=ROOT)
    sampled.sample()
    sampled.spend_all()
    reading = sampled.sample()
    assert megabytes(reading.combined) == (None, None, None)
    assert [megabytes(group) for group in sampled.source.estimate()] == [(210, 10, 200), (210, 10, 200), (220, 20, 200)]
