"""A figure that nobody but its resource, its class and the table of figures knows is shown everywhere."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from typing import TYPE_CHECKING

import pytest

from gpu_tracker import figures
from gpu_tracker.jobs import job_text
from gpu_tracker.jobs.merging import merge
from gpu_tracker.jobs.records import RankRecord, read_record
from gpu_tracker.recording.comparing import comparison_text
from gpu_tracker.recording.comparing.comparison import compare
from gpu_tracker.recording.comparing.run_values import result_units
from gpu_tracker.recording.reading.recording import Recording, load
from gpu_tracker.resources.building import build
from gpu_tracker.result.formats import FORMATS
from gpu_tracker.result.usage import IOUsage, IOValues, ResourceUsage
from gpu_tracker.units import Units, from_bytes
from gpu_tracker.views.job_page import job_html, job_page
from gpu_tracker.views.tiles import tiles_of
from support.compared_runs import run
from support.html_tables import Page
from support.job_folders import START, record
from support.recordings import totals_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclasses.dataclass(frozen=True)
class SwapUsage:
    """Swapped memory, in the unit of RAM."""

    unit: str
    peak: float | None


@dataclasses.dataclass(frozen=True, repr=False)
class NewUsage(ResourceUsage):
    """A result with one more section."""

    swap: SwapUsage | None = None


ROW = figures.Figure('swap.peak', 'bytes', 'Peak swap', 'the most memory in swap', note='', of_ranks=figures.LARGEST)


def with_swap(usage: ResourceUsage) -> NewUsage:
    unit = usage.max_ram.unit
    values = {field.name: getattr(usage, field.name) for field in dataclasses.fields(usage)}
    return NewUsage(**values | {'lower_bounds': ('swap.peak',)}, swap=SwapUsage(unit, from_bytes(250_000_000, unit)))


@pytest.fixture(autouse=True)
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(figures, 'ROWS', (*figures.ROWS, ROW))
    original = Recording.summary
    monkeypatch.setattr(Recording, 'summary', lambda recording, *units: with_swap(original(recording, *units)))
    of_rank = RankRecord.usage
    monkeypatch.setattr(RankRecord, 'usage', lambda record: (found := of_rank(record)) and with_swap(found))
    for cached in (figures.figures, figures.of_job, result_units):
        cached.cache_clear()
    yield
    monkeypatch.undo()
    for cached in (figures.figures, figures.of_job, result_units):
        cached.cache_clear()


@pytest.fixture
def usage() -> NewUsage:
    return with_swap(build(totals_of('plain'), Units('gigabytes', 'gigabytes', 'hours', None)))


def test_reports(usage: NewUsage) -> None:
    assert '\nSwap:\n   Unit: gigabytes\n   Peak: 0.25\n' in FORMATS['text'](usage)
    assert json.loads(FORMATS['json'](usage))['swap'] == {'unit': 'gigabytes', 'peak': 0.25}
    assert FORMATS['summary'](usage).splitlines()[-1] == 'Peak swap   ≥ 250 MB'
    (row,) = csv.DictReader(io.StringIO(FORMATS['csv'](usage)))
    assert (row['swap.peak'], row['lower_bounds']) == ('0.25', 'swap.peak')


def test_tables_and_pages(usage: NewUsage, tmp_path: Path) -> None:
    (table,) = Page(usage._repr_html_()).tables
    assert table[-1] == ['Peak swap', '≥ 250 MB']
    with load(run(tmp_path / 'run.db', units='["gigabytes", "gigabytes", "hours", null]')) as recording:
        assert tiles_of(recording)[-1] == ('Peak swap', 250_000_000, '≥ 250 MB', '')


def test_comparisons_and_their_conditions(tmp_path: Path) -> None:
    units = '["gigabytes", "gigabytes", "hours", null]'
    comparison = compare({name: [run(tmp_path / f'{name}.db', units=units)] for name in ('old', 'new')})
    text = comparison_text.as_text(comparison, shows_all=True)
    (line,) = (line for line in text.splitlines() if line.startswith('swap.peak'))
    assert line.split() == ['swap.peak', '≥', '250', 'MB', '≥', '250', 'MB', '1.000']
    found = comparison.check('swap.peak > 100 MB')
    assert (found.passed, found.text) == (False, 'swap.peak is ≥ 250 MB in new, more than 100 MB')


def test_reports_of_jobs() -> None:
    report = merge([read_record(json.dumps(record(rank)), f'rank-{rank}') for rank in (0, 1)], now=START + 100)
    summary, _, ranks = job_text.as_text(report).split('\n\n')
    assert summary.splitlines()[-1] == 'Peak swap   ≥ 250 MB in the largest rank'
    assert [line.split()[-4:] for line in ranks.splitlines()[2:]] == [['≥', '250', 'MB', 'well']] * 2
    plain = report.to_json()
    assert (plain['figures'], plain['lower_bounds']) == ({'swap.peak': 250_000_000}, ('swap.peak',))
    assert plain['ranks'][1]['figures'] == {'swap.peak': 250_000_000}
    page = job_page(report)
    assert '<dt>Peak swap</dt><dd>≥ 250 MB</dd><p>in the largest rank</p>' in page
    assert '<th scope="col" class="number">Peak swap</th><th scope="col">End</th>' in page
    assert Page(job_html(report)).tables[1][1][-2:] == ['≥ 250 MB', 'well']


def test_a_labelled_figure_of_a_section_with_lines(usage: NewUsage, monkeypatch: pytest.MonkeyPatch) -> None:
    row = figures.Figure('io.{group}.cancelled', 'bytes', 'Cancelled', 'removed before storage had it')
    monkeypatch.setattr(figures, 'ROWS', (*figures.ROWS, row))
    figures.figures.cache_clear()
    values = dict.fromkeys((field.name for field in dataclasses.fields(IOValues)), 3)
    io = IOUsage('bytes', *(IOValues(**values | {'cancelled': size}) for size in (1, 2, 3)))
    assert FORMATS['summary'](dataclasses.replace(usage, io=io)).splitlines()[-2:] == [
        'Peak swap   ≥ 250 MB',
        'Cancelled   3 B',
    ]
