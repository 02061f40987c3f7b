"""Which rank of which job a process is, from launchers' variables; those of Slurm were seen on a cluster."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.errors import ParameterError
from gpu_tracker.job import (
    FIELDS,
    LAUNCHERS,
    SCHEDULERS,
    asked_of_node,
    check_own_path,
    checked,
    expand,
    identify,
    job_name,
)
from gpu_tracker.result.usage import JobIdentity

PID = 500
PARENTS = {500: 400, 400: 300, 300: 1}
"""Process 500 was started by 400, and that by 300."""
SRUN = {
    'SLURM_JOB_ID': '4711',
    'SLURM_STEP_ID': '0',
    'SLURM_PROCID': '3',
    'SLURM_LOCALID': '1',
    'SLURM_STEP_NUM_TASKS': '4',
    'SLURM_NTASKS': '4',
    'SLURMD_NODENAME': 'n2',
    'SLURM_TASK_PID': '500',
}
BATCH = {
    'SLURM_JOB_ID': '4711',
    'SLURM_PROCID': '0',
    'SLURM_LOCALID': '0',
    'SLURM_NTASKS': '3',
    'SLURMD_NODENAME': 'n1',
    'SLURM_TASK_PID': '300',
}
OPEN_MPI = {
    'OMPI_COMM_WORLD_RANK': '2',
    'OMPI_COMM_WORLD_SIZE': '4',
    'OMPI_COMM_WORLD_LOCAL_RANK': '2',
    'OMPI_COMM_WORLD_LOCAL_SIZE': '4',
    'PMIX_NAMESPACE': 'prterun-n1-77@1',
    'PMIX_HOSTNAME': 'n1',
}
HYDRA = {'PMI_RANK': '1', 'PMI_SIZE': '4', 'MPI_LOCALRANKID': '1', 'MPI_LOCALNRANKS': '2'}
TORCHRUN = {
    'TORCHELASTIC_RUN_ID': 'none',
    'TORCHELASTIC_RESTART_COUNT': '1',
    'RANK': '5',
    'WORLD_SIZE': '8',
    'LOCAL_RANK': '1',
    'LOCAL_WORLD_SIZE': '4',
}


def found(environment: dict[str, str]) -> dict[str, object]:
    """Return the fields that are known, but for the name of this machine."""
    identity = identify(environment, PID, parent_of=PARENTS.get)
    assert identity is not None
    known = {field: value for field, value in identity.items() if value is not None}
    has_node = any(name in environment for name in ('SLURMD_NODENAME', 'PMIX_HOSTNAME', 'GPU_TRACKER_NODE'))
    if not has_node:
        del known['node']
    return known


def test_the_fields_are_those_of_the_result() -> None:
    assert set(FIELDS) == {field.name for field in fields(JobIdentity)}


def test_without_a_launcher_there_is_no_identity() -> None:
    assert identify({'HOME': '/root', 'RANK': '3'}, PID, parent_of=PARENTS.get) is None


@pytest.mark.parametrize(
    ('environment', 'expected'),
    [
        pytest.param(
            SRUN,
            {'launcher': 'slurm', 'job': '4711', 'step': '0', 'rank': 3, 'size': 4, 'local_rank': 1, 'node': 'n2',
             'attempt': 0},
            id='srun',
        ),
        pytest.param(
            BATCH,
            {'launcher': 'slurm', 'job': '4711', 'step': 'batch', 'rank': 0, 'size': 1, 'local_rank': 0, 'node': 'n1',
             'attempt': 0},
            id='the script of sbatch, which has the variables of its steps',
        ),
        pytest.param(
            SRUN | {'SLURM_RESTART_COUNT': '2'},
            {'launcher': 'slurm', 'job': '4711', 'step': '0', 'rank': 3, 'size': 4, 'local_rank': 1, 'node': 'n2',
             'attempt': 2},
            id='requeued twice',
        ),
        pytest.param(
            BATCH | {'SLURM_JOB_ID': '4713', 'SLURM_ARRAY_JOB_ID': '4711', 'SLURM_ARRAY_TASK_ID': '7',
                     'SLURM_ARRAY_TASK_COUNT': '3'},
            {'launcher': 'slurm', 'job': '4711', 'array_task': 7, 'array_size': 3, 'step': 'batch', 'rank': 0,
             'size': 1, 'local_rank': 0, 'node': 'n1', 'attempt': 0},
            id='a task of an array',
        ),
        pytest.param(
            SRUN | {'SLURM_TASK_PID': '600'},
            {'launcher': 'slurm', 'job': '4711', 'step': '0', 'node': 'n2', 'attempt': 0},
            id='inherited by a process that Slurm has not started: the job alone is true',
        ),
        pytest.param(
            {'SLURM_JOB_ID': '4711', 'SLURM_NTASKS': '2'},
            {'launcher': 'slurm', 'job': '4711', 'attempt': 0},
            id='salloc',
        ),
        pytest.param(
            OPEN_MPI,
            {'launcher': 'openmpi', 'job': 'prterun-n1-77@1', 'rank': 2, 'size': 4, 'local_rank': 2, 'local_size': 4,
             'node': 'n1'},
            id='mpirun of Open MPI',
        ),
        pytest.param(
            BATCH | OPEN_MPI,
            {'launcher': 'openmpi', 'job': '4711', 'step': 'prterun-n1-77@1', 'rank': 2, 'size': 4, 'local_rank': 2,
             'local_size': 4, 'node': 'n1', 'attempt': 0},
            id='mpirun inside sbatch',
        ),
        pytest.param(
            HYDRA,
            {'launcher': 'mpich', 'rank': 1, 'size': 4, 'local_rank': 1, 'local_size': 2},
            id='mpiexec of MPICH, which gives no job ID',
        ),
        pytest.param(
            SRUN | HYDRA | {'SLURM_TASK_PID': '400', 'SLURM_PROCID': '0', 'SLURM_STEP_NUM_TASKS': '2'},
            {'launcher': 'mpich', 'job': '4711', 'step': '0', 'rank': 1, 'size': 4, 'local_rank': 1, 'local_size': 2,
             'node': 'n2', 'attempt': 0},
            id="mpiexec inside sbatch: Slurm has started Hydra's proxy, a true ancestor",
        ),
        pytest.param(
            SRUN | TORCHRUN,
            {'launcher': 'torchrun', 'job': '4711', 'step': '0', 'rank': 5, 'size': 8, 'local_rank': 1,
             'local_size': 4, 'node': 'n2', 'attempt': 1},
            id='torchrun inside srun',
        ),
        pytest.param(
            TORCHRUN | {'TORCHELASTIC_RUN_ID': 'mine'},
            {'launcher': 'torchrun', 'job': 'mine', 'rank': 5, 'size': 8, 'local_rank': 1, 'local_size': 4,
             'attempt': 1},
            id='torchrun with an ID',
        ),
        pytest.param(
            {'FLUX_JOB_ID': 'f2Xy', 'FLUX_TASK_RANK': '1', 'FLUX_JOB_SIZE': '4', 'FLUX_TASK_LOCAL_ID': '1'},
            {'launcher': 'flux', 'job': 'f2Xy', 'rank': 1, 'size': 4, 'local_rank': 1},
            id='flux',
        ),
        pytest.param(
            {'PBS_JOBID': '12.server', 'PALS_RANKID': '6', 'PALS_LOCAL_RANKID': '2', 'PALS_LOCAL_SIZE': '4',
             'PALS_APID': 'a1'},
            {'launcher': 'pals', 'job': '12.server', 'step': 'a1', 'rank': 6, 'local_rank': 2, 'local_size': 4},
            id='PALS inside PBS',
        ),
        pytest.param(
            SRUN | {'RAY_JOB_ID': '01000000', 'SLURM_TASK_PID': '300'},
            {'launcher': 'ray', 'job': '4711', 'step': '01000000', 'node': 'n2', 'attempt': 0},
            id='a worker of Ray that srun has started is none of its ranks',
        ),
        pytest.param(
            BATCH | {'PARALLEL_SEQ': '12', 'PARALLEL_PID': '400'},
            {'launcher': 'parallel', 'job': '4711', 'step': '400', 'rank': 12, 'node': 'n1', 'attempt': 0},
            id='GNU parallel inside sbatch',
        ),
        pytest.param(
            {'RANK': '3', 'WORLD_SIZE': '4', 'LOCAL_RANK': '3'},
            {'launcher': 'torch', 'rank': 3, 'size': 4, 'local_rank': 3},
            id='accelerate without torchrun',
        ),
        pytest.param(
            {'LOCAL_RANK': '1', 'NODE_RANK': '0', 'WORLD_SIZE': '4'},
            {'launcher': 'lightning', 'rank': 1, 'size': 4, 'local_rank': 1},
            id='Lightning on its first node',
        ),
        pytest.param(
            {'LOCAL_RANK': '1', 'NODE_RANK': '1', 'WORLD_SIZE': '4'},
            {'launcher': 'lightning', 'size': 4, 'local_rank': 1},
            id='Lightning on another one: the rank depends on its devices',
        ),
        pytest.param(
            OPEN_MPI | {'GPU_TRACKER_JOB': 'mine', 'GPU_TRACKER_RANK': '9', 'GPU_TRACKER_NODE': 'here'},
            {'launcher': 'openmpi', 'job': 'mine', 'rank': 9, 'size': 4, 'local_rank': 2, 'local_size': 4,
             'node': 'here'},
            id='our own variables count before all others',
        ),
        pytest.param(
            {'OMPI_COMM_WORLD_RANK': '-1', 'OMPI_COMM_WORLD_SIZE': 'four', 'PMIX_HOSTNAME': 'n1'},
            {'launcher': 'openmpi', 'node': 'n1'},
            id='what is no number is unknown',
        ),
    ],
)  # fmt: skip
def test_each_launcher_is_known_by_its_variables(environment: dict[str, str], expected: dict[str, object]) -> None:
    assert found(environment) == expected


def test_a_process_of_somebody_else_is_known_by_what_names_it_alone() -> None:
    of_target = identify(SRUN, PID, parent_of=PARENTS.get, only_certain=True)
    assert of_target is not None
    assert (of_target['rank'], of_target['job']) == (3, '4711')
    for environment in (OPEN_MPI, SRUN | {'SLURM_TASK_PID': '600'}, {'GPU_TRACKER_RANK': '1'}):
        assert identify(environment, PID, parent_of=PARENTS.get, only_certain=True) is None


def test_parents_in_a_circle_come_to_an_end() -> None:
    identity = identify(SRUN | {'SLURM_TASK_PID': '7'}, 8, parent_of={8: 9, 9: 8}.get)
    assert identity is not None
    assert identity['rank'] is None


NAMES = sorted(
    {need.partition('=')[0] for row in (*LAUNCHERS, *SCHEDULERS) for need in row.needs}
    | {name for row in (*LAUNCHERS, *SCHEDULERS) for names in row.fields.values() for name in names}
    | {'GPU_TRACKER_RANK', 'GPU_TRACKER_JOB'}
)


@given(st.dictionaries(st.sampled_from(NAMES), st.text(max_size=30) | st.integers(-2, 600).map(str)))
def test_no_environment_is_too_much(environment: dict[str, str]) -> None:
    identity = identify(environment, PID, parent_of=PARENTS.get)
    if identity is not None:
        assert checked(identity) == identity
        JobIdentity(**identity)


@pytest.mark.parametrize(
    'fields_of_stranger',
    [None, [], {}, {'launcher': 1}, {'launcher': 'x', 'rank': '1'}, {'launcher': 'x', 'rank': True},
     {'launcher': 'x', 'size': -1}, {'launcher': 'x', 'size': 10**18}, {'launcher': 'x', 'node': 3}],
)  # fmt: skip
def test_an_identity_of_a_stranger_is_checked(fields_of_stranger: object) -> None:
    with pytest.raises(ValueError, match='identity'):
        checked(fields_of_stranger)


@pytest.mark.parametrize(
    ('environment', 'cores', 'ram', 'gpus'),
    [
        ({}, None, None, None),
        ({'SLURM_CPUS_ON_NODE': '8', 'SLURM_MEM_PER_NODE': '65536', 'SLURM_GPUS_ON_NODE': '4'}, 8, 65536 << 20, 4),
        ({'SLURM_CPUS_ON_NODE': '8', 'SLURM_MEM_PER_CPU': '100'}, 8, 800 << 20, None),
        ({'SLURM_CPUS_ON_NODE': '8', 'SLURM_GPUS_ON_NODE': '2', 'SLURM_MEM_PER_GPU': '150'}, 8, 300 << 20, 2),
        ({'SLURM_MEM_PER_NODE': '0'}, None, None, None),
    ],
)
def test_what_a_job_was_given_of_a_node(
    environment: dict[str, str], cores: int | None, ram: int | None, gpus: int | None
) -> None:
    assert asked_of_node(environment) == {'cores_of_node': cores, 'ram_of_node': ram, 'gpus_of_node': gpus}


def identity(**known: object) -> dict[str, object]:
    return dict.fromkeys(FIELDS) | {'launcher': 'slurm'} | known


def test_braces_stand_for_what_is_known() -> None:
    place = identity(job='4711', rank=3, node='n2')
    assert expand('a/{job}-{rank}-{node}.json', '-o', place) == 'a/4711-3-n2.json'
    assert expand('plain {.json', '-o', None) == 'plain {.json'
    assert expand('{job}', '-o', identity(job='../../etc/x y', array_task=2)) == '.._.._etc_x_y_2'
    assert job_name(identity(job='4711', array_task=3)) == '4711_3'


@pytest.mark.parametrize(
    ('path', 'place', 'message'),
    [
        (
            'x-{rnak}.json', identity(rank=1),
            "-o must be a path with {job}, {rank}, {node}, {pid} or {date}, not 'x-{rnak}.json'",
        ),
        (
            'x-{job}.json', identity(rank=1, node='n1'),
            (
                '-o must be a path without {job}, since slurm does not set this value: use {rank} or {node} or {pid}, '
                "not 'x-{job}.json'"
            ),
        ),
    ],
)  # fmt: skip
def test_braces_around_something_else_are_refused(path: str, place: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError) as refused:
        expand(path, '-o', place)
    assert str(refused.value) == message


def test_a_path_that_all_ranks_would_write_is_refused() -> None:
    for path in ('x-{rank}.json', 'x-{pid}.json'):
        check_own_path(path, '-o', identity(rank=3, size=64))
    check_own_path('x.json', '-o', identity(rank=0, size=1))
    check_own_path('x.json', '-o', None)
    with pytest.raises(ParameterError) as refused:
        check_own_path('out/x.json', '-o', identity(rank=3, size=64))
    assert str(refused.value) == (
        '-o must be a path with {rank} or {pid} in it, such as out/x-{rank}.json (this is rank 3 of '
        '64, and all processes would '
        "write the same file), not 'out/x.json'. For one report of all processes, use --job=FOLDER"
    )
    with pytest.raises(ParameterError, match=r'such as x-\{job\}\.json'):
        check_own_path('x.json', '-o', identity(rank=0, size=1, array_task=7))
    check_own_path('x-{job}.json', '-o', identity(rank=0, size=1, array_task=7))
