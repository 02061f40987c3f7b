"""A job of 800 ranks, 1 % of them with each fault: the merged report beside the truth."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import pytest

from gpu_tracker.jobs import job_text
from gpu_tracker.jobs.merging import merge
from gpu_tracker.jobs.records import read_folder
from gpu_tracker.views.job_page import job_page
from support.job_folders import GIB, NOW, RANKS_OF_NODE, START, simulated_job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gpu_tracker.jobs.job_report import JobReport
    from support.job_folders import SimulatedRun

SIZE = 800
EACH = 8


class Merged(NamedTuple):
    """The truth, and what was made of the folder."""

    runs: Sequence[SimulatedRun]
    faults: Mapping[str, Sequence[int]]
    report: JobReport
    problems: Sequence[str]

    @property
    def last(self) -> dict[int, SimulatedRun]:
        """The last run of each rank."""
        return {run.rank: run for run in self.runs}

    @property
    def nodes(self) -> dict[str, list[SimulatedRun]]:
        """The runs on each node."""
        found: dict[str, list[SimulatedRun]] = defaultdict(list)
        for run in self.runs:
            found[run.node].append(run)
        return found


@pytest.fixture(scope='module')
def job(tmp_path_factory: pytest.TempPathFactory) -> Merged:
    folder = tmp_path_factory.mktemp('large') / 'job'
    runs, faults = simulated_job(folder, 4711, size=SIZE, each=EACH)
    records, problems = read_folder(str(folder))
    return Merged(runs, faults, merge(records, now=NOW, problems=problems), problems)


def once(runs: Iterable[SimulatedRun], value_of: Callable[[SimulatedRun], float]) -> float:
    """Return what a counter has grown by that all have read: second by second what the longest reading then says."""
    known = list(runs)
    total = 0.0
    for now in sorted({second for run in known for second in range(run.start, run.stop)}):
        there = [run for run in known if run.start <= now < run.stop]
        total += max((run.stop - run.start, -run.stop, value_of(run) / (run.stop - run.start)) for run in there)[2]
    return max(total, *(value_of(run) for run in known))


def test_each_rank_is_in_its_state(job: Merged) -> None:
    report = job.report
    assert report.states == {
        'ended': 720,
        'failed': 8,
        'killed': 8,
        'lost': 32,
        'running': 8,
        'unmeasured': 8,
    }
    assert (report.ranks_expected, report.ranks_started, len(report.ranks)) == (800, 784, 792)
    missing = sorted([*job.faults['never started'], *job.faults['unreadable']])
    assert report.never_started == tuple(map(str, missing))
    assert report.restarted == tuple(map(str, job.faults['restarted']))
    assert [(one.rank, one.attempt, one.state, one.exit_code, one.node) for one in report.ranks] == [
        (run.rank, run.attempt, run.state, run.exit_code, run.node) for run in job.runs
    ]
    names = {-9: 'SIGKILL', -11: 'SIGSEGV', -15: 'SIGTERM', -6: 'SIGABRT'}
    assert [one.signal for one in report.ranks] == [names.get(run.exit_code or 0) for run in job.runs]
    assert (report.is_running, report.is_lower_bound) == (True, True)
    assert (report.jobs, report.launchers) == (('4711',), ('slurm',))


def test_sums_are_those_of_all_runs(job: Merged) -> None:
    report = job.report
    assert report.cpu_seconds == sum(run.cpu for run in job.runs if run.cpu is not None)
    assert (report.started, report.ended) == (START + min(run.start for run in job.runs), NOW)
    assert report.seconds == 1000 - min(run.start for run in job.runs)
    assert (report.read, report.written) == (None, None)
    largest = max((run for run in job.runs if run.ram is not None), key=lambda run: run.ram or 0)
    assert report.max_ram_of_rank is not None
    upper = None if largest.is_lower_bound else largest.ram
    assert (report.max_ram_of_rank.value, report.max_ram_of_rank.upper) == (largest.ram, upper)


def test_each_node_has_what_its_ranks_had(job: Merged) -> None:
    nodes = job.nodes
    assert [node.node for node in job.report.nodes] == sorted(nodes)
    assert len(nodes) == SIZE // RANKS_OF_NODE
    with_bound = 0
    for node in job.report.nodes:
        runs = nodes[node.node]
        known = [run for run in runs if run.is_known]
        assert node.ranks == len({run.rank for run in runs})
        assert node.cpu_seconds == sum(run.cpu or 0.0 for run in known)
        assert (node.max_ram.value, node.max_ram.lower) == (None, max(run.ram or 0 for run in known))
        if all(run.is_known and not run.is_lower_bound and run.fault != 'running' for run in runs):
            at_once = max(
                sum(other.ram or 0 for other in runs if other.start <= run.start < other.stop) for run in runs
            )
            assert node.max_ram.upper == at_once
            with_bound += 1
        else:
            assert node.max_ram.upper is None
        seconds = set()
        for attempt in (0, 1):
            same = [run for run in runs if run.attempt == attempt]
            if same:
                seconds |= set(range(min(run.start for run in same), max(run.stop for run in same)))
        assert (node.cores, node.cpu_seconds_allotted) == (4, 4.0 * len(seconds))
        assert (node.gpu_seconds_allotted, node.asked_ram) == (None, 8 * GIB)
        assert (node.system_max_ram, node.system_ram_capacity) == (7 * GIB, 64 * GIB)
    assert with_bound > 10
    assert job.report.cpu_seconds_allotted == sum(node.cpu_seconds_allotted or 0.0 for node in job.report.nodes)


def test_gpus_count_once_and_only_those_that_were_used(job: Merged) -> None:
    by_gpu: dict[str, list[SimulatedRun]] = defaultdict(list)
    for run in job.runs:
        if run.is_known:
            by_gpu[run.gpu].append(run)
    busy = {gpu: once(runs, lambda run: run.utilization / 100 * (run.stop - run.start)) for gpu, runs in by_gpu.items()}
    assert len(busy) == 2 * SIZE // RANKS_OF_NODE
    assert job.report.gpu_seconds == pytest.approx(sum(busy.values()))
    for node in job.report.nodes:
        of_node = (busy[f'{node.node}-{place}'] for place in (0, 1))
        assert node.gpu_seconds == pytest.approx(sum(of_node))
        assert node.max_gpu_ram == 0
    joules = (once(runs, lambda run: run.joules) for runs in by_gpu.values())
    assert job.report.gpu_joules == pytest.approx(sum(joules))
    packages = [once((run for run in runs if run.is_known), lambda run: run.joules) for runs in job.nodes.values()]
    assert job.report.cpu_package_joules == pytest.approx(sum(packages))


def test_the_rank_that_has_most_is_named(job: Merged) -> None:
    ended = [run for run in job.last.values() if run.fault != 'running']
    found = {one.figure: one for one in job.report.imbalance}
    assert list(found) == ['seconds', 'cpu_seconds', 'max_ram']
    for figure, values in {
        'seconds': {run.rank: run.stop - run.start for run in ended},
        'cpu_seconds': {run.rank: run.cpu for run in ended if run.cpu is not None},
        'max_ram': {run.rank: run.ram for run in ended if run.ram is not None},
    }.items():
        one = found[figure]
        most = max(values.values())
        assert one.max == most
        assert one.rank == str(min(rank for rank, value in values.items() if value == most))
        assert one.ranks == len(values)
        assert one.mean == pytest.approx(sum(values.values()) / len(values), rel=1e-12)
        assert one.ratio == pytest.approx(most * len(values) / sum(values.values()), rel=1e-12)
        assert (one.job, one.step) == ('4711', '0')


def test_every_file_that_could_not_be_read_is_named(job: Merged) -> None:
    assert len(job.problems) == 2 * EACH + EACH
    assert all(problem.endswith(' is left out: it is not JSON') for problem in job.problems)
    assert sum(problem.endswith('.start.json is left out: it is not JSON') for problem in job.problems) == EACH
    age, lost, silent = job.report.problems[:3]
    assert age == 'Figures of ranks that run are up to 5 s old.'
    names = [f'rank {run.rank}' for run in job.last.values() if run.state == 'lost']
    assert lost == f'Nobody has seen the end of {", ".join(names[:12])} and 20 more: figures are up to the last report.'
    unknown = [f'rank {run.rank}' for run in job.last.values() if not run.is_known]
    assert silent == f'Nothing is known of what {", ".join(unknown[:12])} and 12 more used: it is in no figure.'
    assert job.report.problems[3:] == tuple(job.problems)


def test_what_is_shown_stays_short_and_json_has_all(job: Merged) -> None:
    text = job_text.as_text(job.report)
    assert len(text.splitlines()) < 90
    assert '800 on 50 nodes: 720 ended, 8 failed, 8 killed, 32 lost, 8 still running' in text
    assert '11 more problems: -f json has them' in text
    assert len(job_page(job.report)) < 200_000
    plain = json.loads(json.dumps(job.report.to_json(), allow_nan=False))
    assert len(plain['ranks']) == 792
    assert plain['max_ram_of_node'].keys() == {'value', 'lower', 'upper'}
