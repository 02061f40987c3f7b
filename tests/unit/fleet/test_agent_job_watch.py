"""Which ranks the agent finds in the folders of jobs, whatever else lies there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_tracker.fleet.agent.job_watch import MOST_BYTES, JobWatch, RoundLimits
from gpu_tracker.system.kernel import boot_id, pid_namespace
from support.fleet.job_records import HOST, MACHINE, NOW, identity, record, totals, write
from support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path


class Clock:
    """Both clocks of a watch."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


class Watched:
    """A watch on a folder, which reads when the test asks for it."""

    def __init__(self, folder: Path, machine: str = MACHINE, complain=print, **options) -> None:
        self.clock = Clock()
        usual = {'now': self.clock, 'clock': self.clock, 'interval': 0.001, 'machine': machine, 'host': HOST}
        self.watch = JobWatch(str(folder), complain, **usual, **options)

    def ranks(self) -> list[int | None]:
        """Return the ranks that are found now."""
        return [rank.rank for rank in self.seen().ranks]

    def seen(self):
        self.watch.read()
        return self.watch.seen()


def test_a_rank_with_its_figures(tmp_path: Path) -> None:
    write(tmp_path / 'job', 'rank-0003.json', record())
    (rank,) = Watched(tmp_path / 'job').seen().ranks
    assert rank._asdict() == {
        'folder': None,
        'node': 'n1',
        'launcher': 'slurm',
        'job': '4711',
        'step': '0',
        'rank': 3,
        'size': 4,
        'pid': 4242,
        'started': 1_799_999_899.0,
        'updated': 1_800_000_000.0,
        'expires': 1_800_000_090.0,
        'has_figures': True,
        'seconds': 100.0,
        'cpu_seconds': 350.0,
        'cpu_cores': 3.5,
        'memory_max': 8_000_000_000,
        'gpu_memory_max': 30_000_000_000,
        'gpu_utilization': 0.875,
        'read': 5_000_000,
        'written': 6_000_000,
    }


def test_a_rank_that_has_just_begun_has_no_figures_yet(tmp_path: Path) -> None:
    write(tmp_path / 'job', 'rank-0003.start.json', record(totals=None))
    watched = Watched(tmp_path / 'job')
    (rank,) = watched.seen().ranks
    assert (rank.rank, rank.has_figures, rank.cpu_seconds, rank.memory_max) == (3, False, None, None)
    write(tmp_path / 'job', 'rank-0003.json', record())
    (rank,) = watched.seen().ranks
    assert (rank.rank, rank.has_figures, rank.cpu_seconds) == (3, True, 350.0)


def test_what_is_not_measured_is_not_known(tmp_path: Path) -> None:
    write(tmp_path / 'job', 'rank-0003.json', record(totals={'seconds': 5, 'cpu': {'combined': [None, None]}}))
    (rank,) = Watched(tmp_path / 'job').seen().ranks
    known = (rank.cpu_seconds, rank.cpu_cores, rank.memory_max, rank.gpu_memory_max, rank.gpu_utilization, rank.read)
    assert known == (None,) * 6


def test_the_folder_of_one_job_or_one_with_such_folders(tmp_path: Path) -> None:
    write(tmp_path / 'first', 'rank-0000.json', record(0))
    write(tmp_path / 'second', 'rank-0001.json', record(1))
    write(tmp_path / '.hidden', 'rank-0002.json', record(2))
    (tmp_path / 'second' / 'deep').mkdir()
    write(tmp_path / 'second' / 'deep', 'rank-0003.json', record(3))
    found = [(rank.folder, rank.rank) for rank in Watched(tmp_path).seen().ranks]
    assert found == [('first', 0), ('second', 1)]
    assert Watched(tmp_path / 'second').ranks() == [1, 3]


def test_only_ranks_of_this_machine(tmp_path: Path) -> None:
    write(tmp_path, 'rank-0000.json', record(0))
    write(tmp_path, 'rank-0001.json', record(1, machine='another', host=HOST))
    write(tmp_path, 'rank-0002.json', record(2, machine=None))
    write(tmp_path, 'rank-0003.json', record(3, machine=None, host='n2'))
    assert Watched(tmp_path).ranks() == [0, 2]


def test_a_rank_that_ends_is_gone_and_is_not_read_again(tmp_path: Path) -> None:
    write(tmp_path, 'rank-0003.json', record())
    watched = Watched(tmp_path)
    assert watched.ranks() == [3]
    write(tmp_path, 'rank-0003.json', record(ended='stopped', exit_code=0))
    assert watched.ranks() == []
    write(tmp_path, 'rank-0003.json', record())  # which none does that has ended
    assert watched.ranks() == []


def test_a_rank_of_which_nothing_is_heard_is_gone_after_three_reports_and_a_minute(tmp_path: Path) -> None:
    write(tmp_path, 'rank-0003.json', record())
    watched = Watched(tmp_path)
    watched.watch.read()
    watched.clock.now = NOW + 90
    assert [rank.rank for rank in watched.watch.seen().ranks] == [3]
    assert watched.ranks() == [3]
    watched.clock.now = NOW + 91
    assert watched.watch.seen().ranks == ()  # without another round, since a file system may hang
    assert watched.ranks() == []
    write(tmp_path, 'rank-0003.json', record(updated_unix=NOW + 91))
    assert watched.ranks() == [3]


