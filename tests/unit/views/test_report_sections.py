from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.recording.reading.model import Gpu
from gpu_tracker.recording.reading.recording import load
from gpu_tracker.resources.building import build
from gpu_tracker.result.usage import GPUMemory, GPUPercentages, GPUUse
from gpu_tracker.units import Units
from gpu_tracker.views.report_page import sections
from gpu_tracker.views.report_page.elements import text_of
from support.html_tables import Page
from support.pictured_run import training
from support.recordings import busy_rows, region, totals_of, write_recording

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
        ['Process', 'Largest RAM', 'CPU time'],
        ['python 4242', '67.1 MB', '5 s'],
        ['worker 4243', '185 MB', '10 s'],
    ]


def test_processes_of_a_run_that_used_gpus_have_their_largest_gpu_memory(tmp_path: Path) -> None:
    path = write_recording(
        tmp_path / 'run.db',
        rows=busy_rows(2),
        processes=[(1, 7, 1, 'python', 0), (2, 8, 7, 'worker', 0)],
        process_samples=[(0, 1, 1000, 0, 1, 3000), (0, 2, 500, 0, 1)],
    )
    with load(path) as recording:
        rows = rows_of(sections.processes(recording, 'Processes'))
    assert [[row[0], *row[2:]] for row in rows] == [
        ['Process', 'Largest RAM', 'GPU RAM', 'CPU time'],
        ['python 7', '1.02 MB', '3.07 MB', '0 s'],
        ['worker 8', '512 kB', '', '0 s'],
    ]


def texts_of(found: Element | None) -> list[str]:
    assert found is not None
    return [''.join(part.itertext()) for part in found.iter() if part.tag in {'p', 'dd', 'summary', 'li'}]


def test_a_run_that_has_failed_says_so_first(tmp_path: Path) -> None:
    meta = {'exit_code': -9, 'oom_kills': 1, 'ended': 'stopped'}
    with load(write_recording(tmp_path / 'run.db', meta=meta)) as recording:
        found = sections.heading([recording], ['run.db'])
    assert [(part.get('class'), part.text) for part in found][1:4] == [
        ('failed', 'The program ended by SIGKILL.'),
        ('failed', '1 process of this control group was killed for lack of memory.'),
        ('facts', None),
    ]


def test_the_run_that_has_failed_is_named_beside_others(tmp_path: Path) -> None:
    failed = write_recording(tmp_path / 'b.db', meta={'exit_code': 3})
    with load(write_recording(tmp_path / 'a.db', meta={'exit_code': 0})) as one, load(failed) as other:
        found = sections.heading([one, other], ['a.db', 'b.db'])
    assert [part.text for part in found if part.get('class') == 'failed'] == [
        'b.db: The program ended with exit code 3.'
    ]


def test_gpus_of_a_kind_are_counted(tmp_path: Path) -> None:
    with load(training(tmp_path / 'run.db')) as recording:
        found = sections.heading([recording], ['run.db'])
    assert '2 x A100, 42.9 GB' in texts_of(found)


def test_gpus_in_use_are_a_table_and_the_others_are_folded() -> None:
    used, unused = (
        GPUUse(
            number,
            'nvidia',
            f'GPU-{number}',
            'A100',
            'gigabytes',
            80.0,
            GPUMemory(60.0, ram, 0.0, ram),
            GPUPercentages(busy, busy),
            GPUPercentages(own, own),
            others_used_it=True,
        )
        for number, ram, busy, own in ((1, 40.5, 50.0, None), (0, 0.0, 90.0, 0.0))
    )
    units = Units('gigabytes', 'gigabytes', 'seconds', None)
    usage = replace(build(totals_of('gpu'), units), gpus=(unused, used))
    gpus = [Gpu(number, f'GPU-{number}', 'A100', 80_000_000_000) for number in range(3)]
    found = sections.gpus(SimpleNamespace(summary=lambda: usage, gpus=gpus), 'GPUs')
    assert rows_of(found) == [
        ['GPU', 'Peak memory', 'of', 'Busy', 'Busy, own'],
        ['GPU 1', '40.5 GB', '80 GB', '50 %', 'N/A'],
    ]
    assert texts_of(found) == ['2 more that the run did not use', 'A100, 80 GB, GPU-0', 'A100, 80 GB, GPU-2']
    assert sections.gpus(SimpleNamespace(summary=lambda: usage, gpus=gpus[:1]), 'GPUs') is None


def test_advice_is_a_list() -> None:
    assert sections.advice_list(()) is None
    assert texts_of(sections.advice_list(['Use 2 workers.', 'Use GPU 1.'])) == ['Use 2 workers.', 'Use GPU 1.']


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
        ({'exit_code': 3}, 'The program ended with exit code 3.'),
        ({'exit_code': -9}, 'The program ended by SIGKILL.'),
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
