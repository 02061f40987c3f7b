from __future__ import annotations

import pytest

from gpu_tracker.resources.ram.estimates import DESCENDANTS, Estimates, reconcile
from gpu_tracker.resources.ram.reading import Resident
from gpu_tracker.resources.ram.split import Split, SplitReader
from support.simulated_memory import MEGABYTE, FakeFiles, FakeProcess, FakeTree

ROOT, CHILD = 10, 11
COMBINED = 2


class Estimated:
    """A tree of which exact readings are made when a test says so, and estimates at any time."""

    def __init__(self) -> None:
        self.tree = FakeTree()
        self.files = FakeFiles(self.tree)
        self.last: Split | None = None
        self.before: Split | None = None
        self.estimates = Estimates(self.tree, self)

    def read(self) -> None:
        reader = SplitReader(self.files, self.files.cpu_time)
        split, _ = reader.read(self.tree.root, list(self.tree.members.values()), detailed=True)
        self.before, self.last = self.last, split
        self.sampled()

    def sampled(self) -> None:
        """Take what all have now for what they had at the sample before."""
        for process in self.tree.members.values():
            process.anonymous_before = process.anonymous_least = process.anonymous

    @property
    def descendants(self) -> list[FakeProcess]:
        return [process for process in self.tree.members.values() if process is not self.tree.root]

    def groups(self) -> list[Resident]:
        counted = [process for process in self.tree.members.values() if not process.ended]
        return [
            self.estimates.of_group(0, [self.tree.root]),
            self.estimates.of_group(DESCENDANTS, self.descendants),
            self.estimates.of_group(COMBINED, counted),
        ]

    def raised(self, *risen: FakeProcess, copies: frozenset[FakeProcess] = frozenset()) -> list[Resident]:
        """Return the groups after some have peaked, whose marks have just been read."""
        for process in risen:
            process.peak = process.mark
            process.peak_reading.resident = process.resident
        groups = self.groups()
        self.estimates.raise_groups(groups, risen, list(self.tree.members.values()), set(copies))
        return groups


def figures(resident: Resident) -> tuple[float | None, ...]:
    """Return megabytes: total, private, shared and what is certain."""
    values = (resident.total, resident.private, resident.shared, resident.lower)
    return tuple(None if size is None else size / MEGABYTE for size in values)


def peaks(groups: list[Resident]) -> list[float | None]:
    return [None if group.peak is None else group.peak / MEGABYTE for group in groups]


@pytest.fixture
def estimated() -> Estimated:
    """Return a root with 10 MB of its own and 100 that it shares with a copy of it, which has 20 of its own."""
    estimated = Estimated()
    estimated.tree.put(ROOT, private=10, shared=100)
    estimated.tree.put(CHILD, private=20, shared=100, parent=ROOT, family=ROOT)
    estimated.read()
    return estimated


def test_without_changes_an_estimate_says_what_was_read(estimated: Estimated) -> None:
    assert list(map(figures, estimated.groups())) == [(110, 10, 100, 110), (120, 20, 100, 120), (130, 30, 100, 130)]


def test_nobody_has_nothing() -> None:
    assert figures(Estimated().estimates.of_group(DESCENDANTS, [])) == (0, 0, 0, 0)


def test_anonymous_memory_that_comes_and_goes_is_a_process_own(estimated: Estimated) -> None:
    estimated.tree.put(CHILD, private=50, shared=100, family=ROOT, faults=30 * 256)
    assert list(map(figures, estimated.groups())) == [(110, 10, 100, 110), (150, 50, 100, 150), (160, 60, 100, 160)]
    estimated.tree.put(ROOT, private=3, shared=100, faults=0)
    assert list(map(figures, estimated.groups())) == [(103, 3, 100, 103), (150, 50, 100, 150), (153, 53, 100, 146)]


def test_anonymous_memory_that_has_come_and_gone_is_taken_for_copies_but_not_for_certain(estimated: Estimated) -> None:
    estimated.tree.put(CHILD, private=50, shared=100, family=ROOT, faults=30 * 256)
    estimated.groups()
    estimated.tree.put(CHILD, private=20, shared=100, family=ROOT, faults=0)
    assert figures(estimated.groups()[COMBINED])[3] == 130


def test_a_new_program_has_its_anonymous_memory_alone(estimated: Estimated) -> None:
    estimated.tree.put(12, private=40, parent=ROOT, faults=40 * 256)
    assert list(map(figures, estimated.groups())) == [(110, 10, 100, 110), (160, 60, 100, 160), (170, 70, 100, 170)]


