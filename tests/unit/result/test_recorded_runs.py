"""Reports of recorded runs: what the same totals say may not change unnoticed.

``tests/data/recorded_runs`` has for each run its totals as the tracker had them (``NAME.totals.json``), with the units
that were wanted, and what was made of them: the report as text, JSON and CSV, and the record of the sampling. ``forks``
was recorded by an older version: it has bounds of RAM, and no ``lower_bounds``.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpu_tracker.resources.building import build
from gpu_tracker.result.formats import FORMATS, as_text
from gpu_tracker.result.sampling import record_of
from gpu_tracker.units import Units

FOLDER = Path(__file__).parents[2] / 'data' / 'recorded_runs'
RUNS = (
    'cuda',
    'energy',
    'foreign_process',
    'forks',
    'gpu',
    'io',
    'mig',
    'plain',
    'shared_memory',
    'units_and_limit',
)


def test_every_recorded_run_is_compared() -> None:
    assert sorted(path.name.partition('.')[0] for path in FOLDER.glob('*.totals.json')) == sorted(RUNS)


@pytest.mark.parametrize('name', RUNS)
@pytest.mark.parametrize('report_format', sorted(FORMATS))
def test_totals_make_the_same_report_as_ever(name: str, report_format: str) -> None:
    recorded = json.loads((FOLDER / f'{name}.totals.json').read_text())
    report = FORMATS[report_format](build(recorded['totals'], Units(*recorded['units'])))
    ending = {'text': 'report.txt', 'json': 'report.json', 'summary': 'summary.txt', 'csv': 'report.csv'}[report_format]
    assert f'{report}\n' == (FOLDER / f'{name}.{ending}').read_text()


def test_each_figure_can_have_the_unit_that_suits_it() -> None:
    recorded = json.loads((FOLDER / 'io.totals.json').read_text())
    usage = build(recorded['totals'], Units('bytes', 'bytes', 'seconds', None))
    report = as_text(usage, ('ram', 'gpu_ram', 'time'))
    assert f'{report}\n' == (FOLDER / 'io.adaptive.txt').read_text()
    of_time = as_text(usage, ('time',)).splitlines()
    assert of_time[:2] == ['Max RAM:', '   Unit: bytes']
    assert of_time[of_time.index('Compute time:') + 1] in report.splitlines()


@pytest.mark.parametrize('name', RUNS)
def test_totals_make_the_same_record_of_the_sampling_as_ever(name: str) -> None:
    recorded = json.loads((FOLDER / f'{name}.totals.json').read_text())
    record = record_of(recorded['totals'])
    assert f'{record}\n' == (FOLDER / f'{name}.sampling.txt').read_text()
