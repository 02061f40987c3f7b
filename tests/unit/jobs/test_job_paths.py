"""Paths with places for job, rank, node and process: what they become, and which would lose reports."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.errors import ParameterError
from gpu_tracker.job import FIELDS, check_own_path, expand
from gpu_tracker.result.usage import JobIdentity
from gpu_tracker.running.options import Options


def place(**known: object) -> dict[str, Any]:
    return dict.fromkeys(FIELDS) | {'launcher': 'slurm'} | known


@pytest.mark.parametrize(
    ('path', 'known', 'expected'),
    [
        ('u-{job}-{rank}-{node}.json', {'job': '4711', 'rank': 3, 'node': 'n2'}, 'u-4711-3-n2.json'),
        ('{job}/{rank}', {'job': '4711', 'rank': 0, 'array_task': 0}, '4711_0/0'),
        ('{rank}{rank}', {'rank': 7}, '77'),
        ('{rank}', {'rank': 123456789}, '123456789'),
        ('{{rank}}', {'rank': 7}, '{7}'),
        ('a{b', {}, 'a{b'),
        ('a}b{', {}, 'a}b{'),
        ('{ra nk}', {}, '{ra nk}'),
        ('{job}', {'job': 'Job.1+a@b=c-d_e'}, 'Job.1+a@b=c-d_e'),
        ('{job}', {'job': 'prterun-n1-77@1'}, 'prterun-n1-77@1'),
        ('{job}', {'job': '{rank}', 'rank': 1}, '_rank_'),
        ('{job}', {'job': '/etc/passwd'}, '_etc_passwd'),
        ('{job}', {'job': 'a\0b\nc'}, 'a_b_c'),
        ('{job}', {'job': 'naïve 任务'}, 'na_ve___'),
        ('out/{job}/x', {'job': '..'}, 'out/__/x'),
        ('out/{job}/x', {'job': '.'}, 'out/_/x'),
        ('out/{node}', {'node': '..'}, 'out/__'),
        ('out/.{node}/x', {'node': '.'}, 'out/._/x'),
        ('out/{job}/x', {'job': '..', 'array_task': 3}, 'out/.._3/x'),
    ],
)
def test_what_stands_in_braces_is_replaced_once(path: str, known: dict[str, object], expected: str) -> None:
    assert expand(path, '-o', place(**known)) == expected


def test_the_process_is_known_without_a_launcher_and_so_is_the_machine() -> None:
    assert expand('{pid}', '-o', None) == str(os.getpid())
    assert expand('{node}', '-o', None) == os.uname().nodename


def test_the_date_is_that_of_the_local_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('TZ', 'XYZ-2')
    time.tzset()
    try:
        assert expand('run-{date}.db', '-o', None, now=1772372700.9) == 'run-2026-03-01-154500.db'
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ('path', 'known', 'message'),
    [
        ('{}', {}, "-o must be a path with {job}, {rank}, {node}, {pid} or {date}, not '{}'"),
        ('{Job}', {'job': '1'}, "-o must be a path with {job}, {rank}, {node}, {pid} or {date}, not '{Job}'"),
        ('{pid}{0}', {}, "-o must be a path with {job}, {rank}, {node}, {pid} or {date}, not '{pid}{0}'"),
        (
            '{rank}', {'job': '1', 'node': 'n1'},
            (
                '-o must be a path without {rank}, since slurm does not set this value: '
                "use {job} or {node} or {pid}, not '{rank}'"
            ),
        ),
        ('{job}', {}, "-o must be a path without {job}, since slurm does not set this value: use {pid}, not '{job}'"),
        (
            '{rank}', None,
            (
                "-o must be a path without {rank}, since no job launcher started this process: use "
                "{node} or {pid}, not '{rank}'"
            ),
        ),
    ],
)  # fmt: skip
def test_what_is_not_known_is_refused_with_what_is(path: str, known: dict[str, object] | None, message: str) -> None:
    with pytest.raises(ParameterError) as refused:
        expand(path, '-o', None if known is None else place(**known))
    assert str(refused.value) == message


def test_the_folder_of_a_job_needs_an_id() -> None:
    with pytest.raises(ParameterError) as refused:
        expand('usage/{job}', '--job', place())
    assert str(refused.value) == (
        '--job must be a path without {job}, since slurm does not set this value: set '
        'GPU_TRACKER_JOB, or write a name, '
        "not 'usage/{job}'"
    )


TEXT = st.text(st.characters(codec=None), max_size=30) | st.sampled_from(['.', '..', '../..', '/', '\\', 'a/../..'])


@given(TEXT, TEXT, st.integers(0, 10**9), st.none() | st.integers(0, 99))
def test_no_id_leads_out_of_the_folder_that_was_given(job: str, node: str, rank: int, task: int | None) -> None:
    identity = place(job=job, node=node, rank=rank, array_task=task)
    found = expand('/out/x{job}y/{node}z/{rank}/{job}-', '-o', identity)
    assert os.path.normpath(found) == found
    assert found.startswith('/out/x')
    assert found.count('/') == 5
    assert found.isascii()
    assert found.isprintable()
    for single in ('{job}', '{node}'):
        assert expand(single, '-o', identity) not in {'.', '..'}


@pytest.mark.parametrize(
    ('path', 'known', 'names', 'example', 'whose'),
    [
        ('x.json', {'rank': 3, 'size': 4}, '{rank}', 'x-{rank}.json', 'rank 3 of 4'),
        ('x-{job}', {'rank': 3, 'size': 4}, '{rank}', 'x-{job}-{rank}', 'rank 3 of 4'),
        ('x-{node}', {'rank': 3, 'size': 4}, '{rank}', 'x-{node}-{rank}', 'rank 3 of 4'),
        ('x', {'size': 2}, '{rank}', 'x-{rank}', 'rank N/A of 2'),
        ('a.b/c', {'rank': 0, 'size': 2}, '{rank}', 'a.b/c-{rank}', 'rank 0 of 2'),
        ('x.db', {'rank': 0, 'size': 1, 'array_task': 7}, '{job}', 'x-{job}.db', 'task 7 of an array'),
        ('x-{rank}', {'rank': 0, 'size': 1, 'array_task': 7}, '{job}', 'x-{rank}-{job}', 'task 7 of an array'),
        ('x-{rank}', {'rank': 3, 'size': 4, 'array_task': 0}, '{job}', 'x-{rank}-{job}', 'task 0 of an array'),
        ('x-{job}', {'rank': 3, 'size': 4, 'array_task': 7}, '{rank}', 'x-{job}-{rank}', 'rank 3 of 4'),
        ('x', {'rank': 3, 'size': 4, 'array_task': 7}, '{job} and {rank}', 'x-{job}-{rank}', 'rank 3 of 4'),
    ],
)
def test_a_path_that_others_would_write_as_well_is_refused(
    path: str, known: dict[str, object], names: str, example: str, whose: str
) -> None:
    with pytest.raises(ParameterError) as refused:
        check_own_path(path, '--tf', place(**known))
    assert str(refused.value) == (
        f'--tf must be a path with {names} or {{pid}} in it, such as {example} '
        f'(this is {whose}, and all processes would write the same file), not {path!r}. '
        'For one report of all processes, use --job=FOLDER'
    )


@pytest.mark.parametrize(
    ('path', 'known'),
    [
        ('x', None),
        ('x', {}),
        ('x', {'rank': 0, 'size': 1}),
        ('x', {'rank': 3}),
        ('x', {'rank': 0, 'size': 0}),
        ('x-{rank}', {'rank': 3, 'size': 4}),
        ('{rank}/x', {'rank': 3, 'size': 4}),
        ('x-{pid}', {'rank': 3, 'size': 4, 'array_task': 7}),
        ('x-{job}', {'rank': 0, 'size': 1, 'array_task': 7}),
        ('x-{job}-{rank}', {'rank': 3, 'size': 4, 'array_task': 7}),
        ('x-{rnak}', {'rank': 3, 'size': 4}),
    ],
)
def test_a_path_of_this_process_alone_is_not_and_neither_is_one_that_cannot_be_replaced(
    path: str, known: dict[str, object] | None
) -> None:
    check_own_path(path, '-o', None if known is None else place(**known))


@given(
    st.lists(st.tuples(st.none() | st.integers(0, 2), st.integers(0, 3)), unique=True, min_size=2, max_size=6),
    st.permutations(['{job}', '{rank}', '{node}']).flatmap(lambda names: st.integers(0, 3).map(lambda n: names[:n])),
)
def test_no_two_ranks_of_a_job_are_given_the_same_file(ranks: list[tuple[int | None, int]], names: list[str]) -> None:
    path = 'x' + ''.join(names)
    tasks = {task for task, _ in ranks}
    paths = []
    for task, rank in ranks:
        identity = place(job='1', array_task=task, rank=rank, size=4, node='n1')
        try:
            check_own_path(path, '-o', identity)
        except ParameterError:
            return
        paths.append(expand(path, '-o', identity))
    if None not in tasks:  # no job has both tasks and ranks without one
        assert len(set(paths)) == len(paths)


def test_the_tracker_replaces_them_by_the_identity_that_it_was_given(tmp_path: Any) -> None:
    mine = JobIdentity(launcher='dask', job='a/b', rank=12, node='n7')
    parameters = Options(
        job=mine,
        resource_usage_file=tmp_path / 'usage-{job}-{rank}.json',
        tracking_file=tmp_path / 'run-{node}-{pid}.db',
    )
    assert parameters.resource_usage_file == str(tmp_path / 'usage-a_b-12.json')
    assert parameters.tracking_file == str(tmp_path / f'run-n7-{os.getpid()}.db')
    folder = Options(job=mine, job_folder=tmp_path / '{job}' / '{rank}').job_folder
    assert folder == str(tmp_path / 'a_b' / '12')
    with pytest.raises(ParameterError) as refused:
        Options(job=JobIdentity(launcher='dask'), job_folder='x/{rank}')
    assert str(refused.value) == (
        "job_folder must be a path without {rank}, since dask does not set this value: use {pid}, not 'x/{rank}'"
    )


@pytest.mark.parametrize(
    ('given_job', 'reason'),
    [
        ({'launcher': 'x'}, "not {'launcher': 'x'}"),
        ('x', "not 'x'"),
        (JobIdentity(launcher=3), '(launcher in the identity of a rank cannot be 3), not JobIdentity('),
        (JobIdentity(launcher='x', rank=-1), '(rank in the identity of a rank cannot be -1), not JobIdentity('),
        (JobIdentity(launcher='x', rank=True), '(rank in the identity of a rank cannot be True), not JobIdentity('),
        (
            JobIdentity(launcher='x', size=10**18),
            f'(size in the identity of a rank cannot be {10**18}), not JobIdentity(',
        ),
    ],
)
def test_an_identity_that_is_none_is_refused(given_job: Any, reason: str) -> None:
    with pytest.raises(ParameterError) as refused:
        Options(job=given_job)
    assert str(refused.value).startswith('job must be a gpu_tracker.JobIdentity')
    assert reason in str(refused.value)
