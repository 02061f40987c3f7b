from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_tracker.recording.reading.recording import load
from gpu_tracker.views.report_page import sections
from gpu_tracker.views.report_page.elements import text_of
from support.html_tables import Page
from support.pictured_run import training
from support.recordings import busy_rows, region, write_recording

if TYPE_CHECKING:
    from pathlib import Path
    from xml.etree.ElementTree import Element


def rows_of(found: Element | None) -> list[list[str]]:
    assert found is not None
    (table,) = Page(text_of(found)).tables
    return table


def test_ram_of_processes_is_named_as_the_largest_sample_which_may_be_below_the_peak(tmp_path: Path) -> None:
    with load(training(tmp_path / 'run.db')) as recording:
        rows = rows_of(sections.processes(recording, 'Processes'))
    assert [[row[0], *row[2:]] for row in rows] == [
        ['Process', 'Largest RAM sample', 'CPU time at its last sample'],
        ['python 4242', '67.1 MB', '5 s'],
        ['worker 4243', '185 MB', '10 s'],
    ]


def test_ram_of_a_region_is_what_was_seen_rather_than_an_old_peak_of_its_process(tmp_path: Path) -> None:
    """A high-water mark that did not rise in a region is only an upper bound."""
    regions = [region(1, 'load', 2.0, 3.0, peaks=(532_000_000, 532_000_000))]
    rows = [(t, {**values, 'main_total_rss': 400_000_000}) for t, values in busy_rows()]
    with load(write_recording(tmp_path / 'run.db', rows=rows, regions=regions)) as recording:
        lines, left_out = sections.region_lines(recording, 10)
    table = rows_of(sections.regions([lines], ['run.db'], left_out, has_gpus=False))
    assert (table[0][6], table[1][6]) == ('RAM, most', '≥ 400 MB')


@pytest.mark.parametrize(
    ('meta', 'problem'),
    [
        ({'exit_code': 3}, 'The run failed: it ended with exit code 3.'),
        ({'exit_code': -9}, 'The run failed: it ended by SIGKILL.'),
        (
            {'ended': 'abandoned', 'exit_code': None},
            'The tracker was killed, or ended without a stop: figures are up to the last commit.',
        ),
        (
            {'ended': None, 'exit_code': None},
            'The run goes on, or was killed with its sampler: figures are up to the last commit.',
        ),
    ],
)
def test_a_run_that_failed_or_was_killed_says_so_on_top(tmp_path: Path, meta: dict[str, object], problem: str) -> None:
    with load(write_recording(tmp_path / 'run.db', rows=busy_rows(3), meta=meta)) as recording:
        header = sections.heading([recording], ['run.db'])
    assert [part.tag for part in header] == ['h1', 'p', 'dl']
    assert header[1].text == problem


def test_a_run_that_ended_well_has_nothing_on_top(tmp_path: Path) -> None:
    with load(write_recording(tmp_path / 'run.db', rows=busy_rows(3), meta={'exit_code': 0})) as recording:
        header = sections.heading([recording], ['run.db'])
    assert [part.tag for part in header] == ['h1', 'dl']
