"""MPI: ranks under the launchers of Open MPI and of MPICH, each tracked from outside or from inside, with mpi4py."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest

import gpu_tracker
from gpu_tracker.installation import install_command
from gpu_tracker.jobs.records import read_folder
from support.engines.job_folder import GPU_TRACKER
from support.engines.mpi_launchers import PROGRAM, mpich, open_mpi
from support.tracked_program import MEGABYTE, run
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gpu_tracker.jobs.job_report import JobReport
    from support.engines.mpi_launchers import MPILauncher

WORK = """
data = bytearray((rank + 1) * 20_000_000)
burn((rank + 1) / 10)
"""
"""What a rank does: each uses as much more RAM and CPU time as its number says."""

TRUTH = """
near = world.Split_type(MPI.COMM_TYPE_SHARED)
say(rank=rank, size=size, local_size=near.size, cpu=time.process_time(),
    ram=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""
"""What it knows itself."""


@pytest.fixture(params=[open_mpi, mpich], ids=['openmpi', 'mpich'])
def mpi(request: pytest.FixtureRequest) -> MPILauncher:
    make: Callable[[], MPILauncher] = request.param
    return make()


def test_ranks_under_gpu_tracker_are_who_they_are(mpi: MPILauncher, tmp_path: Path):
    truth = mpi.run(4, WORK + TRUTH, before=(*GPU_TRACKER, f'--job={tmp_path}', '--st=0.1', '--'))
    records, problems = read_folder(str(tmp_path))
    assert problems == []
    assert {record.job.launcher for record in records} == {mpi.name}
    fields = ('rank', 'size', 'local_size')
    known = [{field: getattr(record.job, field) for field in fields} for record in records]
    assert _by_rank(known) == _by_rank([{field: one[field] for field in fields} for one in truth])
    assert sorted(record.job.local_rank for record in records) == [0, 1, 2, 3]  # in the launcher's order, not MPI's

    report = gpu_tracker.load_job(tmp_path)
    assert report.launchers == (mpi.name,)
    assert (report.ranks_expected, report.ranks_started, report.states['ended']) == (4, 4, 4)
    assert len(report.nodes) == 1
    _agrees(report, truth)


@pytest.mark.figures
def test_rank_0_gets_the_figures_of_all(mpi: MPILauncher):
    # Rank 3 enters its region before all others and leaves it after them.
    program = """
import gpu_tracker
from gpu_tracker.mpi import Tracker

with Tracker(sleep_time=0.1) as tracker:
    if rank != 3:
        world.recv(source=3)
    with gpu_tracker.region('step'):
        if rank == 3:
            for other in range(3):
                world.send(None, dest=other)
        data = bytearray((rank + 1) * 20_000_000)
        burn((rank + 1) / 10)
        if rank == 3:
            for other in range(3):
                world.recv(source=other)
    if rank != 3:
        world.send(None, dest=3)
place = tracker.resource_usage.job
say(rank=rank, job=tracker.job and tracker.job.to_json(), identity=[place.rank, place.size, place.launcher])
"""
    truth = _by_rank(mpi.run(4, program))
    assert [truth[rank]['identity'] for rank in range(4)] == [[rank, 4, mpi.name] for rank in range(4)]
    assert [truth[rank]['job'] for rank in range(1, 4)] == [None] * 3
    report = truth[0]['job']
    ranks = _by_rank(report['ranks'])
    for rank in range(4):
        more = ranks[rank]['max_ram']['value'] - ranks[0]['max_ram']['value']
        assert more == pytest.approx(rank * 20 * MEGABYTE, abs=3 * MEGABYTE)
        assert (rank + 1) / 10 <= ranks[rank]['cpu_seconds'] < (rank + 1) / 10 + 0.5
    assert (report['launchers'], report['ranks_expected'], report['states']['ended']) == ([mpi.name], 4, 4)
    assert report['nodes'][0]['ranks'] == 4
    (step,) = report['regions']
    assert (step['path'], step['ranks'], step['calls'], step['slowest_rank']) == (['step'], 4, 4, '3')
    assert 0 < step['waiting_share'] < 1


def test_many_calls_of_regions_come_as_sums_and_communicators_have_ranks_of_their_own(mpi: MPILauncher):
    program = """
import gpu_tracker
from gpu_tracker.mpi import Tracker

half = world.Split(rank % 2, key=-rank)
for _ in range(2):  # each has messages of its own
    with Tracker(half) as tracker:
        for number in range(2500):
            with gpu_tracker.region(f'short {number % 25}'):
                pass
    regions = tracker.job and [[region.path[0], region.calls] for region in tracker.job.regions]
    place = tracker.resource_usage.job
    say(rank=rank, regions=regions, identity=[place.rank, place.size, place.local_rank, place.local_size])
"""
    found = mpi.run(4, program)
    assert sorted((one['rank'], *one['identity']) for one in found) == [
        *[(0, 1, 2, 1, 2)] * 2,
        *[(1, 1, 2, 1, 2)] * 2,
        *[(2, 0, 2, 0, 2)] * 2,
        *[(3, 0, 2, 0, 2)] * 2,
    ]
    reports = [sorted(one['regions']) for one in found if one['regions'] is not None]
    assert reports == [sorted([f'short {number}', 200] for number in range(25))] * 4


def test_ranks_that_fail_keep_no_other_waiting(mpi: MPILauncher):
    program = """
from gpu_tracker.mpi import Tracker

for failing in range(2):
    try:
        with Tracker() as tracker:
            if rank == failing:
                raise LookupError
    except LookupError:
        pass
    world.Barrier()
    say(rank=rank, failing=failing, states=tracker.job and [one.state for one in tracker.job.ranks])

tracker = Tracker()
if rank == 1:
    os.environ['GPU_TRACKER_READER'] = 'none'
try:
    tracker.start()
except ValueError:
    assert rank == 1
else:
    tracker.stop()
say(rank=rank, failing=None, states=tracker.job and [one.state for one in tracker.job.ranks])
"""
    of_rank_0 = {one['failing']: one['states'] for one in mpi.run(2, program) if one['rank'] == 0}
    assert of_rank_0 == {0: None, 1: ['ended', 'ended'], None: ['ended', 'unmeasured']}


def test_a_killed_rank_has_its_report_in_the_jobs_folder(mpi: MPILauncher, tmp_path: Path):
    program = """
from gpu_tracker.mpi import Tracker

with Tracker(sleep_time=0.1, job_folder=sys.argv[1]):
    world.Barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    world.Barrier()
"""
    finished = mpi.start(2, [sys.executable, '-c', PROGRAM + program, str(tmp_path)])
    assert finished.returncode != 0
    # Their samplers write what they have seen when both are gone.
    report = eventually(lambda: _with_figures(tmp_path))
    assert [(rank.label, rank.state) for rank in report.ranks] == [('0', 'lost'), ('1', 'lost')]
    assert all(rank.max_ram.value > 20 * MEGABYTE for rank in report.ranks)


def test_a_killed_rank_under_gpu_tracker_is_named(mpi: MPILauncher, tmp_path: Path):
    program = """
world.Barrier()
if rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
world.Barrier()
"""
    finished = mpi.start(2, [*GPU_TRACKER, f'--job={tmp_path}', '--', sys.executable, '-c', PROGRAM + program])
    assert finished.returncode != 0
    report = eventually(lambda: _ended(tmp_path))
    killed = report.ranks[1]
    assert (killed.label, killed.state, killed.signal) == ('1', 'killed', signal.SIGKILL.name)
    assert report.ranks[0].state in {'killed', 'lost'}  # as the launcher has ended it


def test_without_mpi4py_it_is_said_what_to_install():
    program = """
import sys
sys.modules['mpi4py'] = None  # as where it is not installed
import gpu_tracker.errors, gpu_tracker.mpi
try:
    gpu_tracker.mpi.Tracker()
except gpu_tracker.errors.MissingPackageError as error:
    print(error)
"""
    text = run(program).stdout
    assert text.startswith('gpu_tracker.mpi needs the package mpi4py (')
    assert text.endswith(f'): {install_command("mpi")}\n')


def _ended(folder: Path) -> JobReport | None:
    """Return the report of a job once none of its ranks runs."""
    report = gpu_tracker.load_job(folder)
    return None if report.is_running else report


def _with_figures(folder: Path) -> JobReport | None:
    """Return the report of a job once there are figures of all its ranks."""
    report = gpu_tracker.load_job(folder)
    return None if any(rank.max_ram.value is None for rank in report.ranks) else report


def _agrees(report: JobReport, truth: list[dict[str, Any]]) -> None:
    """Check the figures of a report against what the ranks know of themselves."""
    known = _by_rank(truth)
    for rank in report.ranks:
        own = known[rank.rank]
        assert rank.max_ram.value == pytest.approx(own['ram'], abs=MEGABYTE)
        assert own['cpu'] - 0.02 <= rank.cpu_seconds <= own['cpu'] + 0.5  # it has ended since
    assert report.cpu_seconds == pytest.approx(sum(rank.cpu_seconds for rank in report.ranks))
    (node,) = report.nodes
    assert node.max_ram.lower == max(rank.max_ram.lower for rank in report.ranks)
    if node.max_ram.upper is not None:  # else a rank's is a lower bound
        assert node.max_ram.upper == pytest.approx(sum(own['ram'] for own in truth), abs=len(truth) * MEGABYTE)


def _by_rank(found: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Return what was found by rank; each is there once."""
    ranks = {one['rank']: one for one in found}
    assert len(ranks) == len(found)
    return ranks
