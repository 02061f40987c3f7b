"""The dataset of a job's recordings, read by a Dask cluster, as docs/jobs.rst says it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_tracker.jobs.dataset import write_dataset
from support.job_folders import record, write
from support.recordings import busy_rows, write_recording

if TYPE_CHECKING:
    from pathlib import Path

dask_frames = pytest.importorskip('dask.dataframe', reason='needs the package dask')
distributed = pytest.importorskip('distributed', reason='needs the package distributed')
MEBIBYTE = 2**20


@pytest.mark.filterwarnings('default')  # those of Dask's own threads and sockets
def test_two_workers_find_the_rank_with_most(tmp_path: Path) -> None:
    for rank, count in enumerate((11, 6, 21)):
        write(tmp_path / 'job', f'rank-{rank}', record(rank, node=f'n{rank // 2}'))
        write_recording(tmp_path / 'job' / f'rank-{rank}.db', rows=busy_rows(count))
    assert write_dataset([str(tmp_path / 'job')], str(tmp_path / 'samples')) == (3, [])
    options = {'n_workers': 2, 'threads_per_worker': 1, 'dashboard_address': None, 'local_directory': str(tmp_path)}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        samples = dask_frames.read_parquet(tmp_path / 'samples')
        found = samples.groupby('rank').combined_total_rss.max().compute()
        assert {int(rank): size for rank, size in found.items()} == {
            0: 20 * MEBIBYTE,
            1: 15 * MEBIBYTE,
            2: 30 * MEBIBYTE,
        }
        by_node = samples[samples.node == 'n0'].groupby('time').combined_total_rss.sum().max().compute()
        assert by_node == (15 + 15) * MEBIBYTE
        assert len(samples) == 11 + 6 + 21
        assert len(client.nthreads()) == 2  # asks the scheduler; scheduler_info() may be old
