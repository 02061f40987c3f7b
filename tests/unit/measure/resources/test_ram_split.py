from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_tracker.resources.ram.memory_files import rollup
from gpu_tracker.resources.ram.smaps import parse
from gpu_tracker.resources.ram.split import SplitReader, has_begun
from support.simulated_memory import MEGABYTE, FakeFiles, FakeTree

if TYPE_CHECKING:
    from gpu_tracker.resources.ram.memory_files import Sums
    from gpu_tracker.resources.ram.reading import Resident
    from gpu_tracker.resources.ram.smaps import Mappings

ROOT = 10


@pytest.fixture
def tree() -> FakeTree:
    tree = FakeTree()
    tree.put(ROOT, private=10, shared=100)
    tree.put(11, private=20, shared=100, family=ROOT)
    return tree


def read(tree: FakeTree, files: FakeFiles, *, detailed: bool) -> tuple[tuple[float | None, ...], ...]:
    split, _ = SplitReader(files, files.cpu_time).read(tree.root, list(tree.members.values()), detailed=detailed)
    return tuple(map(megabytes, (split.main, split.descendants, split.combined)))


def megabytes(resident: Resident) -> tuple[float | None, ...]:
    return tuple(
        None if size is None else size / MEGABYTE for size in (resident.total, resident.private, resident.shared)
    )


@pytest.mark.parametrize('detailed', [False, True])
def test_both_ways_count_what_is_shared_once(tree: FakeTree, detailed: bool) -> None:
    files = FakeFiles(tree)
    assert read(tree, files, detailed=detailed) == ((110, 10, 100), (120, 20, 100), (130, 30, 100))


@pytest.mark.parametrize('detailed', [False, True])
def test_what_may_not_be_read_counts_with_its_resident_size(tree: FakeTree, detailed: bool) -> None:
    files = FakeFiles(tree)
    files.forbidden.add(11)
    assert read(tree, files, detailed=detailed) == ((110, 10, 100), (120, None, None), (230, None, None))


def test_one_that_may_not_be_read_is_known_until_it_may_be_read(tree: FakeTree) -> None:
    files = FakeFiles(tree)
    reader = SplitReader(files, files.cpu_time)
    processes = list(tree.members.values())
    files.forbidden.add(11)
    reader.read(tree.root, processes, detailed=True)
    assert [process.unreadable for process in processes] == [False, True]
    assert reader.unreadable
    files.forbidden.clear()
    reader.read(tree.root, processes, detailed=True)
    assert [process.unreadable for process in processes] == [False, False]


def test_copies_that_may_not_be_read_count_as_large_as_the_largest(tree: FakeTree) -> None:
    files = FakeFiles(tree)
    tree.put(12, private=50, shared=100, family=ROOT)
    files.forbidden |= {11, 12}
    assert read(tree, files, detailed=True)[1] == (150, None, None)


def test_a_process_that_takes_too_long_is_left_alone(tree: FakeTree) -> None:
    files = FakeFiles(tree)
    tree.put(11, private=50_000)
    assert read(tree, files, detailed=False) == ((110, 10, 100), (50_000, None, None), (50_110, None, None))
    assert files.read == ['smaps_rollup']


def test_one_that_ends_meanwhile_is_no_part(tree: FakeTree) -> None:
    files = FakeFiles(tree)
    processes = list(tree.members.values())
    root = tree.root
    tree.end(11)
    split, _ = SplitReader(files, files.cpu_time).read(root, processes, detailed=True)
    assert megabytes(split.descendants) == (None, None, None)
    assert megabytes(split.combined) == (110, 10, 100)


def sums(*, anonymous: int, of_files: int = 0) -> Sums | None:
    """Return sums that were read, given in kilobytes."""
    lines = {'Pss': 1, 'Private_Dirty': anonymous, 'Private_Clean': of_files, 'Anonymous': anonymous}
    return rollup(''.join(f'{name}: {size} kB\n' for name, size in lines.items()).encode())