def test_files_that_a_new_program_has_mapped_others_may_have_as_well(estimated: Estimated) -> None:
    estimated.tree.put(12, private=40, files=30, parent=ROOT, faults=40 * 256)
    assert figures(estimated.groups()[COMBINED]) == (140, 40, 100, 140)


def test_before_any_reading_only_what_is_anonymous_adds_up() -> None:
    estimated = Estimated()
    estimated.tree.put(ROOT, private=10, mapped=60)
    estimated.tree.put(CHILD, private=20, mapped=60, parent=ROOT)
    total, private, shared, lower = figures(estimated.groups()[COMBINED])
    assert (total, private, shared) == (90, 30, 60)
    assert lower == 90 - 60  # a file that was mapped twice counts twice in the size of one process


def test_a_new_copy_has_nothing_alone_until_it_has_page_faults(estimated: Estimated) -> None:
    child = estimated.tree.put(12, private=0, shared=110, parent=ROOT, family=ROOT, faults=0)
    assert child.inherited == 110 * MEGABYTE
    # What the root had alone, the copy has as well.
    assert figures(estimated.groups()[COMBINED]) == (130, 20, 110, 130)
    child.faults = 10 * 256
    assert figures(estimated.groups()[COMBINED]) == (140, 30, 110, 130)


def test_what_a_new_copy_has_beyond_what_it_has_inherited_it_has_alone(estimated: Estimated) -> None:
    estimated.tree.put(12, private=0, shared=110, parent=ROOT, family=ROOT, faults=0)
    estimated.tree.put(12, private=25, shared=110, parent=ROOT, family=ROOT, faults=25 * 256)
    assert figures(estimated.groups()[COMBINED]) == (155, 45, 110, 155)


def test_what_a_copy_had_beyond_its_parent_when_it_was_first_seen_is_not_certain(estimated: Estimated) -> None:
    # Its parent may have given back as much since it forked.
    estimated.tree.put(12, private=40, shared=110, parent=ROOT, family=ROOT, faults=40 * 256)
    assert figures(estimated.groups()[COMBINED]) == (170, 60, 110, 130)


def test_page_faults_make_copies_of_what_was_shared(estimated: Estimated) -> None:
    estimated.tree.put(CHILD, private=20, shared=100, family=ROOT, faults=60 * 256)
    assert list(map(figures, estimated.groups())) == [(110, 10, 100, 110), (120, 80, 40, 60), (190, 90, 100, 130)]


def test_a_few_page_faults_have_other_reasons(estimated: Estimated) -> None:
    estimated.tree.put(CHILD, private=20, shared=100, family=ROOT, faults=5 * 256)
    assert figures(estimated.groups()[COMBINED]) == (130, 30, 100, 130)


def test_no_more_copies_than_there_was_to_copy(estimated: Estimated) -> None:
    estimated.tree.put(CHILD, private=20, shared=100, family=ROOT, faults=1000 * 256)
    assert figures(estimated.groups()[COMBINED])[0] == 230
    estimated.tree.put(ROOT, private=10, shared=100, faults=1000 * 256)
    assert figures(estimated.groups()[COMBINED])[0] == 230  # all that there is


def test_what_descendants_have_copied_the_root_keeps_for_itself() -> None:
    estimated = Estimated()
    estimated.tree.put(ROOT, private=0, shared=100)
    for pid in (11, 12):
        estimated.tree.put(pid, private=0, shared=100, parent=ROOT, family=ROOT)
    estimated.read()
    for pid in (11, 12):
        estimated.tree.put(pid, private=0, shared=100, family=ROOT, faults=100 * 256)
    groups = estimated.groups()
    assert [figures(group)[0] for group in groups] == [100, 200, 300]


def test_a_file_that_members_have_mapped_since_counts_once() -> None:
    estimated = Estimated()
    for pid in (ROOT, CHILD, 12):
        estimated.tree.put(pid, private=10, mapped=20, parent=ROOT)
    estimated.read()
    assert figures(estimated.groups()[COMBINED]) == (50, 30, 20, 50)
    for pid in (ROOT, CHILD, 12):
        estimated.tree.put(pid, private=10, mapped=70, faults=50)
    total, private, _, lower = figures(estimated.groups()[COMBINED])
    assert (total, private) == (100, 30)
    assert lower == 100 - 50  # what page faults can have mapped since


def test_a_file_that_takes_the_place_of_another_one_is_not_certain_to_be_nobody_elses() -> None:
    # Two have mapped different files; then both have mapped the same one.
    estimated = Estimated()
    estimated.tree.put(ROOT, private=10)
    estimated.tree.put(11, private=100, files=100, parent=ROOT)
    estimated.tree.put(12, private=0, mapped=100, parent=ROOT)
    estimated.read()
    assert figures(estimated.groups()[DESCENDANTS])[0] == 200
    estimated.tree.put(11, private=50, mapped=100, faults=50 * 256 + 100 * 16)
    assert figures(estimated.groups()[DESCENDANTS])[3] <= 150


