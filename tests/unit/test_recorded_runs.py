"""Text and JSON of recorded runs: what the same totals say may not change unnoticed.

``tests/data/recorded_runs`` has for each run its totals as the tracker had them (``NAME.totals.json``), with the units
that were wanted, and what was made of them: the report as text and as JSON, and the record of the sampling.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpu_tracker.report import FORMATS, build
from gpu_tracker.sampling import record_of
from gpu_tracker.units import Units

FOLDER = Path(__file__).parents[1] / 'data' / 'recorded_runs'
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
    ending = {'text': 'report.txt', 'json': 'report.json', 'summary': 'summary.txt'}[report_format]
    assert f'{report}\n' == (FOLDER / f'{name}.{ending}').read_text()


@pytest.mark.parametrize('name', RUNS)
def test_totals_make_the_same_record_of_the_sampling_as_ever(name: str) -> None:
    recorded = json.loads((FOLDER / f'{name}.totals.json').read_text())
    record = record_of(recorded['totals'], recorded['units'][0])
    assert f'{record}\n' == (FOLDER / f'{name}.sampling.txt').read_text()
