"""The program of the recipe for Snakemake that writes recordings in the columns of benchmark files."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from support.compared_runs import run
from support.documentation_examples import ROOT
from support.tracked_program import run_words

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = str(ROOT / 'examples' / 'jobs' / 'benchmark_columns.py')


def test_columns_are_in_mebibytes_and_seconds_and_unknown_ones_na(tmp_path: Path) -> None:
    plain = run(tmp_path / 'a.db', ram=200 * 2**20, seconds=3725.5, units='["gigabytes", "gigabytes", "days", null]')
    with_io = run(tmp_path / 'b.db', totals='io')
    unknown = run(tmp_path / 'c.db', ram=None)
    header, *rows = run_words([sys.executable, PROGRAM, plain, with_io, unknown]).stdout.splitlines()
    assert header == 's\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time'
    assert [row.split('\t') for row in rows] == [
        ['3725.50', '1:02:05', '200.00', 'NA', '53.54', '200.00', 'NA', 'NA', '0.00', '0.12'],
        ['10.00', '0:00:10', '95.37', 'NA', '1.41', '95.37', '0.09', '20.01', '0.17', '0.02'],
        ['10.00', '0:00:10', 'NA', 'NA', '53.54', 'NA', 'NA', 'NA', '1.16', '0.12'],
    ]
