"""``gpu-tracker sub-track`` on files of gpu-tracker 5."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from support.cli_program import called, gpu_tracker
from support.sub_tracking import write_blocks, write_tracking

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_tracking(tmp_path / 't.csv', [(100.0, 1.0), (101.0, 2.0)])
    write_blocks(tmp_path / 's.csv', [(1, 'b', 0, 100.5), (1, 'b', 1, 102.5)])
    return tmp_path


def failure(folder: Path, *arguments: str) -> str:
    done = called('sub-track', *arguments, cwd=folder)
    assert (done.returncode, done.stdout) == (125, '')
    return done.stderr


def test_analyze_compare_and_combine(folder: Path):
    for name in 'AB':
        done = called(
            'sub-track', 'analyze', '--tf=t.csv', '--stf=s.csv', '-f', 'json', '-o', f'{name}.json', cwd=folder
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, '', '')
    text = called('sub-track', 'analyze', '--tf=t.csv', '--stf=s.csv', cwd=folder).stdout
    assert '\tName:                b\n' in text
    compared = gpu_tracker(
        'sub-track', 'compare', '-m', 'A=A.json', '-m', 'B=B.json', '--stat=max', '-f', 'json', cwd=folder
    )
    assert json.loads(compared.stdout)['code_block_compute_time'] == {'b': {'A': 2.0, 'B': 2.0}}
    assert called('sub-track', 'combine', '--stf=c.sqlite', '-p', 's.csv', cwd=folder).returncode == 0
    assert (folder / 'c.sqlite').exists()


def test_the_configuration_file(folder: Path):
    called('sub-track', 'analyze', '--tf=t.csv', '--stf=s.csv', '-f', 'json', '-o', 'A.json', cwd=folder)
    (folder / 'c.json').write_text(json.dumps({'file_path_map': {'A': 'A.json'}, 'statistic': 'min'}))

    done = called('sub-track', 'compare', '--cconfig=c.json', '-m', 'B=A.json', '-f', 'json', cwd=folder)

    assert json.loads(done.stdout)['overall_resource_usage']['main_ram'] == {'A': 1.0, 'B': 1.0}


def test_what_is_wrong_is_said(folder: Path):
    analyze = ('analyze', '--tf=t.csv', '--stf=s.csv')
    assert failure(folder, *analyze, '-f', 'pickle') == (
        'gpu-tracker: -f pickle was removed, because loading a pickle can run any code. Use -f json, which'
        " 'gpu-tracker sub-track compare' and TrackingComparison read.\n"
    )
    assert failure(folder, *analyze, '-f', 'xml') == "gpu-tracker: --format must be text or json, not 'xml'\n"
    assert failure(folder, 'analyze', '--tf=x.csv', '--stf=s.csv') == (
        'gpu-tracker: cannot read x.csv: No such file or directory\n'
    )
    assert failure(folder, 'compare').startswith(
        'gpu-tracker: -m or --cconfig is missing: name the results to compare\n'
    )
    assert failure(folder, 'compare', '-m', 'A') == "gpu-tracker: -m must be NAME=FILE, not 'A'\n"
    assert failure(folder, 'combine', '--stf=s.csv', '-p', 't.csv') == (
        'gpu-tracker: s.csv exists already; remove it, or give another name\n'
    )