@pytest.mark.parametrize(('updated', 'interval'), [(NOW + 61, 10.0), (NOW - 11_000, 1e14)])
def test_times_that_no_rank_has_are_not_believed(tmp_path: Path, updated: float, interval: float) -> None:
    write(tmp_path, 'rank-0003.json', record(started_unix=NOW - 20_000, updated_unix=updated, write_interval=interval))
    assert Watched(tmp_path).ranks() == []


def test_cores_are_those_since_the_figures_before(tmp_path: Path) -> None:
    write(tmp_path, 'rank-0003.json', record())
    watched = Watched(tmp_path)
    watched.watch.read()
    write(tmp_path, 'rank-0003.json', record(totals=totals(seconds=110.0, cpu={'combined': [362.0, 4.0]})))
    (rank,) = watched.seen().ranks
    assert (rank.cpu_seconds, rank.cpu_cores) == (362.0, 1.2)


def test_of_a_rank_that_was_started_again_the_last_attempt_counts(tmp_path: Path) -> None:
    write(tmp_path, 'rank-0003-a.json', record(started_unix=NOW - 500, pid=1))
    write(tmp_path, 'rank-0003-b.json', record(started_unix=NOW - 10, pid=2))
    assert [(rank.rank, rank.pid) for rank in Watched(tmp_path).seen().ranks] == [(3, 2)]


def test_processes_without_a_rank_are_told_apart_by_their_ids(tmp_path: Path) -> None:
    write(tmp_path, 'process-a.json', record(None, pid=1, job=None))
    write(tmp_path, 'process-b.json', record(None, pid=2, job=None))
    found = Watched(tmp_path).seen().ranks
    assert [(rank.job, rank.node, rank.rank, rank.pid) for rank in found] == [
        (None, HOST, None, 1),
        (None, HOST, None, 2),
    ]


def test_the_task_of_an_array_is_part_of_the_id(tmp_path: Path) -> None:
    write(tmp_path, 'rank-0000.json', record(job=identity(0, array_task=3)))
    assert [rank.job for rank in Watched(tmp_path).seen().ranks] == ['4711_3']


def test_a_rank_whose_process_is_gone_is_gone_at_once(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, '-c', ''])
    ended.wait()
    here = {'machine': boot_id(), 'pid_namespace': pid_namespace()}
    write(tmp_path, 'rank-0000.json', record(0, tracker_pid=os.getpid(), **here))
    write(tmp_path, 'rank-0001.json', record(1, tracker_pid=ended.pid, **here))
    write(tmp_path, 'rank-0002.json', record(2, tracker_pid=ended.pid, machine=boot_id(), pid_namespace=1))
    write(tmp_path, 'rank-0003.json', record(3, tracker_pid=-1, **here))
    write(tmp_path, 'rank-0004.json', record(4, tracker_pid=2**40, **here))
    assert Watched(tmp_path, machine=boot_id()).ranks() == [0, 2, 3]


def test_what_is_no_record_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, 'rank-0000.json', record(0))
    write(tmp_path, 'rank-0001.json', 'half a rec')
    write(tmp_path, 'rank-0002.json', record(2, gpu_tracker_job_record=2))
    write(tmp_path, 'rank-0003.json', '[' * 100_000)
    write(tmp_path, 'rank-0004.json', json.dumps(record(4)) + ' ' * MOST_BYTES)
    write(tmp_path, 'rank-0005.txt', record(5))
    write(tmp_path, 'rank-0006.json', record(6, job={'launcher': 7}))
    watched = Watched(tmp_path)
    assert watched.ranks() == [0]
    write(tmp_path, 'rank-0001.json', record(1))
    assert watched.ranks() == [0, 1]


def test_links_and_pipes_are_left_alone(tmp_path: Path) -> None:
    jobs = tmp_path / 'jobs'
    write(jobs, 'rank-0000.json', record(0))
    write(tmp_path / 'elsewhere', 'rank-0001.json', record(1))
    (jobs / 'rank-0001.json').symlink_to(tmp_path / 'elsewhere' / 'rank-0001.json')
    (jobs / 'linked').symlink_to(tmp_path / 'elsewhere')
    os.mkfifo(jobs / 'rank-0002.json')
    (jobs / 'rank-0003.json').mkdir()
    assert Watched(jobs).ranks() == [0]
    (tmp_path / 'link').symlink_to(jobs)
    assert Watched(tmp_path / 'link').ranks() == [0]  # the folder that was given may be one


