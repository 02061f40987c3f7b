"""``--cgroup`` in a step of Slurm, in the groups that Slurm makes for its tasks, beside the files of the group."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.cli_program import PROGRAM
from support.engines.slurm_cluster import SlurmCluster
from support.own_group import MEBIBYTE, OPTIONS, OWN_FILES
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

_GROUPS = Path('/sys/fs/cgroup')
_PROGRAM = f"""{OWN_FILES}
held = bytearray(b'x') * (60 * {MEBIBYTE})
burn(0.3)
cpu = own('cpu.stat')
print(json.dumps({{
    'rank': int(os.environ['SLURM_PROCID']),
    'folders': [folder_of(controller) for controller in ('', 'memory', 'pids', 'blkio')],
    'memory_peak': int(own('memory.max_usage_in_bytes', 'memory')[0]),
    'cpu': int(dict(zip(cpu[::2], cpu[1::2]))['usage_usec']) / 1e6,
    'max_tasks': int(own('pids.peak', 'pids')[0]),
}}))
"""


@pytest.fixture
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """Give a cluster that makes control groups, and remove those in which it has its nodes."""
    if not (_GROUPS / 'memory').exists():
        pytest.skip('this machine has no memory controller of cgroup version 1')
    if not os.access(_GROUPS / 'memory', os.W_OK):
        pytest.skip('needs root, or the right to change control groups')
    with SlurmCluster(tmp_path_factory.mktemp('slurm'), has_groups=True) as cluster:
        yield cluster
    for node in _GROUPS.glob('*/slurm_n[12]'):
        for folder, _, _ in os.walk(node, topdown=False):
            eventually(lambda folder=folder: _is_removed(folder))


def _is_removed(folder: str) -> bool:
    try:
        os.rmdir(folder)
    except OSError:  # a process in it has not quite ended yet
        return False
    return True


@pytest.mark.figures
def test_the_figures_are_those_of_the_groups_own_files_and_nothing_is_left(slurm: SlurmCluster, tmp_path: Path):
    report = tmp_path / 'usage-{rank}.json'
    words = ('srun', '-n2', '--mem=1000', *PROGRAM, *OPTIONS, '-o', str(report), '--', sys.executable, '-c', _PROGRAM)
    done = slurm.run(*words)
    assert done.returncode == 0, done.stderr
    of_tasks = [json.loads(line) for line in done.stdout.splitlines()]
    assert {own['rank'] for own in of_tasks} == {0, 1}
    for own in of_tasks:
        group = json.loads((tmp_path / f'usage-{own["rank"]}.json').read_text())['own_group']
        assert own['memory_peak'] <= group['memory_peak'] <= own['memory_peak'] + MEBIBYTE
        assert own['memory_peak'] > 60 * MEBIBYTE
        assert own['cpu'] <= group['cpu_seconds'] <= own['cpu'] + 1
        assert own['max_tasks'] == group['max_tasks'] == 1
        assert group['left_processes'] == 0
    folders = {folder for own in of_tasks for folder in own['folders']}
    for number in range(2):
        assert any(f'/slurm_n1/uid_0/job_1/step_0/task_{number}/' in folder for folder in folders)
    assert all('/gpu-tracker-run-' in folder for folder in folders)
    assert len(folders) == 8
    assert not [folder for folder in folders if os.path.exists(folder)]
