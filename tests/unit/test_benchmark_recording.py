"""The tables of what recordings cost, made from given figures."""

import sqlite3
from contextlib import closing

from benchmarks.peers import OURS, Run
from benchmarks.recording import A_SAMPLE, PART, RECORDED, REGIONS, WEEK, WORKLOADS, _fill, _With
from benchmarks.recording_tables import recording_tables
from benchmarks.results import Results

from support.recordings import busy_rows, write_recording


def test_the_cost_of_a_sample_is_compared_in_the_same_rounds():
    results = Results(versions={OURS.name: '6'})
    for number, (plain, recorded) in enumerate([(0.0004, 0.0006), (0.0002, 0.0004), (0.0005, 0.0006)]):
        results.add(PART, A_SAMPLE.format(0.1), OURS.name, number, {'cpu a sample': plain, 'share': plain * 10})
        results.add(PART, A_SAMPLE.format(0.1), RECORDED, number, {'cpu a sample': recorded, 'share': recorded * 10})
    table = recording_tables(results)[0]
    assert table.rows == [
        ['0.1 s', 'gpu-tracker', '400', '0.400', '1.00', '3'],
        ['0.1 s', 'gpu-tracker, SQLite', '600', '0.600', '1.50', '3'],
    ]


def test_a_week_and_regions_have_rows_where_they_were_measured():
    results = Results(versions={OURS.name: '6'})
    results.add(PART, f'{WEEK}, {WORKLOADS[0].name}', RECORDED, 0, {'bytes': 38_100_000.0})
    results.add(PART, REGIONS, OURS.name, 0, {'off': 0.3, 'hot': 12.9})
    _, week, regions = recording_tables(results)
    assert week.rows == [['1 process', '38.1']]
    assert regions.rows == [['nothing tracks', '0.300'], ['recorded', '12.9']]


def test_the_period_of_ours_is_that_of_its_own_record_with_and_without_a_recording(tmp_path):
    usage = '{"max_ram": {"combined": {"total_rss": 1}, "descendants": {"total_rss": 0}}, '
    usage += '"cpu_utilization": {"combined": {"mean_sum_percent": 1}}, "compute_time": {"time": 1}}'
    (tmp_path / 'result.json').write_text(usage)
    output = 'Sampling: 31 samples, 0 late, 0 skipped, 9 early, 0 postponed, mean interval 0.1002 s, 0.0500 CPU seconds'
    run = Run(['true'], 0.1, tmp_path)
    assert _With(OURS, 'run.db').report(run, output).period == OURS.report(run, output).period


def test_a_week_repeats_the_rows_of_a_run_with_counters_that_go_on(tmp_path, monkeypatch):
    path = write_recording(tmp_path / 'run.db', rows=busy_rows())
    monkeypatch.setattr('benchmarks.recording._SECONDS_OF_A_WEEK', 1000)
    assert _fill(tmp_path / 'run.db') > 0
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute('SELECT count(*), max(t) FROM samples').fetchone() == (1000, 999_000_000)
        assert connection.execute('SELECT main_cpu FROM samples WHERE t = 999000000').fetchone() == (999_000_000,)