def test_names_and_numbers_of_strangers_have_limits(tmp_path: Path) -> None:
    strange = '\x1b[2J\u202e\ud800' + 'x' * 5000
    write(
        tmp_path,
        'rank-0003.json',
        record(
            job=identity(job=strange, step=strange, node=strange, launcher=strange),
            totals={
                'seconds': -1,
                'cpu': {'combined': [10**400, None]},
                'ram': {'combined': [-5]},
                'gpu': {'combined': 1e300, 'mean_sum': '7'},
                'io': {'combined': {'bytes': 'many'}},
            },
        ),
    )
    (rank,) = Watched(tmp_path).seen().ranks
    assert (rank.job, rank.step, rank.node, rank.launcher) == ('?[2J??' + 94 * 'x',) * 4
    known = (rank.seconds, rank.cpu_seconds, rank.memory_max, rank.gpu_memory_max, rank.gpu_utilization, rank.read)
    assert known == (None,) * 6


def test_a_folder_that_is_not_there_is_a_problem_until_it_is(tmp_path: Path) -> None:
    folder = tmp_path / 'jobs'
    watched = Watched(folder)
    assert watched.seen() == ((), 'the folder of the jobs cannot be read: No such file or directory')
    write(folder, 'rank-0000.json', record(0))
    assert (watched.ranks(), watched.watch.seen().problem) == ([0], None)


def test_more_ranks_and_more_to_read_than_there_may_be(tmp_path: Path) -> None:
    for rank in range(6):
        write(tmp_path, f'rank-{rank:04}.json', record(rank))
    watched = Watched(tmp_path, limits=RoundLimits(ranks=4))
    problem = 'more than 4 ranks run here: the others are left out'
    assert (watched.ranks(), watched.watch.seen().problem) == ([0, 1, 2, 3], problem)
    watched = Watched(tmp_path, limits=RoundLimits(names=2))
    assert len(watched.ranks()) == 2
    assert watched.watch.seen().problem == 'there are more than 2 files: the others are left out'
    size = len(json.dumps(record(0)))
    watched = Watched(tmp_path, limits=RoundLimits(bytes=4 * size))
    assert len(watched.ranks()) == 4
    assert watched.watch.seen().problem == f'there are more than {4 * size} bytes to read: the rest has to wait'
    assert (watched.ranks(), watched.watch.seen().problem) == ([0, 1, 2, 3, 4, 5], None)


def test_a_thread_reads_again_and_says_once_what_is_wrong(tmp_path: Path) -> None:
    folder = tmp_path / 'jobs'
    told = []
    watched = Watched(folder, complain=told.append)
    watched.watch.start()
    eventually(lambda: told)
    write(folder, 'rank-0000.json', record(0))
    watched.clock.now += 61
    assert eventually(lambda: watched.watch.seen().ranks)[0].rank == 0
    eventually(lambda: len(told) > 1)
    watched.watch.stop()
    problem = f'{folder}: the folder of the jobs cannot be read: No such file or directory'
    assert told == [f'agent: --jobs: {problem}', 'agent: --jobs: all jobs can be read again']


class HangingWatch(JobWatch):
    """A watch on a file system that hangs once the test says so."""

    def __init__(self, *words, **options) -> None:
        super().__init__(*words, **options)
        self.hangs = False
        self.is_hanging = threading.Event()
        self.may_go_on = threading.Event()

    def read(self) -> None:
        if self.hangs:
            self.is_hanging.set()
            self.may_go_on.wait()
        super().read()


def test_a_file_system_that_hangs_is_a_problem_and_figures_get_old(tmp_path: Path) -> None:
    write(tmp_path, 'rank-0000.json', record(0))
    clock, told = Clock(), []
    watch = HangingWatch(str(tmp_path), told.append, now=clock, clock=clock, interval=0.001, machine=MACHINE, host=HOST)
    watch.start()
    eventually(lambda: watch.seen().ranks)
    watch.hangs = True
    watch.is_hanging.wait()
    clock.now += 40
    seen = watch.seen()
    assert ([rank.rank for rank in seen.ranks], seen.problem) == (
        [0],
        'the folder of the jobs has not answered for 40 s',
    )
    clock.now += 60
    assert watch.seen() == ((), 'the folder of the jobs has not answered for 100 s')
    watch.stop()
    watch.may_go_on.set()
    assert told == [f'agent: --jobs: {tmp_path}: the folder of the jobs has not answered for 40 s']


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda part: (
        st.lists(part, max_size=4) | st.dictionaries(st.sampled_from([*record(), *identity(), *totals()]), part)
    ),
    max_leaves=20,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(changes=st.dictionaries(st.sampled_from([*record()]), json_values))
def test_whatever_a_record_holds_the_others_are_found(tmp_path: Path, changes: dict[str, object]) -> None:
    strange = record() | {name: value for name, value in changes.items() if name != 'gpu_tracker_job_record'}
    write(tmp_path, 'rank-0003.json', strange)
    write(tmp_path, 'rank-0000.json', record(0, job=identity(0, job='other')))
    seen = Watched(tmp_path).seen()
    assert ('other', 0) in [(rank.job, rank.rank) for rank in seen.ranks]
    json.dumps(seen.as_json(), allow_nan=False)
