"""One report of all ranks, against jobs whose truth is known."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.errors import RecordingError
from gpu_tracker.jobs import job_text
from gpu_tracker.jobs.job_regions import merged_regions
from gpu_tracker.jobs.loading import load_job
from gpu_tracker.jobs.merging import merge
from gpu_tracker.jobs.moments import largest_sum, largest_sum_of_bounds, once
from gpu_tracker.jobs.records import read_folder, read_record
from gpu_tracker.recording.reading.model import Bounded
from gpu_tracker.recording.reading.region_rows import RegionCall
from gpu_tracker.recording.writing.rank_files import write_interval
from gpu_tracker.resources import GROUPS
from gpu_tracker.views.job_page import job_html, job_page
from support.job_folders import GIB, START, record, write

if TYPE_CHECKING:
    from pathlib import Path

    from gpu_tracker.jobs.job_report import JobReport

NOW = START + 100_000


def merged(*records: dict[str, Any], now: float = NOW, **options: Any) -> JobReport:
    read = [read_record(json.dumps(one), f'rank-{place}') for place, one in enumerate(records)]
    return merge(read, now=now, **options)


def test_a_rank_that_was_started_again_is_one_rank_with_two_attempts() -> None:
    report = merged(
        record(0, size=2, attempt=0, exit_code=-15, cpu=3.0),
        record(0, size=2, attempt=1, started=200, cpu=50.0),
        record(1, size=2, attempt=1, started=200, cpu=10.0),
    )
    assert (report.ranks_started, report.restarted, report.never_started) == (2, ('0',), ())
    assert report.states['ended'] == 2
    assert [(rank.label, rank.attempt, rank.signal) for rank in report.ranks] == [
        ('0', 0, 'SIGTERM'),
        ('0', 1, None),
        ('1', 1, None),
    ]
    assert report.cpu_seconds == 63.0
    balance = next(one for one in report.imbalance if one.figure == 'cpu_seconds')
    assert (balance.rank, balance.max, balance.mean, balance.ranks) == ('0', 50.0, 30.0, 2)
    # Four cores for 100 s, twice: what the first attempt had was given back in between.
    assert report.cpu_seconds_allotted == 800.0


def test_steps_and_tasks_of_an_array_have_ranks_of_their_own() -> None:
    steps = merged(*(record(rank, size=2, job={'step': step}) for step in ('0', '1', '10', '2') for rank in (0, 1)))
    assert [rank.label for rank in steps.ranks][::2] == ['step 0 rank 0', 'step 1 rank 0', 'step 2 rank 0',
                                                         'step 10 rank 0']  # fmt: skip
    assert steps.ranks_expected == 8
    tasks = merged(*(record(0, size=1, job={'step': 'batch', 'array_task': task, 'array_size': 3}) for task in (1, 3)))
    assert [rank.label for rank in tasks.ranks] == ['task 1', 'task 3']
    assert tasks.problems == ('1 of 3 tasks of the array have not started.',)


def test_ram_of_a_node_has_bounds_where_several_ranks_ran_at_once() -> None:
    at_once = merged(record(0, ram=GIB), record(1, ram=2 * GIB), record(2, node='n2', ram=5))
    assert at_once.nodes[0].max_ram == Bounded(None, 2 * GIB, 3 * GIB)
    assert at_once.max_ram_of_node == at_once.nodes[0].max_ram
    after_each_other = merged(record(0, ram=GIB), record(1, started=100, ram=2 * GIB))
    assert after_each_other.nodes[0].max_ram == Bounded(2 * GIB, 2 * GIB, 2 * GIB)


def test_ram_of_a_node_has_no_upper_bound_if_that_of_a_rank_is_a_lower_bound() -> None:
    bounded = record(1, ram=2 * GIB, is_lower_bound=True)
    assert merged(record(0, ram=GIB), bounded).nodes[0].max_ram == Bounded(None, 2 * GIB, None)
    later = record(1, started=100, ram=2 * GIB, is_lower_bound=True)
    assert merged(record(0, ram=GIB), later).nodes[0].max_ram == Bounded(2 * GIB, 2 * GIB, None)


def test_ranks_whose_cpu_time_is_a_lower_bound_are_named() -> None:
    bounded = record(1)
    bounded['totals']['lower_bounds'] = {'cpu_utilization.combined.mean_sum_percent': 'a process was missed'}
    expected = ('CPU time of rank 1 is a lower bound.',)
    assert merged(record(0), bounded).problems == expected
    assert merged(record(0), record(1, is_lower_bound=True)).problems == ()


def with_io(rank: int, read: int, rate: float, **options: Any) -> dict[str, Any]:
    values = {'bytes': [read, 0, 0, 0, 0], 'rates': [rate] + 3 * [0.0], 'faults': [1, 0], 'switches': [None, None]}
    found = record(rank, **options)
    found['totals']['io'] = dict.fromkeys(GROUPS, values)
    return found


def test_figures_of_results_are_added_up_or_the_largest_counts() -> None:
    report = merged(with_io(0, 3_000_000, 5.0), with_io(1, 2_000_000, 9.0))
    assert {path: value for path, value in report.figures.items() if value} == {
        'io.combined.read': 5_000_000,
        'io.combined.max_read_per_second': 9.0,
        'io.combined.minor_page_faults': 2,
    }
    assert (report.read, report.ranks[0].read, report.lower_bounds) == (5_000_000, 3_000_000, ())
    assert 'Storage     5 MB read, 0 B written' in job_text.as_summary(report)


@pytest.mark.parametrize(
    ('other', 'text'),
    [
        pytest.param(record(1), '≥ 3 MB read', id='a rank whose section was not asked for'),
        pytest.param(record(1, cpu=None), '≥ 3 MB read', id='a rank of which nothing is known'),
        pytest.param(with_io(1, 2_000_000, 9.0, ended='abandoned'), '≥ 5 MB read', id='a lost rank'),
    ],
)
def test_figures_that_do_not_have_all_ranks_are_lower_bounds(other: dict[str, Any], text: str) -> None:
    report = merged(with_io(0, 3_000_000, 5.0), other)
    assert report.lower_bounds == tuple(report.figures)
    assert text in job_text.as_summary(report)


def test_lower_bounds_of_ranks_are_marked_in_their_row_and_in_the_sum() -> None:
    bounded = with_io(1, 2_000_000, 9.0)
    bounded['totals']['lower_bounds'] = {'io.combined.read': 'a process was missed'}
    report = merged(with_io(0, 3_000_000, 5.0), bounded)
    assert (report.lower_bounds, report.ranks[1].lower_bounds) == (('io.combined.read',), ('io.combined.read',))
    of_ranks = job_text.as_text(report).splitlines()[-2:]
    assert [line.partition('1.07 GB')[2].split()[:2] for line in of_ranks] == [['3', 'MB'], ['≥', '2']]


def test_ranks_without_gpus_do_not_make_gpu_memory_of_others_a_lower_bound() -> None:
    device = {'uuid': 'GPU-a', 'name': 'A100', 'capacity': 40 * GIB, 'combined': GIB, 'utilization': 50.0}
    with_gpu = record(0, gpus=[device])
    with_gpu['totals']['gpu']['combined'] = GIB
    report = merged(with_gpu, record(1, node='n2'))
    assert (report.figures, report.lower_bounds) == ({'max_gpu_ram.combined': GIB}, ())
    assert 'GPU RAM     1.07 GB in the largest rank' in job_text.as_summary(report)


def used_gpu(index: int, memory: int, busy: float, *, missed: bool = False) -> dict[str, Any]:
    """Return the totals of a GPU that a rank had memory on."""
    percents = dict.fromkeys(('utilization', 'max_utilization', 'own_utilization', 'max_own_utilization'), busy)
    return percents | {
        'uuid': f'uuid-{index}',
        'name': 'A GPU',
        'vendor': 'nvidia',
        'index': index,
        'place': str(index),
        'capacity': 80 * GIB,
        'system': memory,
        'main': memory,
        'descendants': 0,
        'combined': memory,
        'missed': ['combined'] if missed else [],
        'others': False,
        'is_used': True,
        'is_visible': False,
    }


def test_two_ranks_on_two_gpus() -> None:
    report = merged(record(0, gpus=[used_gpu(0, GIB, 10.0)]), record(1, gpus=[used_gpu(3, 2 * GIB, 50.0)]))
    assert [(gpu.label, gpu.max_ram.value, gpu.mean_percent, gpu.ranks) for gpu in report.gpus] == [
        ('GPU 3', 2 * GIB, 50.0, ('1',)),
        ('GPU 0', GIB, 10.0, ('0',)),
    ]
    assert list(job_text.gpu_lines(report)) == [
        ('GPU 3', '2.15 GB of 85.9 GB, 50 % busy; rank 1'),
        ('GPU 0', '1.07 GB of 85.9 GB, 10 % busy; rank 0'),
    ]
    assert 'GPU 3' in str(job_page(report))


def test_two_ranks_on_one_gpu_had_between_the_largest_and_the_sum() -> None:
    report = merged(record(0, gpus=[used_gpu(0, GIB, 40.0)]), record(1, gpus=[used_gpu(0, 2 * GIB, 50.0)]))
    assert list(job_text.gpu_lines(report)) == [('GPU 0', '2.15 GB to 3.22 GB of 85.9 GB, 50 % busy; ranks 0-1')]


def test_a_rank_whose_gpu_memory_is_a_lower_bound() -> None:
    one = record(0, gpus=[used_gpu(0, GIB, 40.0)])
    one['totals']['lower_bounds'] = {'gpus.0.max_ram.combined': 'a GPU could not be read all the time'}
    assert list(job_text.gpu_lines(merged(one))) == [('GPU 0', '≥ 1.07 GB of 85.9 GB, 40 % busy; rank 0')]


def test_recordings_know_the_largest_sum_at_one_moment() -> None:
    series = {'rank-0': [(0.0, 1.0), (5.0, 3.0), (6.0, 0.0)], 'rank-1': [(5.5, 4.0), (7.0, 0.0)]}
    report = merged(record(0, ram=3), record(1, ram=4), series_of=lambda one: series[one.name])
    assert report.nodes[0].max_ram == Bounded(7.0, 4, 7.0)
    without_one = merged(record(0, ram=3), record(1, ram=4), series_of=lambda one: series.get(one.name[:-1]))
    assert without_one.nodes[0].max_ram == Bounded(None, 4, 7.0)


def test_gpus_count_once_and_machines_too() -> None:
    gpu = {'uuid': 'GPU-a', 'name': 'A100', 'capacity': 40 * GIB, 'combined': GIB, 'utilization': 50.0}
    other = gpu | {'uuid': 'GPU-b', 'combined': 0, 'utilization': 90.0}
    energy = {'gpus': [['GPU-a', 700.0, False]], 'packages': 1000.0}
    report = merged(
        record(0, gpus=[gpu, other], energy=energy),
        record(1, gpus=[gpu, other], energy={'gpus': [['GPU-a', 710.0, False]], 'packages': 900.0}),
        record(2, gpus=[gpu, other], started=100, energy=energy),
    )
    assert report.nodes[0].gpu_seconds == report.gpu_seconds == 100.0  # 50 % of 100 s, and once more afterwards
    assert report.gpu_joules == 710.0 + 700.0
    assert report.cpu_package_joules == 2000.0
    assert (report.nodes[0].system_max_ram, report.nodes[0].asked_ram) == (7 * GIB, 8 * GIB)


def test_a_figure_that_is_not_known_of_all_is_no_sum_of_some() -> None:
    gpu = {'uuid': 'GPU-a', 'combined': GIB, 'utilization': None}
    assert merged(record(0, gpus=[gpu])).gpu_seconds is None
    unknown = merged(record(0), record(1, asked={}, cpus=None, node='n2'))
    assert unknown.cpu_seconds_allotted is None
    assert unknown.nodes[1].cores is None


def test_an_end_that_was_not_seen_is_lost_after_three_reports_and_a_minute() -> None:
    silent = record(0, ended=None, exit_code=None, write_interval=10.0)
    seen = silent['updated_unix']
    assert merged(silent, now=seen + 89).states['running'] == 1
    assert merged(silent, now=seen + 91).states['lost'] == 1
    assert merged(silent, now=seen + 1, is_alive=lambda _: False).states['lost'] == 1
    assert merged(silent, now=seen + 900, is_alive=lambda _: True).states['running'] == 1
    lost = merged(silent, now=seen + 91)
    assert lost.problems == ('Nobody has seen the end of rank 0: figures are up to the last report.',)


@pytest.mark.parametrize(('now', 'age'), [(5, '5 s'), (-7, '0 s')], ids=['old', 'of a clock that is ahead'])
def test_figures_of_a_rank_that_runs_have_their_age(now: float, age: str) -> None:
    running = record(0, ended=None, exit_code=None, write_interval=10.0)
    found = merged(running, now=running['updated_unix'] + now)
    assert found.problems == (f'Figures of ranks that run are up to {age} old.',)
    assert found.seconds == running['updated_unix'] - running['started_unix'] + max(now, 0)


def test_reports_of_large_jobs_come_less_often() -> None:
    assert [write_interval(size) for size in (None, 1, 1000, 10_000)] == [10.0, 10.0, 10.0, 100.0]


def test_waiting_is_by_call_where_calls_can_be_compared() -> None:
    def calls(*seconds: float) -> list[RegionCall]:
        return [RegionCall(('epoch', 'step'), float(place), each, 1) for place, each in enumerate(seconds)]

    (step,) = merged_regions([('0', calls(1, 3)), ('1', calls(3, 1))])
    assert (step.ranks, step.calls, step.max_seconds, step.mean_seconds) == (2, 4, 4, 4)
    assert step.is_by_call
    assert step.waiting_share == pytest.approx(1 / 3)  # each waits 2 of 6 s, though both have the same sum
    (sums,) = merged_regions([('0', calls(1, 3)), ('1', calls(2))])
    assert (sums.is_by_call, sums.slowest_rank, sums.waiting_share) == (False, '0', pytest.approx(1 / 4))


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9)), max_size=6).map(
            lambda points: [*sorted(dict(points).items()), (21, 0)]
        ),
        min_size=1,
        max_size=4,
    )
)
def test_the_largest_sum_is_that_of_each_moment_tried(series: list[list[tuple[int, int]]]) -> None:
    def at(moment: int, points: list[tuple[int, int]]) -> int:
        return next((value for time, value in reversed(points) if time <= moment), 0)

    assert largest_sum(series) == max(sum(at(moment, points) for points in series) for moment in range(21)) or not any(
        len(points) > 1 for points in series
    )


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5), st.integers(0, 9)), max_size=6))
def test_bounds_and_readings_add_up_as_far_as_they_were_there_at_once(spans: list[tuple[int, int, int]]) -> None:
    readings = [(float(start), float(start + length), float(value)) for start, length, value in spans]
    tried = max(
        (sum(value for start, stop, value in readings if start <= moment < stop) for moment in range(15)), default=0
    )
    assert largest_sum_of_bounds([(start, stop) for start, stop, _ in readings], [v for *_, v in readings]) == tried
    assert max((v for *_, v in readings), default=0.0) <= once(readings) <= sum(v for *_, v in readings)


@pytest.mark.parametrize(
    ('content', 'reason'),
    [
        ('', 'it is not JSON'),
        ('[' * 100_000, 'it is not JSON'),
        ('{}', 'it is not the result of a rank'),
        ('{"gpu_tracker_job_record": 2}', 'its format version is 2, but this gpu-tracker reads version 1'),
        ('{"gpu_tracker_job_record": 1}', 'its times or totals are missing'),
    ],
)
def test_what_is_no_record_is_named(tmp_path: Path, content: str, reason: str) -> None:
    write(tmp_path, 'rank-0', record(0))
    (tmp_path / 'other.json').write_text(content)
    assert load_job(tmp_path).problems == (f'other.json is left out: {reason}',)


def test_no_file_can_keep_a_reader_waiting(tmp_path: Path) -> None:
    write(tmp_path, 'rank-0', record(0))
    os.mkfifo(tmp_path / 'fifo.json')
    (tmp_path / 'folder.json').mkdir()
    (tmp_path / 'loop.json').symlink_to('loop.json')
    (tmp_path / 'large.json').write_bytes(b' ' * (17 << 20))
    report = load_job(tmp_path)
    assert report.ranks_started == 1
    assert len(report.problems) == 4


def test_a_broken_report_leaves_the_start(tmp_path: Path) -> None:
    write(tmp_path, 'rank-0', record(0, size=1))
    (tmp_path / 'rank-0.json').write_text('{')
    records, problems = read_folder(str(tmp_path))
    report = merge(records, now=NOW, problems=problems)
    assert (report.states['lost'], report.cpu_seconds, report.ranks_started) == (1, None, 1)


def test_a_folder_without_ranks_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match='no rank of a job has written into'):
        load_job(tmp_path)
    with pytest.raises(RecordingError, match='No such file or directory'):
        load_job(tmp_path / 'missing')


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = sorted(record(0))


@given(st.dictionaries(st.sampled_from(KEYS), PLAIN, max_size=4), st.dictionaries(
    st.sampled_from(['seconds', 'cpu', 'ram', 'gpu', 'energy', 'io', 'record']), PLAIN, max_size=3))  # fmt: skip
def test_no_record_of_a_stranger_breaks_the_report(changes: dict[str, Any], totals: dict[str, Any]) -> None:
    content = record(0, size=2) | {'totals': record(0)['totals'] | totals} | changes
    try:
        read = read_record(json.dumps(content), 'rank-0')
    except ValueError:
        return
    report = merge([read], now=NOW)
    for text in (job_text.as_text(report), job_page(report), job_html(report), json.dumps(report.to_json())):
        assert text
