"""The tables of what jobs cost, made from given figures."""

from benchmarks.jobs import PART, RANK, RECORDINGS, REPORTS, WITH_JOB, WITH_JSON, WITH_REPORT, WITH_SQLITE
from benchmarks.jobs_tables import jobs_tables
from benchmarks.peers import OURS
from benchmarks.results import Results


def test_reading_is_compared_with_the_loop_in_the_same_rounds():
    results = Results(versions={OURS.name: '6'})
    for number, (ours, loop) in enumerate([(0.4, 0.2), (0.9, 0.3), (0.5, 0.1)]):
        row = REPORTS.format(1000)
        results.add(PART, row, OURS.name, number, {'seconds': ours, 'cpu': ours / 2, 'peak': 30e6})
        results.add(PART, row, WITH_JSON, number, {'seconds': loop, 'cpu': loop / 2, 'peak': 20e6})
    results.add(PART, RECORDINGS.format(1000), WITH_SQLITE, 0, {'seconds': 2.0, 'cpu': 1.5, 'peak': 40e6})
    assert jobs_tables(results)[0].rows == [
        ['1,000 ranks, reports only', 'gpu-tracker', '0.500', '0.250', '30.0', '3.00', '3'],
        ['1,000 ranks, reports only', 'json in a loop', '0.200', '0.100', '20.0', '—', '3'],
        ['1,000 ranks with recordings', 'json and sqlite3 in loops', '2.00', '1.50', '40.0', '—', '1'],
    ]


def test_the_job_folder_of_a_rank_is_compared_with_its_report_in_the_same_rounds():
    results = Results(versions={OURS.name: '6'})
    for number, (report, job) in enumerate([(0.10, 0.11), (0.20, 0.24), (0.12, 0.12)]):
        results.add(PART, RANK, WITH_REPORT, number, {'seconds': report, 'cpu': report / 2})
        results.add(PART, RANK, WITH_JOB, number, {'seconds': job, 'cpu': job})
    assert jobs_tables(results)[1].rows == [
        ['gpu-tracker -f json -o F', '120', '—', '60.0', '—', '3'],
        ['gpu-tracker --job=D', '120', '1.10', '120', '2.20', '3'],
    ]


def test_what_was_not_measured_has_no_rows():
    assert [table.rows for table in jobs_tables(Results())] == [[], []]
