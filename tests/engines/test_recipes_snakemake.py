"""The recipe for Snakemake, with the real one, and the figures of its benchmark files beside those of the report."""

from __future__ import annotations

import csv
import subprocess
from typing import TYPE_CHECKING

import pytest

from support.engines.recipe import RECIPES, merged_report, program, without_launchers
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from pathlib import Path

MEBIBYTE = 2**20


@pytest.fixture(scope='module')
def workflow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which the workflow has run."""
    snakemake = program('snakemake', 'the group engines')
    folder = tmp_path_factory.mktemp('workflow')
    finished = subprocess.run(
        [snakemake, '--cores=2', f'--snakefile={RECIPES / "Snakefile"}'],
        check=False,
        cwd=folder,
        env=without_launchers() | {'XDG_CACHE_HOME': str(folder / 'cache')},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert finished.returncode == 0, finished.stderr
    return folder


def test_each_job_of_a_rule_is_a_rank(workflow: Path):
    report = merged_report(workflow / 'usage' / 'align')
    assert report['jobs'] == ['align']
    assert [(rank['label'], rank['state']) for rank in report['ranks']] == [('0', 'ended'), ('1', 'ended')]
    assert (
        (workflow / 'usage' / 'align.txt')
        .read_text()
        .startswith('Job         align (gpu-tracker)\nRanks       2 on 1 node: 2 ended\n')
    )
    assert (workflow / 'aligned' / 'a.txt').read_text() == 'done\n'


def test_the_figures_are_in_the_columns_of_the_benchmark_files(workflow: Path):
    header, *rows = (workflow / 'usage' / 'align.tsv').read_text().splitlines()
    assert header == (workflow / 'benchmarks' / 'a.tsv').read_text().splitlines()[0]
    for row, rank in zip(rows, merged_report(workflow / 'usage' / 'align')['ranks'], strict=True):
        values = dict(zip(header.split('\t'), row.split('\t'), strict=True))
        assert float(values['max_pss']) * MEBIBYTE == pytest.approx(rank['max_ram']['value'], abs=0.01 * MEBIBYTE)
        assert float(values['cpu_time']) == pytest.approx(rank['cpu_seconds'], abs=0.01)
        assert (values['max_vms'], values['io_in'] == 'NA') == ('NA', False)


def test_memory_counts_once_and_in_the_benchmark_file_five_times(workflow: Path):
    """``max_rss`` is a sum over processes; ``max_pss`` of a sample has gpu-tracker itself in it."""
    for rank, sample in zip(merged_report(workflow / 'usage' / 'align')['ranks'], ['a', 'b'], strict=True):
        benchmark = _benchmark(workflow, sample)
        assert 200_000_000 < rank['max_ram']['value'] < 225_000_000
        assert benchmark['max_rss'] * MEBIBYTE > 4 * rank['max_ram']['value']
        assert benchmark['max_pss'] * MEBIBYTE < 1.3 * rank['max_ram']['value']


def test_cpu_time_is_that_until_the_end_and_in_the_benchmark_file_that_until_the_last_sample(workflow: Path):
    """Five processes compute for 0.2 s each; ``mean_load`` is a percentage of the time that the job has taken."""
    for rank, sample in zip(merged_report(workflow / 'usage' / 'align')['ranks'], ['a', 'b'], strict=True):
        benchmark = _benchmark(workflow, sample)
        assert 1.0 <= rank['cpu_seconds'] < 2.0
        of_gpu_tracker = 1.0  # it is one of the processes of the job
        assert benchmark['cpu_time'] < rank['cpu_seconds'] + of_gpu_tracker
        assert benchmark['s'] >= rank['seconds']


def _benchmark(workflow: Path, sample: str) -> dict[str, float]:
    with open(workflow / 'benchmarks' / f'{sample}.tsv', encoding='ascii') as file:
        (row,) = csv.DictReader(file, delimiter='\t')
    return {name: float(value) for name, value in row.items() if ':' not in name}
