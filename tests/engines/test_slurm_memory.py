"""Memory that forked processes share, beside the figure of Slurm, which counts it once for each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.engines.job_folder import merged, tracked
from support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from support.engines.slurm_cluster import SlurmCluster

_FIVE_PROCESSES = """
memory = bytearray(200_000_000)
memory[::4096] = bytes(len(memory[::4096]))  # not one page stays untouched
for _ in range(4):
    if os.fork() == 0:
        wait_for('end')
        os._exit(0)
pathlib.Path('.job').write_text(os.environ['SLURM_JOB_ID'])
os.rename('.job', 'running')
wait_for('end')
"""


def test_shared_memory_counts_once_and_not_five_times_as_in_slurms_own_figure(slurm: SlurmCluster, tmp_path: Path):
    words = ('srun', '-n1', '--mem=1000', *tracked(_FIVE_PROCESSES, '--job=job', '--st=0.1'))
    with slurm.start(*words, folder=tmp_path) as srun:
        job = eventually(lambda: (tmp_path / 'running').exists() and (tmp_path / 'running').read_text())
        eventually(lambda: _bytes_of_slurm(slurm, job) > 900_000_000)
        (tmp_path / 'end').touch()
        assert srun.wait() == 0
    (node,) = merged(slurm, tmp_path / 'job')['nodes']
    assert 200_000_000 < node['max_ram']['value'] < 230_000_000


def _bytes_of_slurm(slurm: SlurmCluster, job: str) -> int:
    """Return the peak of memory as sstat has it; 0 while it has none."""
    text = slurm.asked('sstat', '--noheader', '--parsable2', '--noconvert', '--format=MaxRSS', f'{job}.0').strip()
    return int(text.removesuffix('K')) * (1024 if text.endswith('K') else 1) if text else 0
