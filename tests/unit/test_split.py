from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_tracker.sources.split import SplitReader
from simulated_memory import MEGABYTE, FakeFiles, FakeTree

if TYPE_CHECKING:
    from gpu_tracker.sources.reading import Resident

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
