"""The recipe for mpirun, with that of Open MPI and that of MPICH."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

from support.engines.mpi_launchers import mpich, open_mpi
from support.engines.recipe import RANK, merged_report, run_recipe, search_path

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize('make', [open_mpi, mpich])
def test_ranks_have_one_report(tmp_path: Path, make):
    launcher = make()
    (tmp_path / 'bin').mkdir()
    mpirun = tmp_path / 'bin' / 'mpirun'
    mpirun.write_text(
        f'#!/bin/sh\nexec {shlex.join(launcher.words[:-1])} "$@"\n'
    )  # without the option for their number
    mpirun.chmod(0o755)
    environment = {'PATH': f'{tmp_path}/bin:{search_path()}'}
    finished = run_recipe('mpirun.sh', 'python', '-c', RANK, folder=tmp_path, environment=environment)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout == 'ran\n' * 4
    report = merged_report(tmp_path / 'results')
    assert report['launchers'] == [launcher.name]
    assert (report['ranks_expected'], report['never_started']) == (4, [])
    assert [(rank['rank'], rank['state']) for rank in report['ranks']] == [(rank, 'ended') for rank in range(4)]
    assert 'Ranks       4 of 4 on 1 node: 4 ended\n' in (tmp_path / 'results' / 'report.txt').read_text()