# What a process has between the two programs of an exec, in the lines of proc_pid_smaps(5).
ARGUMENTS = b"""\
7ffd8f0c7000-7ffd8f0e9000 rw-p 00000000 00:00 0                          [stack]
Size:                136 kB
KernelPageSize:        4 kB
MMUPageSize:           4 kB
Rss:                  12 kB
Pss:                  12 kB
Pss_Dirty:            12 kB
Shared_Clean:          0 kB
Shared_Dirty:          0 kB
Private_Clean:         0 kB
Private_Dirty:        12 kB
Referenced:           12 kB
Anonymous:            12 kB
"""


@pytest.mark.parametrize(
    ('memory', 'expected'),
    [
        (parse(ARGUMENTS, ()), False),
        (sums(anonymous=12), False),
        (sums(anonymous=12, of_files=4), True),
        (sums(anonymous=1024), True),  # an unpacked program has no page of a file any more
        (sums(anonymous=0), True),
    ],
)
def test_a_process_with_a_few_anonymous_pages_alone_has_not_begun(memory: Mappings | Sums, expected: bool) -> None:
    assert has_begun(memory) is expected


def test_costs_follow_what_reading_has_taken(tree: FakeTree) -> None:
    files = FakeFiles(tree, cost=0.002)
    reader = SplitReader(files, files.cpu_time)
    processes = list(tree.members.values())
    before = reader.cost(processes, detailed=True)
    for _ in range(20):
        reader.read(tree.root, processes, detailed=True)
    assert before < 0.0045
    assert reader.cost(processes, detailed=True) == pytest.approx(0.004, rel=0.05)


def test_what_was_shared_in_the_family_is_remembered(tree: FakeTree) -> None:
    files = FakeFiles(tree)
    split, _ = SplitReader(files, files.cpu_time).read(tree.root, list(tree.members.values()), detailed=True)
    assert split.copied == 200 * MEGABYTE
    assert [seen.copied for seen in split.counted.values()] == [100 * MEGABYTE] * 2


@pytest.mark.parametrize('detailed', [False, True])
def test_huge_pages_that_come_before_the_exact_reading_are_not_added_to_it_again(detailed: bool) -> None:
    """Growth since the reading is told by the huge pages that were there then."""
    tree = FakeTree()
    process = tree.put(ROOT, private=10)
    process.huge_pages = 40
    process.huge = 30 * MEGABYTE  # when its mark was read
    files = FakeFiles(tree)
    SplitReader(files, files.cpu_time).read(tree.root, [process], detailed=detailed)
    assert (process.huge, process.resident) == (40 * MEGABYTE, 50 * MEGABYTE)


@pytest.mark.parametrize('detailed', [False, True])
def test_what_each_process_had_is_remembered(detailed: bool) -> None:
    tree = FakeTree()
    tree.put(ROOT, private=10, shared=100, files=4, mapped=30)
    tree.put(11, private=20, shared=100, mapped=30, family=ROOT, faults=7)
    files = FakeFiles(tree)
    split, _ = SplitReader(files, files.cpu_time).read(tree.root, list(tree.members.values()), detailed=detailed)
    assert megabytes(split.combined) == (160, 30, 130)
    root, child = split.counted.values()
    assert (root.resident, root.anonymous, root.of_files) == (140 * MEGABYTE, 106 * MEGABYTE, 34 * MEGABYTE)
    assert child.faults == 7
    # In sums it cannot be told of shared pages whether they are a file's: at most, they are the family's.
    copied = 100 if detailed else 106
    assert (root.copied, root.alone) == (copied * MEGABYTE, (106 - copied) * MEGABYTE)


@pytest.mark.parametrize('detailed', [False, True])
def test_page_faults_are_those_of_the_moment_at_which_memory_is_read(tree: FakeTree, detailed: bool) -> None:
    child = tree.put(13, private=20, shared=100, family=ROOT, faults=7)
    files = FakeFiles(tree)
    files.faulted[13] = 5000  # they have brought some of the 20 MB
    split, _ = SplitReader(files, files.cpu_time).read(tree.root, list(tree.members.values()), detailed=detailed)
    assert (split.counted[child].faults_before, split.counted[child].faults) == (7, 5007)
    assert child.faults == 7  # bounds count from before the reading: some may have come after a page was counted


