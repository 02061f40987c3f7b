"""Which rank a process is where variables are nested, inherited or lie; those of Slurm were seen on a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.job import FIELDS, LAUNCHERS, SCHEDULERS, asked_of_node, checked, expand, identify, job_name
from gpu_tracker.result.usage import JobIdentity

if TYPE_CHECKING:
    from collections.abc import Mapping

DAEMON, SHELL, P = 300, 400, 500
"""What Slurm starts tasks with, a shell below it, and the process that is asked about."""
UNDER_DAEMON = {P: DAEMON, DAEMON: 1}
UNDER_SHELL = {P: SHELL, SHELL: DAEMON, DAEMON: 1}
ELSEWHERE = {P: 20, 20: 10, 10: 1}
"""Started by sshd, which Slurm knows nothing of."""

STEP_TASK = {
    'SLURM_JOB_ID': '2', 'SLURM_NTASKS': '4', 'SLURM_NPROCS': '4', 'SLURM_JOB_NODELIST': 'n[1-2]',
    'SLURM_STEP_ID': '0', 'SLURM_STEP_NUM_TASKS': '4', 'SLURM_STEP_NUM_NODES': '2', 'SLURM_STEP_NODELIST': 'n[1-2]',
    'SLURM_PROCID': '3', 'SLURM_LOCALID': '1', 'SLURM_NODEID': '1', 'SLURMD_NODENAME': 'n2',
    'SLURM_TASK_PID': '500', 'SLURM_CPUS_ON_NODE': '2',
}  # fmt: skip
"""``srun -N2 -n4 P``."""
SCRIPT = {
    'SLURM_JOB_ID': '3', 'SLURM_NTASKS': '3', 'SLURM_NPROCS': '3', 'SLURM_JOB_NODELIST': 'n[1-2]',
    'SLURM_PROCID': '0', 'SLURM_LOCALID': '0', 'SLURM_NODEID': '0', 'SLURMD_NODENAME': 'n1',
    'SLURM_TASK_PID': '400', 'SLURM_CPUS_ON_NODE': '2', 'SLURM_MEM_PER_NODE': '500',
}  # fmt: skip
"""The script of ``sbatch -N2 -n3 --mem=500``."""
IN_SCRIPT = SCRIPT | {
    'SLURM_STEP_ID': '0', 'SLURM_STEP_NUM_TASKS': '3', 'SLURM_PROCID': '2', 'SLURM_TASK_PID': '500',
    'SLURMD_NODENAME': 'n2', 'SLURM_NODEID': '1',
}  # fmt: skip
"""``srun P`` in it."""
ARRAY = SCRIPT | {
    'SLURM_JOB_ID': '5', 'SLURM_NTASKS': '1', 'SLURM_ARRAY_JOB_ID': '6', 'SLURM_ARRAY_TASK_ID': '2',
    'SLURM_ARRAY_TASK_COUNT': '3', 'SLURM_ARRAY_TASK_MIN': '1', 'SLURM_ARRAY_TASK_MAX': '3',
    'SLURM_ARRAY_TASK_STEP': '1', 'SLURM_MEM_PER_CPU': '100',
}  # fmt: skip
HETEROGENEOUS = {
    'SLURM_JOB_ID': '10', 'SLURM_HET_SIZE': '2', 'SLURM_PROCID': '2', 'SLURM_LOCALID': '0', 'SLURM_STEP_ID': '0',
    'SLURM_STEP_NUM_TASKS': '3', 'SLURM_NTASKS': '3', 'SLURMD_NODENAME': 'n2', 'SLURM_TASK_PID': '500',
    'SLURM_MEM_PER_NODE': '100', 'SLURM_MEM_PER_NODE_HET_GROUP_0': '100', 'SLURM_MEM_PER_NODE_HET_GROUP_1': '200',
    'SLURM_JOB_NODELIST_HET_GROUP_0': 'n1', 'SLURM_JOB_NODELIST_HET_GROUP_1': 'n2',
}  # fmt: skip
"""``srun --het-group=0,1 P``."""


def known(
    environment: Mapping[str, str], parents: Mapping[int, int] = UNDER_DAEMON, daemon: str = '', **options: bool
) -> dict[str, object] | None:
    """Return the fields that are known.

    :param daemon: The title of the process that Slurm starts tasks with.
    """
    titles = {DAEMON: daemon, 1: '/sbin/init'}
    identity = identify(environment, P, parent_of=parents.get, title_of=lambda pid: titles.get(pid, 'sh'), **options)
    return None if identity is None else {field: value for field, value in identity.items() if value is not None}


def of_slurm(**fields: object) -> dict[str, object]:
    return {'launcher': 'slurm', 'attempt': 0} | fields


@pytest.mark.parametrize(
    ('environment', 'parents', 'daemon', 'expected'),
    [
        pytest.param(
            STEP_TASK, UNDER_DAEMON, 'slurmstepd: [2.0]',
            of_slurm(job='2', step='0', rank=3, size=4, local_rank=1, node='n2'),
            id='srun, without sbatch',
        ),
        pytest.param(
            STEP_TASK | {'SLURM_TASK_PID': '400'}, UNDER_SHELL, 'slurmstepd: [2.0]',
            of_slurm(job='2', step='0', rank=3, size=4, local_rank=1, node='n2'),
            id="srun bash -c 'P; true'",
        ),
        pytest.param(
            STEP_TASK | {'PMI_RANK': '3', 'PMI_SIZE': '4', 'PMI_FD': '9', 'PMI_JOBID': '2.0'}, UNDER_DAEMON, '',
            of_slurm(job='2', step='0', rank=3, size=4, local_rank=1, node='n2'),
            id='srun --mpi=pmi2',
        ),
        pytest.param(
            SCRIPT, UNDER_SHELL, 'slurmstepd: [3.batch]',
            of_slurm(job='3', step='batch', rank=0, size=1, local_rank=0, node='n1'),
            id='the script of sbatch -n3 is one process',
        ),
        pytest.param(
            IN_SCRIPT, UNDER_DAEMON, 'slurmstepd: [3.0]',
            of_slurm(job='3', step='0', rank=2, size=3, local_rank=0, node='n2'),
            id='srun in sbatch',
        ),
        pytest.param(
            IN_SCRIPT | {'SLURM_STEP_ID': '1', 'SLURM_STEP_NUM_TASKS': '1', 'SLURM_PROCID': '0'}, UNDER_DAEMON, '',
            of_slurm(job='3', step='1', rank=0, size=1, local_rank=0, node='n2'),
            id='srun -n1 as the second step',
        ),
        pytest.param(
            SCRIPT | {'SLURM_JOB_ID': '8', 'SLURM_STEP_ID': '0', 'SLURM_STEP_NUM_TASKS': '2',
                      'SLURM_STEP_NODELIST': 'n[1-2]', 'SLURM_NTASKS': '1'},
            UNDER_SHELL, 'slurmstepd: [8.batch]',
            of_slurm(job='8', step='batch', rank=0, size=1, local_rank=0, node='n1'),
            id='sbatch in a step of srun hands the variables of that step on to its script',
        ),
        pytest.param(
            STEP_TASK | {'SLURM_PROCID': '0', 'SLURM_STEP_NUM_TASKS': '4', 'SLURM_TASK_PID': '400'},
            UNDER_SHELL, 'slurmstepd: [2.interactive]',
            of_slurm(job='2', step='interactive', rank=0, size=1, local_rank=1, node='n2'),
            id='the shell of salloc as a step',
        ),
        pytest.param(
            ARRAY, UNDER_SHELL, 'slurmstepd: [5.batch]',
            of_slurm(job='6', array_task=2, array_size=3, step='batch', rank=0, size=1, local_rank=0, node='n1'),
            id='the script of a task of an array',
        ),
        pytest.param(
            ARRAY | {'SLURM_STEP_ID': '0', 'SLURM_STEP_NUM_TASKS': '1', 'SLURM_TASK_PID': '500'}, UNDER_DAEMON, '',
            of_slurm(job='6', array_task=2, array_size=3, step='0', rank=0, size=1, local_rank=0, node='n1'),
            id='srun in a task of an array',
        ),
        pytest.param(
            {'SLURM_JOB_ID': '7', 'SLURM_NTASKS': '2', 'SLURM_MEM_PER_NODE': '500', 'GPU_TRACKER_NODE': 'submit'},
            UNDER_SHELL, '',
            of_slurm(job='7', node='submit'),
            id='salloc without srun is no rank',
        ),
        pytest.param(
            SCRIPT | {'SLURM_JOB_ID': '10', 'SLURM_NTASKS': '1', 'SLURM_HET_SIZE': '2'}, UNDER_SHELL, '',
            of_slurm(job='10', step='batch', rank=0, size=1, local_rank=0, node='n1'),
            id='the script of a heterogeneous job',
        ),
        pytest.param(
            HETEROGENEOUS, UNDER_DAEMON, 'slurmstepd: [11.0]',
            of_slurm(job='10', step='0', rank=2, size=3, local_rank=0, node='n2'),
            id='srun --het-group=0,1 counts over both groups',
        ),
        pytest.param(
            HETEROGENEOUS | {'SLURM_STEP_ID': '1', 'SLURM_PROCID': '1', 'SLURM_STEP_NUM_TASKS': '2'},
            UNDER_DAEMON, 'slurmstepd: [11.1]',
            of_slurm(job='10', step='1', rank=1, size=2, local_rank=0, node='n2'),
            id='srun --het-group=1',
        ),
        pytest.param(
            {'SLURM_JOB_ID': '12', 'SLURM_JOB_ID_PACK_GROUP_0': '12', 'SLURM_JOB_ID_PACK_GROUP_1': '13',
             'SLURM_PACK_SIZE': '2', 'SLURM_HET_SIZE': '2', 'SLURM_PROCID': '2', 'SLURM_LOCALID': '1',
             'SLURM_STEP_ID': '0', 'SLURM_STEP_NUM_TASKS': '3', 'SLURM_TASK_PID': '500', 'SLURMD_NODENAME': 'n2'},
            UNDER_DAEMON, '',
            of_slurm(job='12', step='0', rank=2, size=3, local_rank=1, node='n2'),
            id='srun -n1 A : -n2 B',
        ),
        pytest.param(
            SCRIPT | {'SLURM_RESTART_COUNT': '1'}, UNDER_SHELL, 'slurmstepd: [3.batch]',
            of_slurm(job='3', step='batch', rank=0, size=1, local_rank=0, node='n1', attempt=1),
            id='after scontrol requeue',
        ),
        pytest.param(
            STEP_TASK | {'SLURM_TASK_PID': '600'}, ELSEWHERE, '',
            of_slurm(job='2', step='0', node='n2'),
            id='over ssh, with the variables that were there: the job alone is true',
        ),
        pytest.param(
            {name: value for name, value in STEP_TASK.items() if name != 'SLURM_TASK_PID'}, UNDER_DAEMON, '',
            of_slurm(job='2', step='0', node='n2'),
            id='a container that lets the ID of the task not through',
        ),
        pytest.param(
            STEP_TASK, UNDER_DAEMON, 'slurmstepd: [2.',
            of_slurm(job='2', step='0', rank=3, size=4, local_rank=1, node='n2'),
            id='a title that is cut off',
        ),
    ],
)  # fmt: skip
def test_slurm_as_it_was_seen(
    environment: dict[str, str], parents: dict[int, int], daemon: str, expected: dict[str, object]
) -> None:
    assert known(environment, parents, daemon) == expected


HYDRA = {'PMI_RANK': '1', 'PMI_SIZE': '4', 'MPI_LOCALRANKID': '1', 'MPI_LOCALNRANKS': '2', 'PMI_HOSTNAME': 'n2'}
PROXY = IN_SCRIPT | {'SLURM_PROCID': '1', 'SLURM_STEP_NUM_TASKS': '2', 'SLURM_TASK_PID': '400'}
"""What hydra_pmi_proxy has, which srun has started on each node, and every rank below it."""
OPEN_MPI = {
    'OMPI_COMM_WORLD_RANK': '2', 'OMPI_COMM_WORLD_SIZE': '4', 'OMPI_COMM_WORLD_LOCAL_RANK': '0',
    'OMPI_COMM_WORLD_LOCAL_SIZE': '2', 'OMPI_COMM_WORLD_NODE_RANK': '0', 'PMIX_NAMESPACE': 'prterun-n1-77@1',
    'PMIX_RANK': '2', 'PMIX_HOSTNAME': 'n2',
}  # fmt: skip
TORCHRUN = {
    'TORCHELASTIC_RUN_ID': 'none', 'TORCHELASTIC_RESTART_COUNT': '1', 'TORCHELASTIC_MAX_RESTARTS': '3',
    'RANK': '5', 'LOCAL_RANK': '1', 'GROUP_RANK': '1', 'WORLD_SIZE': '8', 'LOCAL_WORLD_SIZE': '4',
}  # fmt: skip


@pytest.mark.parametrize(
    ('environment', 'parents', 'expected'),
    [
        pytest.param(
            PROXY | HYDRA, UNDER_SHELL,
            {'launcher': 'mpich', 'job': '3', 'step': '0', 'rank': 1, 'size': 4, 'local_rank': 1, 'local_size': 2,
             'node': 'n2', 'attempt': 0},
            id="Hydra's proxy is a task of Slurm and an ancestor, and PMI_RANK the truth",
        ),
        pytest.param(
            PROXY | HYDRA | {'SLURM_STEP_ID': '1'}, UNDER_SHELL,
            {'launcher': 'mpich', 'job': '3', 'step': '1', 'rank': 1, 'size': 4, 'local_rank': 1, 'local_size': 2,
             'node': 'n2', 'attempt': 0},
            id='the second mpiexec of a script is another step',
        ),
        pytest.param(
            SCRIPT | OPEN_MPI, UNDER_SHELL,
            {'launcher': 'openmpi', 'job': '3', 'step': 'prterun-n1-77@1', 'rank': 2, 'size': 4, 'local_rank': 0,
             'local_size': 2, 'node': 'n2', 'attempt': 0},
            id='mpirun in sbatch is not its rank 0',
        ),
        pytest.param(
            STEP_TASK | TORCHRUN | {'SLURM_TASK_PID': '400'}, UNDER_SHELL,
            {'launcher': 'torchrun', 'job': '2', 'step': '0', 'rank': 5, 'size': 8, 'local_rank': 1, 'local_size': 4,
             'node': 'n2', 'attempt': 1},
            id='torchrun in srun',
        ),
        pytest.param(
            STEP_TASK | {'PARALLEL_SEQ': '17', 'PARALLEL_PID': '300', 'SLURM_TASK_PID': '400'}, UNDER_SHELL,
            {'launcher': 'parallel', 'job': '2', 'step': '300', 'rank': 17, 'node': 'n2', 'attempt': 0},
            id='GNU parallel',
        ),
        pytest.param(
            STEP_TASK | {'PARALLEL_SEQ': '17', 'PARALLEL_PID': '77'}, UNDER_DAEMON,
            of_slurm(job='2', step='0', rank=3, size=4, local_rank=1, node='n2'),
            id='srun in GNU parallel, whose variables srun has handed on',
        ),
        pytest.param(
            STEP_TASK | {'RANK': '3', 'WORLD_SIZE': '4', 'LOCAL_RANK': '1'}, UNDER_DAEMON,
            of_slurm(job='2', step='0', rank=3, size=4, local_rank=1, node='n2'),
            id="a script that exports RANK itself is Slurm's all the same",
        ),
        pytest.param(
            STEP_TASK | {'LOCAL_RANK': '1', 'NODE_RANK': '0', 'WORLD_SIZE': '8', 'SLURM_TASK_PID': '600'}, ELSEWHERE,
            {'launcher': 'lightning', 'job': '2', 'step': '0', 'rank': 1, 'size': 8, 'local_rank': 1, 'node': 'n2',
             'attempt': 0},
            id='Lightning starts its own processes where it was not told of Slurm',
        ),
        pytest.param(
            SCRIPT | {'RAY_JOB_ID': '02000000'}, UNDER_SHELL,
            {'launcher': 'ray', 'job': '3', 'step': '02000000', 'node': 'n1', 'attempt': 0},
            id='a worker of Ray is not the rank 0 that the script of sbatch is',
        ),
        pytest.param(
            {'PBS_JOBID': '9.server', 'PALS_APID': 'a', 'PALS_RANKID': '3', 'PALS_LOCAL_RANKID': '1',
             'PALS_LOCAL_SIZE': '2', 'PMI_SIZE': '4', 'PMI_RANK': '3', 'GPU_TRACKER_NODE': 'x1'},
            UNDER_SHELL,
            {'launcher': 'pals', 'job': '9.server', 'step': 'a', 'rank': 3, 'size': 4, 'local_rank': 1,
             'local_size': 2, 'node': 'x1'},
            id="PALS sets PMI_RANK too, and has no MPI_LOCALRANKID, which is Hydra's",
        ),
        pytest.param(
            {'FLUX_JOB_ID': 'f1', 'FLUX_TASK_RANK': '0', 'FLUX_JOB_SIZE': '2', 'GPU_TRACKER_NODE': 'x'} | OPEN_MPI,
            UNDER_SHELL,
            {'launcher': 'openmpi', 'job': 'f1', 'step': 'prterun-n1-77@1', 'rank': 2, 'size': 4, 'local_rank': 0,
             'local_size': 2, 'node': 'x'},
            id='mpirun in a job of Flux',
        ),
        pytest.param(
            {'JOB_COMPLETION_INDEX': '3', 'GPU_TRACKER_NODE': 'x', 'GPU_TRACKER_JOB': 'train'}, UNDER_SHELL,
            {'launcher': 'kubernetes', 'job': 'train', 'rank': 3, 'node': 'x'},
            id='a pod whose host name is not that of an Indexed Job',
        ),
        pytest.param(
            STEP_TASK | {'GPU_TRACKER_JOB': 'mine', 'GPU_TRACKER_RANK': '9', 'GPU_TRACKER_SIZE': '10',
                         'GPU_TRACKER_NODE': 'here', 'GPU_TRACKER_ATTEMPT': '4'},
            UNDER_DAEMON,
            {'launcher': 'slurm', 'job': 'mine', 'step': '0', 'rank': 9, 'size': 10, 'local_rank': 1, 'node': 'here',
             'attempt': 4},
            id='our own variables',
        ),
    ],
)  # fmt: skip
def test_of_nested_launchers_the_innermost_counts(
    environment: dict[str, str], parents: dict[int, int], expected: dict[str, object]
) -> None:
    assert known(environment, parents) == expected


def test_the_order_of_the_table_is_that_of_nesting() -> None:
    assert [row.name for row in LAUNCHERS] == [
        'torchrun', 'openmpi', 'mpich', 'pals', 'flux', 'ray', 'parallel', 'slurm', 'kubernetes', 'torch', 'lightning',
        'lightning',
    ]  # fmt: skip
    assert [row.name for row in SCHEDULERS] == ['slurm', 'flux', 'pbs']


@pytest.mark.parametrize('missing', ['', ' ', '-1', '3.0', '0x3', '٣', '1e2', '+3', '3 4', '9' * 19, 'three'])
def test_what_is_no_number_is_unknown_and_nothing_else_changes(missing: str) -> None:
    garbage = dict.fromkeys(('SLURM_STEP_NUM_TASKS', 'SLURM_LOCALID', 'SLURM_RESTART_COUNT'), missing)
    expected = of_slurm(job='2', step='0', rank=3, node='n2')
    if missing:  # an empty variable is none, and a job that was not restarted has none
        del expected['attempt']
    assert known(STEP_TASK | garbage) == expected


@pytest.mark.parametrize('task', ['0', '-500', '50', '5000', '500.0', '9' * 30, 'x'])
def test_a_task_that_is_no_ancestor_is_not_this_one(task: str) -> None:
    assert known(STEP_TASK | {'SLURM_TASK_PID': task}) == of_slurm(job='2', step='0', node='n2')


def test_numbers_may_have_blanks_and_zeros_around_them() -> None:
    assert known(STEP_TASK | {'SLURM_PROCID': ' 03\n', 'SLURM_TASK_PID': '500 '}) == of_slurm(
        job='2', step='0', rank=3, size=4, local_rank=1, node='n2'
    )


@pytest.mark.parametrize(
    ('environment', 'cores', 'ram', 'gpus'),
    [
        pytest.param(STEP_TASK, 2, None, None, id='plain srun does not say it, even with --mem'),
        pytest.param(SCRIPT, 2, 500, None, id='sbatch'),
        pytest.param(IN_SCRIPT, 2, 500, None, id='a step has what the job has'),
        pytest.param(ARRAY | {'SLURM_MEM_PER_NODE': ''}, 2, 200, None, id='by core'),
        pytest.param(HETEROGENEOUS, None, None, None, id='SLURM_MEM_PER_NODE is that of the first group of nodes'),
        pytest.param(
            SCRIPT | {'SLURM_JOB_GPUS': '0,1', 'SLURM_GPUS_ON_NODE': '2', 'SLURM_MEM_PER_NODE': '',
                      'SLURM_MEM_PER_GPU': '150'},
            2, 300, 2, id='by GPU',
        ),
        pytest.param(
            dict.fromkeys(('SLURM_CPUS_ON_NODE', 'SLURM_MEM_PER_NODE', 'SLURM_GPUS_ON_NODE'), 'all'), None, None, None,
            id='no numbers',
        ),
    ],
)  # fmt: skip
def test_what_slurm_has_given_of_a_node(
    environment: dict[str, str], cores: int | None, ram: int | None, gpus: int | None
) -> None:
    assert asked_of_node(environment) == {
        'cores_of_node': cores,
        'ram_of_node': None if ram is None else ram * 2**20,
        'gpus_of_node': gpus,
    }


NAMES = sorted(
    {need.partition('=')[0] for row in (*LAUNCHERS, *SCHEDULERS) for need in row.needs}
    | {name for row in (*LAUNCHERS, *SCHEDULERS) for names in row.fields.values() for name in names}
    | {f'GPU_TRACKER_{field}' for field in ('JOB', 'RANK', 'SIZE', 'NODE', 'ATTEMPT')}
    | {'SLURM_TASK_PID', 'SLURM_CPUS_ON_NODE', 'SLURM_MEM_PER_NODE', 'SLURM_JOB_NODELIST_HET_GROUP_0', 'HOME', ''}
)
ANYTHING = st.binary(max_size=300).map(lambda data: data.decode(errors='surrogateescape'))
"""What os.environ can have."""


@given(
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from(['0', '1', '500', 'n1', 'none']) | ANYTHING),
    st.sampled_from([UNDER_DAEMON, UNDER_SHELL, ELSEWHERE, {}, {P: P}, {P: 1, 1: P}]),
    ANYTHING | st.sampled_from(['slurmstepd: [1.batch]', 'slurmstepd: [1.0]']),
    st.booleans(),
)
def test_any_environment_gives_an_identity_that_can_be_kept(
    environment: dict[str, str], parents: dict[int, int], title: str, only_certain: bool
) -> None:
    asked = asked_of_node(environment)
    assert all(value is None or value >= 0 for value in asked.values())
    identity = identify(environment, P, parent_of=parents.get, title_of=lambda _: title, only_certain=only_certain)
    if identity is None:
        return
    assert list(identity) == list(FIELDS)
    assert checked(identity) == identity
    assert JobIdentity(**identity).launcher in {row.name for row in (*LAUNCHERS, *SCHEDULERS)} | {'gpu-tracker'}
    assert all(len(value) <= 200 for value in identity.values() if isinstance(value, str))
    if identity['job'] is not None:
        assert job_name(identity) is not None
        assert '/' not in expand('{job}', '-o', identity)
