"""Ray: its workers under gpu-tracker, and actors with a tracker, on a cluster of one node on this machine."""

from __future__ import annotations

import os
import resource
import shlex
import shutil
import tempfile
import time
from typing import TYPE_CHECKING

import pytest

import gpu_tracker
import gpu_tracker.ray
from gpu_tracker.installation import install_command
from gpu_tracker.jobs.records import read_folder
from support.programs import need_package
from support.tracked_program import MEGABYTE, run
from support.waiting import eventually

need_package('ray')

import ray  # noqa: E402 - other tests do without

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpu_tracker.jobs.job_report import JobReport
    from gpu_tracker.jobs.records import RankRecord

WORKERS = 2


@pytest.fixture(scope='module', autouse=True)
def cluster() -> Iterator[None]:
    """Start Ray."""
    folder = tempfile.mkdtemp(prefix='ray-', dir='/tmp')  # the paths of its sockets have to be short
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('RAY_USAGE_STATS_ENABLED', '0')
        ray.init(
            num_cpus=WORKERS, include_dashboard=False, log_to_driver=False, logging_level='error', _temp_dir=folder
        )
        yield
        ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


def test_workers_run_under_gpu_tracker(tmp_path: Path):
    def work(number: int) -> dict[str, float]:  # what it uses has to be importable in the workers
        data = bytearray((number + 1) * 20_000_000)
        end = time.process_time() + (number + 1) / 10
        while time.process_time() < end:
            pass
        cpu = time.process_time()
        open(f'{tmp_path}/{number}.done', 'w').close()
        while not os.path.exists(f'{tmp_path}/all reported'):
            time.sleep(0.05)
        del data
        ram = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return {'pid': os.getpid(), 'cpu': cpu, 'end_cpu': time.process_time(), 'ram': ram}

    folder = tmp_path / 'the job'
    words = gpu_tracker.ray.py_executable(folder, '--st=0.1')
    task = ray.remote(max_calls=1)(work).options(runtime_env={'py_executable': words})
    running = [task.remote(number) for number in range(WORKERS)]
    eventually(lambda: all((tmp_path / f'{number}.done').exists() for number in range(WORKERS)))
    done = time.time()
    # Ray kills what is left of a worker after its end: on a loaded machine gpu-tracker, before its last report.
    records = eventually(lambda: _reported_since(folder, done + 1))
    (tmp_path / 'all reported').touch()
    truth = {one['pid']: one for one in ray.get(running)}
    assert {record.pid for record in records} == set(truth)
    for record in records:
        own = truth[record.pid]
        ram, cpu = record.figure('ram', 'combined', 0), record.figure('cpu', 'combined', 0)
        assert own['ram'] - 3 * MEGABYTE <= ram <= own['ram'] + 3 * MEGABYTE
        assert own['cpu'] - 0.02 <= cpu <= own['end_cpu'] + 1
    report = eventually(lambda: _ended(folder))
    assert report.jobs == (ray.get_runtime_context().get_job_id(),)
    assert (report.launchers, report.ranks_started) == (('ray',), WORKERS)
    assert report.states['ended'] + report.states['lost'] == WORKERS


def test_actors_track_themselves(tmp_path: Path):
    @ray.remote(num_cpus=0)
    @gpu_tracker.ray.tracked(job_folder=tmp_path, sleep_time=0.1)
    class Trainer:
        """Trains."""

        def __init__(self, size: int) -> None:
            self.data = bytearray(size * MEGABYTE)

        def train(self, seconds: float) -> int:
            with gpu_tracker.region('train'):
                end = time.process_time() + seconds
                while time.process_time() < end:
                    pass
            return os.getpid()

    asked, forgotten, killed = (Trainer.remote(20 * (number + 1)) for number in range(3))
    process_ids = ray.get([actor.train.remote(0.1) for actor in (asked, forgotten, killed)])
    usage = ray.get(asked.resource_usage.remote())
    assert ray.get(asked.resource_usage.remote()) == usage  # it has stopped
    assert (usage.job.launcher, usage.job.step) == ('ray', 'Trainer')
    assert usage.job.job == ray.get_runtime_context().get_job_id()
    assert usage.max_ram.main.total_rss > 0.02
    # Ray may kill the sampler as well: what is in the recording by then stays.
    eventually(lambda: [region.calls for region in gpu_tracker.load_job(tmp_path).regions] == [3])
    ray.kill(killed)
    del forgotten
    report = eventually(lambda: _ended(tmp_path))

    records, _ = read_folder(str(tmp_path))
    states = {record.pid: rank.state for record, rank in zip(records, report.ranks, strict=True)}
    assert states == dict(zip(process_ids, ['ended', 'ended', 'lost'], strict=True))
    assert all(rank.max_ram.value > 20 * MEGABYTE and rank.cpu_seconds >= 0.1 for rank in report.ranks)
    # The sampler of a killed actor gives its recording another name at its end.
    eventually(lambda: _regions(tmp_path) == [(('train',), 3, 3)])


def _regions(folder: Path) -> list[tuple[tuple[str, ...], int, int]]:
    return [(region.path, region.ranks, region.calls) for region in gpu_tracker.load_job(folder).regions]


def test_the_words_are_those_of_a_shell():
    words = shlex.split(gpu_tracker.ray.py_executable('/a folder', '--sections=io', python='/usr/bin/python3'))
    assert words == [
        '/usr/bin/python3', '-m', 'gpu_tracker', '--job=/a folder', '--sections=io', '--', '/usr/bin/python3',
    ]  # fmt: skip


def test_what_is_no_class_is_refused():
    with pytest.raises(TypeError, match=r'gpu_tracker\.ray\.tracked\(\) decorates only classes, not '):
        gpu_tracker.ray.tracked()(print)


def test_without_ray_it_is_said_what_to_install():
    program = """
import sys
sys.modules['ray'] = None  # as where it is not installed
import gpu_tracker.errors, gpu_tracker.ray
print(gpu_tracker.ray.py_executable('/job', python='python'))
try:
    gpu_tracker.ray.tracked()(object)()
except gpu_tracker.errors.MissingPackageError as error:
    print(error)
"""
    words, text, _ = run(program).stdout.split('\n')
    assert words == 'python -m gpu_tracker --job=/job -- python'
    assert text.startswith('gpu_tracker.ray needs the package ray (')
    assert text.endswith(f'): {install_command("ray")}')


def _reported_since(folder: Path, moment: float) -> list[RankRecord] | None:
    """Return the records of all workers once each has been written after this moment."""
    records, _ = read_folder(str(folder))
    return records if len(records) == WORKERS and all(record.updated > moment for record in records) else None


def _ended(folder: Path) -> JobReport | None:
    """Return the report of a job once none of its ranks runs, and there are figures of all of them."""
    report = gpu_tracker.load_job(folder)
    is_there = not report.is_running and all(rank.max_ram.value is not None for rank in report.ranks)
    return report if is_there else None