@pytest.mark.parametrize('detailed', [False, True])
def test_huge_pages_are_private_memory(tree: FakeTree, detailed: bool) -> None:
    child = tree.put(11, private=20, shared=100, family=ROOT)
    child.huge_pages = 64
    child.huge = 64 * MEGABYTE  # as its mark says
    assert read(tree, FakeFiles(tree), detailed=detailed) == ((110, 10, 100), (184, 84, 100), (194, 94, 100))
    assert (child.resident, child.anonymous) == (184 * MEGABYTE, 184 * MEGABYTE)


class FilesThatGrow(FakeFiles):
    """The child maps more of a file, that the root has mapped alone until then, after the root has been read."""

    def __init__(self, tree: FakeTree, come: int) -> None:
        super().__init__(tree)
        self.child = tree.members[11]
        self.come = come

    def smaps(self, pid: int) -> bytes | None:
        content = super().smaps(pid)
        self.child.private = 20 + self.come
        self.child.files = self.come
        return content


def test_pages_of_files_that_come_while_processes_are_read_count_for_one_only() -> None:
    tree = FakeTree()
    tree.put(ROOT, private=100, files=50)
    tree.put(11, private=20)
    files = FilesThatGrow(tree, come=15)
    split, _ = SplitReader(files, files.cpu_time).read(tree.root, list(tree.members.values()), detailed=True)
    assert megabytes(split.main) == (100, 100, 0)
    assert megabytes(split.descendants) == (35, 35, 0)
    assert megabytes(split.combined) == (120, 120, 0)  # all that has come to the child the root may have had alone
    assert not split.is_firm


def test_a_reading_while_hardly_anything_comes_is_firm(tree: FakeTree) -> None:
    files = FilesThatGrow(tree, come=1)
    split, _ = SplitReader(files, files.cpu_time).read(tree.root, list(tree.members.values()), detailed=True)
    assert split.is_firm


class Rollups:
    """Says of each process what a test has written down: kilobytes of what is private, shared, and proportional."""

    def __init__(self, sums: dict[int, tuple[int, int, int]]) -> None:
        self.sums = sums

    def smaps_rollup(self, pid: int) -> bytes:
        private, shared, pss = self.sums[pid]
        return (
            f'Pss: {pss} kB\nPss_Anon: {pss} kB\nShared_Clean: 0 kB\nShared_Dirty: {shared} kB\n'
            f'Private_Clean: 0 kB\nPrivate_Dirty: {private} kB\nAnonymous: {private + shared} kB\n'
        ).encode()

    def faults(self, pid: int) -> int:
        return 0

    def resident(self, pid: int) -> tuple[int, int]:
        private, shared, _ = self.sums[pid]
        return (private + shared) << 10, (private + shared) << 10


def of_sums(sums: dict[int, tuple[int, int, int]]) -> list[tuple[float | None, ...]]:
    tree = FakeTree()
    for pid in sums:
        tree.put(pid, private=0)
    kilobytes = {pid: tuple(size << 10 for size in sizes) for pid, sizes in sums.items()}
    reader = SplitReader(Rollups(kilobytes), lambda: 0.0)
    split, _ = reader.read(tree.root, list(tree.members.values()), detailed=False)
    return [megabytes(group) for group in (split.main, split.descendants, split.combined)]


def test_sums_give_descendants_what_the_root_has_not_alone() -> None:
    # Of the root's 100 MB two workers have touched 30 each, all of them others: 40 are still its own.
    figures = of_sums({10: (40, 60, 70), 11: (0, 30, 15), 12: (0, 30, 15)})
    assert figures == [(100, 40, 60), (60, 0, 60), (100, 40, 60)]


def test_sums_give_descendants_no_more_than_they_have() -> None:
    # The root shares 60 MB with a process outside: of these its workers, with 10 each, have 20 at most.
    figures = of_sums({10: (40, 60, 70), 11: (0, 10, 5), 12: (0, 10, 5)})
    assert figures == [(100, 40, 60), (20, 0, 20), (100, 40, 60)]


def test_sums_of_a_single_descendant_are_its_own() -> None:
    figures = of_sums({10: (40, 60, 70), 11: (5, 30, 20)})
    assert figures == [(100, 40, 60), (35, 5, 30), (100, 45, 55)]
