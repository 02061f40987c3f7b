"""Regions across ranks: who was slowest, and how long the others waited, by calls where they can be compared."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.jobs.job_regions import merged_regions
from gpu_tracker.jobs.loading import load_job
from gpu_tracker.recording.reading.region_rows import RegionCall
from support.job_folders import record, write
from support.recordings import busy_rows, region, write_recording

if TYPE_CHECKING:
    from pathlib import Path

    from gpu_tracker.jobs.job_report import JobRegion

STEP = ('epoch', 'step')


def calls(*seconds: float, path: tuple[str, ...] = STEP, each: int = 1) -> list[RegionCall]:
    return [RegionCall(path, float(place), one, each) for place, one in enumerate(seconds)]


def the_only(*ranks: list[RegionCall]) -> JobRegion:
    (found,) = merged_regions([(str(rank), of_rank) for rank, of_rank in enumerate(ranks)])
    return found


@given(st.integers(2, 5).flatmap(lambda n: st.lists(st.lists(st.integers(0, 50), min_size=n, max_size=n), min_size=1)))
def test_waiting_is_what_would_be_waited_for_the_slowest_at_each_call(table: list[list[int]]) -> None:
    ranks = [calls(*(row[rank] for row in table)) for rank in range(len(table[0]))]
    found = the_only(*ranks)
    clock = waited = 0
    for row in table:
        clock += max(row)
        waited += sum(max(row) - one for one in row)
    assert found.is_by_call
    assert (found.ranks, found.calls) == (len(ranks), len(ranks) * len(table))
    if clock == 0:
        assert found.waiting_share is None
    else:
        assert found.waiting_share == pytest.approx(waited / (clock * len(ranks)))
        assert 0 <= found.waiting_share < 1
    sums = [sum(row[rank] for row in table) for rank in range(len(ranks))]
    assert (found.max_seconds, found.slowest_rank) == (max(sums), str(sums.index(max(sums))))
    assert found.mean_seconds == pytest.approx(sum(sums) / len(sums))


def test_ranks_that_are_equally_fast_do_not_wait_for_less_than_no_time() -> None:
    assert sum([0.1] * 3) / 3 > 0.1  # the mean is rounded up
    assert the_only(calls(0.1), calls(0.1), calls(0.1)).waiting_share == 0.0


@pytest.mark.parametrize(
    ('ranks', 'is_by_call', 'waiting', 'slowest'),
    [
        ([calls(1, 3), calls(3, 1)], True, 1 / 3, '0'),
        ([calls(2, 2), calls(2, 2)], True, 0.0, '0'),
        ([calls(4), calls(0), calls(0), calls(0)], True, 3 / 4, '0'),
        ([calls(1, 3), calls(2)], False, 1 / 4, '0'),
        ([calls(1, 3), calls(4, each=2)], False, 0.0, '0'),
        ([calls(3, each=1000), calls(6, each=1000)], False, 1 / 4, '1'),
        ([calls(1, 2, 3)], True, None, '0'),
        ([calls(0, 0), calls(0, 0)], True, None, '0'),
    ],
)
def test_shares(ranks: list[list[RegionCall]], is_by_call: bool, waiting: float | None, slowest: str) -> None:
    found = the_only(*ranks)
    assert (found.is_by_call, found.slowest_rank) == (is_by_call, slowest)
    assert found.waiting_share == (None if waiting is None else pytest.approx(waiting))


def test_regions_stand_behind_the_one_that_they_are_in_as_they_were_first_met() -> None:
    def one(*path: str) -> RegionCall:
        return RegionCall(path, 0.0, 1.0, 1)

    first = [one('load'), one('epoch'), one('epoch', 'step'), one('epoch', 'step', 'forward'), one('save')]
    other = [one('epoch', 'validate'), one('epoch', 'step', 'backward'), one('cleanup', 'inner'), one('load')]
    found = merged_regions([('0', first), ('1', other), ('2', [])])
    assert [('/'.join(region.path), region.ranks) for region in found] == [
        ('load', 2), ('epoch', 1), ('epoch/step', 1), ('epoch/step/forward', 1), ('epoch/step/backward', 1),
        ('epoch/validate', 1), ('save', 1), ('cleanup/inner', 1),
    ]  # fmt: skip


def test_a_rank_with_two_runs_is_one_rank() -> None:
    (found,) = merged_regions([('0', calls(1, 2)), ('1', calls(4)), ('0', calls(3))])
    assert (found.ranks, found.calls, found.slowest_rank, found.max_seconds) == (2, 4, '0', 6)
    assert (found.is_by_call, found.waiting_share) == (False, pytest.approx(1 - 5 / 6))


def test_regions_are_read_from_recordings_of_the_last_attempt_and_of_runs_that_were_cut_off(tmp_path: Path) -> None:
    durations = {0: (1.0, 2.0), 1: (3.0, 1.0), 2: (2.0, 2.0)}
    for rank, (first, second) in durations.items():
        write(tmp_path, f'rank-{rank}', record(rank, size=3, node=f'n{rank}', attempt=1))
        name = f'rank-{rank}.db' if rank < 2 else f'.rank-{rank}.partial.db'
        write_recording(
            tmp_path / name,
            rows=busy_rows(),
            regions=[
                region(1, 'epoch', 0.0, 9.0),
                region(2, 'step', 1.0, 1.0 + first, parent=1),
                region(3, 'step', 5.0, 5.0 + second, parent=1),
                region(4, '<b>\x1b[1m', 8.5, None, parent=1),
            ],
        )
    write(tmp_path, 'first', record(0, size=3, node='n0', attempt=0, started=-500))
    write_recording(tmp_path / 'first.db', rows=busy_rows(), regions=[region(1, 'before', 0.0, 9.0)])
    job = load_job(tmp_path)
    assert job.problems == ()
    found = {'/'.join(one.path): one for one in job.regions}
    assert list(found)[:2] == ['epoch', 'epoch/step']
    assert 'before' not in found
    step = found['epoch/step']
    assert (step.ranks, step.calls, step.slowest_rank, step.max_seconds) == (3, 6, '1', 4.0)
    assert (step.is_by_call, step.waiting_share) == (True, pytest.approx(1 - (3 + 4 + 4) / 3 / (3 + 2)))
    assert 'step 3 6 1 4 s 3.67 s 27 %' in ' '.join(str(job).split())
    assert '\x1b' not in str(job)
    assert json.loads(json.dumps(job.to_json()))['regions'][1]['path'] == ['epoch', 'step']
    assert load_job(tmp_path, with_recordings=False).regions == ()


def test_ram_of_a_node_is_added_up_on_the_clock_of_its_recordings(tmp_path: Path) -> None:
    mebibyte = 2**20
    for rank, begin in enumerate((5_000_000, 15_000_000)):  # in microseconds: the second one 10 s later
        write(tmp_path, f'rank-{rank}', record(rank, size=2, started=10.0 * rank, seconds=10.0, ram=20 * mebibyte))
        rows = busy_rows()  # 10 MiB, and 1 MiB more each second, up to 20 MiB
        write_recording(tmp_path / f'rank-{rank}.db', rows=rows, meta={'start_monotonic_us': begin})
    node = load_job(tmp_path).nodes[0]
    assert node.max_ram.value == 20 * mebibyte, 'one after the other'
    for rank, begin in enumerate((5_000_000, 10_000_000)):
        (tmp_path / f'rank-{rank}.db').unlink()
        write(tmp_path, f'rank-{rank}', record(rank, size=2, started=5.0 * rank, seconds=10.0, ram=20 * mebibyte))
        write_recording(tmp_path / f'rank-{rank}.db', rows=busy_rows(), meta={'start_monotonic_us': begin})
    node = load_job(tmp_path).nodes[0]
    assert (node.max_ram.value, node.max_ram.lower) == (35 * mebibyte, 20 * mebibyte), '20 beside 15 MiB at 15 s'
    assert node.max_ram.upper == 40 * mebibyte
    unknown = load_job(tmp_path, with_recordings=False).nodes[0]
    assert (unknown.max_ram.value, unknown.max_ram.upper) == (None, 40 * mebibyte)