def test_one_that_has_ended_takes_its_own_memory_with_it(estimated: Estimated) -> None:
    estimated.tree.put(12, private=60, parent=ROOT)
    estimated.read()
    estimated.tree.end(12)
    assert figures(estimated.groups()[COMBINED]) == (130, 30, 100, 130)
    assert figures(estimated.groups()[DESCENDANTS]) == (120, 20, 100, 120)


def test_of_a_group_with_one_that_may_not_be_read_only_the_total_is_told(estimated: Estimated) -> None:
    estimated.tree.put(12, private=60, parent=ROOT)
    estimated.files.forbidden.add(12)
    estimated.read()
    assert figures(estimated.groups()[COMBINED])[:3] == (190, None, None)
    assert figures(estimated.groups()[0]) == (110, 10, 100, 110)


def test_bytes_that_a_process_has_mapped_twice_count_once() -> None:
    estimated = Estimated()
    estimated.tree.put(ROOT, private=10)
    estimated.tree.put(CHILD, private=100, files=80, parent=ROOT)
    estimated.read()
    estimated.last.counted[estimated.tree.members[CHILD]].doubled = 40 * MEGABYTE
    assert figures(estimated.groups()[DESCENDANTS])[0] == 60


def test_nobody_has_risen() -> None:
    estimated = Estimated()
    estimated.tree.put(ROOT, private=10)
    assert peaks(estimated.raised()) == [None, None, None]


def test_a_peak_counts_beside_what_the_others_have(estimated: Estimated) -> None:
    child = estimated.tree.put(12, private=20, parent=ROOT)
    estimated.read()
    child.mark = 520 * MEGABYTE
    groups = estimated.raised(child)
    assert peaks(groups) == [None, 640, 650]
    assert [group.lower for group in groups] == [110 * MEGABYTE, 520 * MEGABYTE, 520 * MEGABYTE]


def test_what_has_come_to_others_since_the_sample_before_is_taken_off_a_peak() -> None:
    # One hands over 500 MB to another: there were never more than 500 and what both have beside.
    estimated = Estimated()
    estimated.tree.put(ROOT, private=10)
    first = estimated.tree.put(11, private=20, parent=ROOT)
    second = estimated.tree.put(12, private=20, parent=ROOT)
    estimated.read()
    first.mark = 520 * MEGABYTE
    first.faults += 500 * 256
    estimated.tree.put(12, private=520, faults=500 * 256)
    assert peaks(estimated.raised(first)) == [None, 540, 550]
    assert second.resident == 520 * MEGABYTE


def test_a_copy_that_has_dropped_what_it_had_has_not_peaked(estimated: Estimated) -> None:
    copy = estimated.tree.put(12, private=4, parent=ROOT, family=ROOT)
    copy.mark = 110 * MEGABYTE
    estimated.sampled()
    assert peaks(estimated.raised(copy, copies=frozenset({copy})))[COMBINED] == 130 + 1 / 256  # its page fault


def test_a_peak_of_files_that_were_mapped_unseen_is_not_certain(estimated: Estimated) -> None:
    # Of the 300 MB a file may have been mapped twice; libraries, which hardly are, do not count.
    child = estimated.tree.put(12, private=300, files=200, parent=ROOT)
    child.mark = 310 * MEGABYTE
    groups = estimated.raised(child)
    assert groups[0].lower == 110 * MEGABYTE
    assert groups[DESCENDANTS].lower == 120 * MEGABYTE  # 20 and 100 of the two


def test_a_peak_is_no_more_than_the_marks_together() -> None:
    groups = [Resident(10), Resident(20), Resident(30)]
    groups[1].peak, groups[2].peak = 50, 70
    reconcile(groups, (10, 45, 55), (0, 0))
    assert [group.peak for group in groups] == [None, 45, 55]


def test_both_together_have_had_no_less_than_either() -> None:
    groups = [Resident(10), Resident(20), Resident(30)]
    groups[0].peak, groups[1].peak = 80, 50
    reconcile(groups, (None, None, None), (0, 0))
    assert [group.peak for group in groups] == [80, 50, 80]
    groups = [Resident(10), Resident(20), Resident(30)]
    groups[1].peak = 50
    reconcile(groups, (None, None, None), (0, 15))
    assert [group.peak for group in groups] == [None, 50, 35]
