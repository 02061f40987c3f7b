from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.recording.reading import shown, tree
from gpu_tracker.recording.reading.model import Bounded
from gpu_tracker.recording.reading.recording import load
from support.recordings import ROOT, busy_rows, region, write_recording

if TYPE_CHECKING:
    from pathlib import Path

    from gpu_tracker.recording.reading.tree import PathFigures

MIB = 2**20


def figures(folder: Path, *regions: dict[str, object]) -> dict[tuple[str, ...], PathFigures]:
    with load(write_recording(folder / 'run.db', rows=busy_rows(), regions=regions)) as found:
        paths, _ = shown.region_figures(found)
    return {one.path: one for one in paths}


def test_calls_of_one_path_are_one_node(tmp_path: Path) -> None:
    found = figures(
        tmp_path,
        region(1, 'train', 0.0, 10.0, thread_cpu=8.0),
        region(2, 'step', 1.0, 3.0, parent=1, thread_cpu=1.0, peaks=(10 * MIB, 20 * MIB)),
        region(3, 'step', 4.0, 5.0, parent=1, thread_cpu=0.5, error='ValueError', peaks=(20 * MIB, 20 * MIB)),
        region(4, 'load', 1.0, 2.0, parent=2),
        region(5, 'load', 4.25, 4.5, parent=3),
    )
    assert list(found) == [('train',), ('train', 'step'), ('train', 'step', 'load')]
    step = found['train', 'step']
    assert (step.calls, step.errors, step.not_ended, step.wall_time, step.share) == (2, 1, 0, 3.0, 0.3)
    assert step.thread_cpu == 1.5
    assert step.cpu == Bounded(3.0, 3.0, 3.0)
    assert step.ram == Bounded(20 * MIB, 20 * MIB, 20 * MIB)
    assert (step.gpu_utilization, step.gpu_coverage, step.gpu_ram) == (50.0, 1.0, 100 * MIB)
    load_figures = found['train', 'step', 'load']
    assert load_figures.thread_cpu is None
    assert load_figures.cpu == Bounded(1.25, 1.0, 2.0)


def test_calls_at_the_same_time_share_the_cpu_time_of_all(tmp_path: Path) -> None:
    found = figures(tmp_path, *(region(n, 'work', 1.0, 5.0, pid=ROOT + n, thread=n) for n in range(4)))
    work = found['work',]
    assert (work.calls, work.wall_time, work.share) == (4, 16.0, 0.4)
    assert work.cpu == Bounded(4.0, 4.0, 4.0)


def test_parts_do_not_have_more_than_could_be_used_from_the_first_to_the_last(tmp_path: Path) -> None:
    found = figures(tmp_path, *(region(n, 'short', 1 + n / 10, 1.05 + n / 10) for n in range(1, 9)))
    cpu = found['short',].cpu
    assert cpu == Bounded(pytest.approx(0.4), 0.0, 1.0)


def test_a_call_that_has_not_ended_makes_lower_bounds(tmp_path: Path) -> None:
    found = figures(tmp_path, region(1, 'a', 1.0, 2.0), region(2, 'a', 4.0, None))
    one = found['a',]
    assert (one.calls, one.not_ended, one.wall_time) == (2, 1, 7.0)
    assert one.cpu == Bounded(None, 7.0, None)


def test_folded_calls_are_added(tmp_path: Path) -> None:
    found = figures(tmp_path, region(1, 'a', 1.0, 2.0), region(2, 'a', 2.0, 4.0, calls=100, total=0.5, errors=2))
    one = found['a',]
    assert (one.calls, one.errors, one.wall_time, one.share) == (101, 2, 1.5, 0.15)
    assert one.cpu == Bounded(1.5, 1.0, 3.0)


def test_recursion_is_a_path_that_ends_somewhere(tmp_path: Path) -> None:
    depth = 5000
    regions = [region(n, 'f', n / 1000, 9.0 - n / 1000, parent=n - 1 or None) for n in range(1, depth + 1)]
    with load(write_recording(tmp_path / 'run.db', rows=busy_rows(), regions=regions)) as found:
        paths, left_out = shown.region_figures(found)
    assert [len(one.path) for one in paths] == list(range(1, tree.MOST_LEVELS + 1))
    assert left_out == depth - tree.MOST_LEVELS


def test_a_child_that_starts_before_its_parent_is_below_it(tmp_path: Path) -> None:
    found = figures(tmp_path, region(1, 'child', 1.0, 2.0, parent=2), region(2, 'parent', 1.5, 3.0))
    assert list(found) == [('parent',), ('parent', 'child')]


def test_without_regions_there_is_no_tree(tmp_path: Path) -> None:
    assert figures(tmp_path) == {}


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 10)), max_size=20))
def test_a_union_covers_each_moment_once(spans: list[tuple[float, float]]) -> None:
    given_spans = [(start, start + length) for start, length in spans]
    found = tree.union(given_spans)
    for (_, stop), (start, _) in itertools.pairwise(found):
        assert stop < start
    for start, stop in given_spans:
        assert any(begin <= start and stop <= end for begin, end in found)
    assert sum(stop - start for start, stop in found) <= sum(length for _, length in spans) + 1e-6
