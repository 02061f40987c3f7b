"""Dask: a cluster of four workers on this machine, each tracked by the plugin."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING

import pytest

import gpu_tracker
from gpu_tracker.errors import TrackerStateError
from gpu_tracker.installation import install_command
from support.engines import dask_tasks
from support.tracked_program import MEGABYTE, run
from support.waiting import eventually

pytest.importorskip('distributed', reason='needs the package distributed')

import dask
import distributed

from gpu_tracker.dask import TrackerPlugin, collect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WORKERS = 4


@pytest.fixture(scope='module')
def client() -> Iterator[distributed.Client]:
    """Give the client of a cluster on which nothing is registered."""
    with (
        distributed.LocalCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=':0') as cluster,
        distributed.Client(cluster) as made,
    ):
        yield made


@pytest.mark.figures
def test_workers_are_tracked_and_tasks_are_regions(client: distributed.Client, tmp_path: Path):
    client.register_plugin(TrackerPlugin(job_folder=tmp_path, sleep_time=0.1))
    submitted = time.monotonic()
    futures = [
        client.submit(dask_tasks.work, number + 1, key=f'work-{number}', workers=number, allow_other_workers=False)
        for number in range(WORKERS)
    ]
    truth = client.gather(futures)
    waited = time.monotonic() - submitted
    assert client.gather(client.map(dask_tasks.wait, range(3))) == [0, 1, 2]
    with pytest.raises(LookupError):
        client.submit(dask_tasks.fail, 1, key='fail-1', retries=0).result()
    usages = collect(client)
    assert sorted(usage.job.rank for usage in usages.values()) == [0, 1, 2, 3]
    assert {usage.job.job for usage in usages.values()} == {client.scheduler_info()['id']}
    assert not any(rank.state == 'running' for rank in gpu_tracker.load_job(tmp_path).ranks)

    report = gpu_tracker.load_job(tmp_path)
    assert (report.launchers, report.ranks_started, report.states['ended']) == (('dask',), WORKERS, WORKERS)
    for rank in report.ranks:
        process_id, wall_time, cpu_time = truth[rank.rank]
        assert rank.cpu_seconds >= cpu_time
        assert rank.max_ram.value > (rank.rank + 1) * 20 * MEGABYTE
        (usage,) = (usage for usage in usages.values() if usage.job.rank == rank.rank)
        assert usage.max_ram.combined.total_rss == pytest.approx(rank.max_ram.value / 1e9)
        with gpu_tracker.load(rank.recording) as recording:
            (task,) = (region for region in recording.regions if region.name == 'work')
            (inside,) = (region for region in recording.regions if region.name == 'inside')
        assert (task.process_id, task.attributes['key']) == (process_id, f'work-{rank.rank}')
        assert wall_time <= task.wall_time < waited
        assert cpu_time <= task.thread_cpu < cpu_time + 0.1  # of the thread that ran it, not of the event loop
        assert inside.parent_id == task.id
    regions = {region.path: region for region in report.regions}
    assert {path: region.calls for path, region in regions.items()} == {
        ('work',): 4, ('work', 'inside'): 4, ('wait',): 3, ('fail',): 1,
    }  # fmt: skip
    failed = [region for rank in report.ranks for region in gpu_tracker.load(rank.recording).regions if region.error]
    assert [(region.name, region.error) for region in failed] == [('fail', 'LookupError')]


def test_a_killed_worker_keeps_its_figures_and_the_next_one_is_an_attempt(client: distributed.Client, tmp_path: Path):
    client.register_plugin(TrackerPlugin(job_folder=tmp_path, sleep_time=0.1))
    killed = client.submit(dask_tasks.work, 4, workers=2, allow_other_workers=False).result()[0]
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: _attempts(tmp_path, 2) == [0, 1])
    client.wait_for_workers(WORKERS)
    again = client.submit(dask_tasks.work, 1, workers=2, allow_other_workers=False).result()[0]
    assert again != killed
    assert len(collect(client)) == WORKERS

    report = eventually(lambda: _with_figures(tmp_path))
    assert (report.ranks_started, report.restarted) == (WORKERS, ('2',))
    assert report.states == {**dict.fromkeys(report.states, 0), 'ended': WORKERS}  # of the last attempts
    first, second = (rank for rank in report.ranks if rank.rank == 2)
    assert [(run.attempt, run.state) for run in (first, second)] == [(0, 'lost'), (1, 'ended')]
    assert first.max_ram.value > 80 * MEGABYTE
    assert first.cpu_seconds >= 0.1


def test_results_are_there_once_and_a_second_plugin_takes_the_place_of_the_first(
    client: distributed.Client, tmp_path: Path
):
    client.register_plugin(TrackerPlugin(job_folder=tmp_path / 'first'))
    client.register_plugin(TrackerPlugin(job_folder=tmp_path / 'second'))
    assert gpu_tracker.load_job(tmp_path / 'first').states['ended'] == WORKERS
    assert gpu_tracker.load_job(tmp_path / 'second').states['running'] == WORKERS
    assert len(collect(client)) == WORKERS
    with pytest.raises(TrackerStateError, match=r'No gpu_tracker\.dask\.TrackerPlugin is registered'):
        collect(client)


def test_parameters_are_checked(client: distributed.Client):
    with pytest.raises(TypeError, match="TrackerPlugin has no parameter 'process_id'"):
        TrackerPlugin(process_id=1)
    with pytest.raises(TypeError, match="TrackerPlugin has no parameter 'sleep'"):
        TrackerPlugin(sleep=1)
    with pytest.raises(ValueError, match='sleep_time must be a positive number of seconds, not -1'):
        client.register_plugin(TrackerPlugin(sleep_time=-1))
    client.unregister_worker_plugin(TrackerPlugin.name)


def test_workers_in_one_process_are_tracked_as_the_first(caplog: pytest.LogCaptureFixture):
    with (
        distributed.LocalCluster(n_workers=2, processes=False, dashboard_address=':0') as cluster,
        distributed.Client(cluster) as client,
    ):
        client.register_plugin(TrackerPlugin())
        ranks = [None if usage is None else usage.job.rank for usage in collect(client).values()]
    tracked = next(rank for rank in ranks if rank is not None)
    assert sorted(ranks, key=str) == [tracked, None]
    other = 1 - tracked
    messages = [record.getMessage() for record in caplog.records if record.name == 'gpu_tracker']
    assert messages == [f'Dask worker {other} is not tracked: another worker in the same process is already tracked.']


def test_tasks_that_an_executor_of_processes_runs_are_regions(tmp_path: Path):
    with (
        ProcessPoolExecutor(1, multiprocessing.get_context('spawn')) as processes,
        distributed.LocalCluster(
            n_workers=1, processes=False, dashboard_address=':0', executor={'processes': processes}
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.register_plugin(TrackerPlugin(job_folder=tmp_path))
        with dask.annotate(executor='processes'):
            process_id, _, _ = client.submit(dask_tasks.work, 1, key='elsewhere-1').result()
        collect(client)
    with gpu_tracker.load(gpu_tracker.load_job(tmp_path).ranks[0].recording) as recording:
        task, inside = recording.regions
    assert process_id != os.getpid()
    assert (task.name, task.process_id, inside.parent_id) == ('elsewhere', process_id, task.id)


def test_without_dask_it_is_said_what_to_install():
    program = """
import sys
sys.modules['distributed'] = None  # as where it is not installed
import gpu_tracker.errors
try:
    import gpu_tracker.dask
except gpu_tracker.errors.MissingPackageError as error:
    print(error)
"""
    text = run(program).stdout
    assert text.startswith('gpu_tracker.dask needs the package distributed (')
    assert text.endswith(f'): {install_command("dask")}\n')


def _attempts(folder: Path, rank: int) -> list[int]:
    return [run.attempt for run in gpu_tracker.load_job(folder, with_recordings=False).ranks if run.rank == rank]


def _with_figures(folder: Path) -> object:
    """Return the report of a job once there are figures of all its ranks."""
    report = gpu_tracker.load_job(folder)
    return None if any(rank.max_ram.value is None for rank in report.ranks) else report
