"""The place of a process in a job: its rank, the number of ranks, and its node, as launchers say it.

Each launcher is one line of :data:`LAUNCHERS`: the names of the environment variables by which it tells its processes
where they stand. Where launchers are nested, as ``mpirun`` inside ``sbatch``, the innermost one gives rank and size,
and the job ID is that of the scheduler around it, which is the one that people know.

Everything is plain data: this is imported by the measured process.
"""

from __future__ import annotations

import re

from gpu_tracker.errors import ParameterError
from gpu_tracker.real import os, time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    Environment = Mapping[str, str]

NUMBERS = ('array_task', 'array_size', 'rank', 'size', 'local_rank', 'local_size', 'attempt')
TEXTS = ('launcher', 'job', 'step', 'node')
FIELDS = (*TEXTS, *NUMBERS)
"""The fields of :class:`gpu_tracker.result.usage.JobIdentity`: numbers, texts, and all of them."""

_LONGEST = 200
"""Characters of a text: more than any launcher uses, and few enough for the name of a file."""
_MOST_DIGITS = 18
_TOO_LARGE = 10**_MOST_DIGITS
_MOST_ANCESTORS = 200
_UNSAFE = re.compile(r'[^A-Za-z0-9._+@=-]')
_PLACEHOLDER = re.compile(r'\{(\w*)\}')
_OF_PROCESS = ('job', 'rank', 'node', 'pid')
_PLACEHOLDERS = (*_OF_PROCESS, 'date')
_NO_ID = 'none'
"""What torchrun calls a run without a name."""
_MEBIBYTE = 2**20
_YEAR = 365 * 86_400
"""Seconds. This or more is the time limit of a job that has none."""
_HETEROGENEOUS = 'SLURM_JOB_NODELIST_HET_GROUP_'
"""What the names of variables of a heterogeneous job of Slurm begin with."""
_STEP_DAEMON = re.compile(r'slurmstepd: \[\d+\.(\w+)')
"""What the process above the tasks of a step calls itself, such as ``slurmstepd: [4711.batch]``."""


class Launcher:
    """One launcher, and its environment variables.

    :param needs: Variables that have to be there, as ``NAME`` or ``NAME=value``.
    :param fields: The variable of each field, as ``field=NAME``; of ``field=NAME|OTHER`` the first that is set.
    :ivar defaults: Values of fields whose variable is set only if it has another one.
    :ivar within: The variable with the ID of a process. The others are believed by this process and its descendants
        alone: elsewhere they were inherited through a launcher that has none of its own.
    """

    __slots__ = ('defaults', 'fields', 'name', 'needs', 'within')

    def __init__(self, name: str, needs: str, fields: str, *, within: str | None = None, **defaults: str) -> None:
        self.name = name
        self.needs = needs.split()
        pairs = (pair.split('=') for pair in fields.split())
        self.fields = {field: names.split('|') for field, names in pairs}
        self.defaults = defaults
        self.within = within


LAUNCHERS = (
    Launcher(
        'torchrun',
        'TORCHELASTIC_RUN_ID RANK',
        'job=TORCHELASTIC_RUN_ID rank=RANK size=WORLD_SIZE local_rank=LOCAL_RANK local_size=LOCAL_WORLD_SIZE '
        'attempt=TORCHELASTIC_RESTART_COUNT',
    ),
    Launcher(
        'openmpi',
        'OMPI_COMM_WORLD_RANK',
        'job=PMIX_NAMESPACE rank=OMPI_COMM_WORLD_RANK size=OMPI_COMM_WORLD_SIZE node=PMIX_HOSTNAME '
        'local_rank=OMPI_COMM_WORLD_LOCAL_RANK local_size=OMPI_COMM_WORLD_LOCAL_SIZE',
    ),
    Launcher(
        'mpich',
        'PMI_RANK MPI_LOCALRANKID',
        'rank=PMI_RANK size=PMI_SIZE local_rank=MPI_LOCALRANKID local_size=MPI_LOCALNRANKS',
    ),
    Launcher(
        'pals',
        'PALS_RANKID',
        'job=PALS_APID rank=PALS_RANKID size=PMI_SIZE local_rank=PALS_LOCAL_RANKID local_size=PALS_LOCAL_SIZE',
    ),
    Launcher(
        'flux',
        'FLUX_TASK_RANK',
        'job=FLUX_JOB_ID rank=FLUX_TASK_RANK size=FLUX_JOB_SIZE local_rank=FLUX_TASK_LOCAL_ID',
    ),
    Launcher('ray', 'RAY_JOB_ID', 'job=RAY_JOB_ID'),
    Launcher('parallel', 'PARALLEL_SEQ PARALLEL_PID', 'job=PARALLEL_PID rank=PARALLEL_SEQ', within='PARALLEL_PID'),
    Launcher(
        'slurm',
        'SLURM_PROCID SLURM_TASK_PID',
        'step=SLURM_STEP_ID rank=SLURM_PROCID size=SLURM_STEP_NUM_TASKS local_rank=SLURM_LOCALID',
        within='SLURM_TASK_PID',
    ),
    Launcher('kubernetes', 'JOB_COMPLETION_INDEX', 'rank=JOB_COMPLETION_INDEX'),
    Launcher('torch', 'RANK WORLD_SIZE', 'rank=RANK size=WORLD_SIZE local_rank=LOCAL_RANK local_size=LOCAL_WORLD_SIZE'),
    # On other nodes than the first, ranks follow from how many devices the program has asked for.
    Launcher('lightning', 'LOCAL_RANK NODE_RANK=0 WORLD_SIZE', 'rank=LOCAL_RANK size=WORLD_SIZE local_rank=LOCAL_RANK'),
    Launcher('lightning', 'LOCAL_RANK NODE_RANK WORLD_SIZE', 'size=WORLD_SIZE local_rank=LOCAL_RANK'),
)
"""All launchers of processes, innermost first: of two whose variables are there, the first has started this process.

``torch`` and ``lightning`` are last: these variables are the framework's, and scripts set them by hand as well.
"""

SCHEDULERS = (
    Launcher(  # mpiexec of MPICH is a step of its own, and does not say so
        'slurm',
        'SLURM_JOB_ID',
        'job=SLURM_ARRAY_JOB_ID|SLURM_JOB_ID array_task=SLURM_ARRAY_TASK_ID array_size=SLURM_ARRAY_TASK_COUNT '
        'node=SLURMD_NODENAME step=SLURM_STEP_ID attempt=SLURM_RESTART_COUNT',
        attempt='0',
    ),
    Launcher('flux', 'FLUX_JOB_ID', 'job=FLUX_JOB_ID'),
    Launcher('pbs', 'PBS_JOBID', 'job=PBS_JOBID'),
)
"""They give a job its ID. It holds for all processes of the job, however they were started."""

_OWN = {
    'job': 'GPU_TRACKER_JOB',
    'rank': 'GPU_TRACKER_RANK',
    'size': 'GPU_TRACKER_SIZE',
    'node': 'GPU_TRACKER_NODE',
    'attempt': 'GPU_TRACKER_ATTEMPT',
}
"""Variables for launchers that are not in the table; they count before all others."""


def identify(
    environment: Environment,
    pid: int,
    *,
    parent_of: Callable[[int], int | None] | None = None,
    title_of: Callable[[int], str] | None = None,
    only_certain: bool = False,
) -> dict[str, Any] | None:
    """Return the fields of the identity of a process, None where unknown; None where no launcher is to be seen.

    :param environment: The environment variables that the process has.
    :param pid: The process.
    :param parent_of: Returns the parent of a process, by its ID; None where that is not known.
    :param title_of: Returns the command line of a process; an empty text where that is not known.
    :param only_certain: Believe only launchers that name their process, since ``environment`` is not the process' own.
    """
    parent_of = parent_of or _parent_of
    launcher = next(
        (
            row
            for row in LAUNCHERS
            if _has(environment, row.needs)
            and (row.within is not None or not only_certain)
            and (row.within is None or _is_within(pid, environment[row.within], parent_of))
        ),
        None,
    )
    scheduler = next((row for row in SCHEDULERS if _has(environment, row.needs)), None)
    own = {} if only_certain else _values(environment, {field: (name,) for field, name in _OWN.items()})
    if launcher is None and (only_certain or (scheduler is None and not own)):
        return None
    found: dict[str, Any] = dict.fromkeys(FIELDS)
    found['launcher'] = 'gpu-tracker' if launcher is None and scheduler is None else (launcher or scheduler).name  # type: ignore[union-attr]  # one of them is there
    of_scheduler = {} if scheduler is None else {**scheduler.defaults, **_values(environment, scheduler.fields)}
    of_launcher = {} if launcher is None else _values(environment, launcher.fields)
    is_of_slurm = launcher is not None and launcher.name == 'slurm'
    if is_of_slurm:
        step = _step_of_task(environment['SLURM_TASK_PID'], parent_of, title_of or _title_of)
        of_launcher |= {} if step is None else {'step': step}
    own_id = of_launcher.pop('job', _NO_ID)
    if own_id != _NO_ID and own_id != of_scheduler.get('job'):
        # The scheduler's is the one that people know: beside it, that of the launcher is the name of a step.
        of_launcher.setdefault('job' if 'job' not in of_scheduler else 'step', own_id)
    for field, text in {**of_scheduler, **of_launcher, **own}.items():
        found[field] = _whole(text) if field in NUMBERS else text[:_LONGEST]
    return _completed(found, is_of_slurm=is_of_slurm)


def _completed(found: dict[str, Any], *, is_of_slurm: bool) -> dict[str, Any]:
    """Return an identity with what follows from the rest of it."""
    if is_of_slurm and not (found['step'] or '').isdecimal():
        found['step'] = found['step'] or 'batch'
        found['size'] = 1  # the script itself; what it starts with srun is a step of its own
    host = host_name()
    if found['node'] is None:
        found['node'] = host
    if found['launcher'] == 'kubernetes' and found['job'] is None and host is not None:
        name, dash, index = host.rpartition('-')
        if dash and index == str(found['rank']):  # of the pods of an Indexed Job, NAME-INDEX
            found['job'] = name
    return found


def checked(fields: object) -> dict[str, Any]:
    """Return the fields of an identity that somebody else has written, those that are missing as None.

    :raises ValueError: where they are not what they have to be.
    """
    if not isinstance(fields, dict):
        raise ValueError('the identity of a rank must be a JSON object')  # noqa: TRY004 - who reads files expects one kind of error
    found = {field: fields.get(field) for field in FIELDS}
    for field, value in found.items():
        if value is None and field != 'launcher':
            continue
        is_wrong = type(value) is not int or not 0 <= value < _TOO_LARGE if field in NUMBERS else type(value) is not str
        if is_wrong:
            raise ValueError(f'{field} in the identity of a rank cannot be {value!r}')
    return found


def host_name() -> str | None:
    """Return the name of this machine."""
    return os.uname().nodename if hasattr(os, 'uname') else os.environ.get('COMPUTERNAME')


def asked_of_node(environment: Environment) -> dict[str, int | None]:
    """Return what the job was given of this node, as far as its scheduler says: cores, bytes of RAM, and GPUs."""
    cores = _whole(environment.get('SLURM_CPUS_ON_NODE', ''))
    ram = _whole(environment.get('SLURM_MEM_PER_NODE', ''))
    of_core = _whole(environment.get('SLURM_MEM_PER_CPU', ''))
    gpus = _whole(environment.get('SLURM_GPUS_ON_NODE', ''))
    of_gpu = _whole(environment.get('SLURM_MEM_PER_GPU', ''))
    if not ram and of_core and cores:
        ram = of_core * cores
    elif not ram and of_gpu and gpus:
        ram = of_gpu * gpus
    if any(name.startswith(_HETEROGENEOUS) for name in environment):
        ram = None  # the variables are those of the first group of nodes
    return {
        'cores_of_node': cores,
        'ram_of_node': ram * _MEBIBYTE if ram else None,  # 0 is all that the node has
        'gpus_of_node': gpus,
    }


def batch_request(environment: Environment, now: float, root: str = '/') -> dict[str, Any] | None:
    """Return what the batch system of this process was asked for: in seconds, bytes and counts, None where unknown.

    ``job_seconds`` is how long the job has run. ``is_whole``: its only task and node are those of this process.

    :param environment: The environment variables.
    :param now: Seconds since 1970.
    :param root: Where the files of containers are.
    """
    if environment.get('SLURM_JOB_ID'):
        begin, end = (_whole(environment.get(f'SLURM_JOB_{name}_TIME', '')) for name in ('START', 'END'))
        tasks, nodes = (_whole(environment.get(name, '')) for name in ('SLURM_NTASKS', 'SLURM_JOB_NUM_NODES'))
        asked = asked_of_node(environment)
        return {
            'system': 'slurm',
            'ram': asked['ram_of_node'],
            'cores': _whole(environment.get('SLURM_CPUS_PER_TASK', '')),
            'time_limit': None if begin is None or end is None or not 0 < end - begin < _YEAR else end - begin,
            'job_seconds': None if begin is None or now < begin else now - begin,
            'is_whole': (tasks or 1) == 1 and (nodes or 1) == 1,
        }
    if environment.get('KUBERNETES_SERVICE_HOST'):
        return {'system': 'kubernetes', 'is_whole': True}
    in_container = any(os.path.exists(f'{root}{name}') for name in ('.dockerenv', 'run/.containerenv'))
    return {'system': 'docker', 'is_whole': True} if in_container else None


def environment_of(pid: int) -> dict[str, str]:
    """Return the environment variables that a process was started with; none where they cannot be read."""
    try:
        with open(f'/proc/{pid}/environ', 'rb') as file:
            entries = file.read().split(b'\0')
    except OSError:
        return {}
    pairs = (entry.decode(errors='surrogateescape').partition('=') for entry in entries)
    return {name: value for name, equals, value in pairs if equals}


def identity_of(pid: int) -> dict[str, Any] | None:
    """Return the identity of a process that is not this one, from its environment or from what this one has of it."""
    return identify(environment_of(pid), pid) or identify(os.environ, pid, only_certain=True)


def expand(path: str, parameter: str, identity: Mapping[str, Any] | None, now: float | None = None) -> str:
    """Return ``path`` with ``{job}``, ``{rank}``, ``{node}``, ``{pid}`` and ``{date}`` replaced by their values.

    :param parameter: What the path was given to, for errors.
    :param identity: See :func:`identify`.
    :param now: In seconds since 1970; None: the present time.
    :raises ParameterError: if something else stands in braces, or a value is unknown.
    """
    names = _PLACEHOLDER.findall(path)
    if not names:
        return path
    known: dict[str, str | None] = {
        'job': job_name(identity),
        'rank': None if identity is None or identity['rank'] is None else str(identity['rank']),
        'node': host_name() if identity is None else identity['node'],
        'pid': str(os.getpid()),
        'date': time.strftime('%Y-%m-%d-%H%M%S', time.localtime(now)),
    }
    for name in names:
        if name not in known:
            raise ParameterError(parameter, path, 'a path with {job}, {rank}, {node}, {pid} or {date}')
        if known[name] is None:
            source = (
                'no job launcher started this process'
                if identity is None
                else f'{identity["launcher"]} does not set this value'
            )
            possible = ' or '.join(f'{{{other}}}' for other in _OF_PROCESS if known[other] is not None)
            advice = f'set {_OWN[name]}, or write a name' if parameter == '--job' else f'use {possible}'
            raise ParameterError(parameter, path, f'a path without {{{name}}}, since {source}: {advice}')
    return _PLACEHOLDER.sub(lambda match: _part_of_path(known[match[1]] or ''), path)


def _part_of_path(text: str) -> str:
    """Return a text as it can stand in the name of one file: it leads into no other folder."""
    safe = _UNSAFE.sub('_', text)
    return safe if safe.strip('.') else '_' * len(safe)


def check_own_path(path: str, parameter: str, identity: Mapping[str, Any] | None) -> None:
    """Raise ParameterError where all ranks of a job would write the same file.

    :param path: As it was given, before :func:`expand`.
    :param parameter: What it was given to.
    """
    names = set(_PLACEHOLDER.findall(path))
    if identity is None or 'pid' in names or not names.issubset(_PLACEHOLDERS):
        return  # a name that there is none of is refused by expand()
    needed = {'job': identity['array_task'] is not None, 'rank': (identity['size'] or 1) > 1}
    missing = [f'{{{name}}}' for name, is_needed in needed.items() if is_needed and name not in names]
    if not missing:
        return
    whose = f'task {identity["array_task"]} of an array'
    if '{rank}' in missing:
        whose = f'rank {_or_unknown(identity["rank"])} of {identity["size"]}'
    stem, dot, ending = path.rpartition('.')
    added = ''.join(f'-{name}' for name in missing)
    example = f'{stem}{added}.{ending}' if dot and '/' not in ending else f'{path}{added}'
    raise ParameterError(
        parameter,
        path,
        f'a path with {" and ".join(missing)} or {{pid}} in it, such as {example} '
        f'(this is {whose}, and all processes would write the same file)',
        'For one report of all processes, use --job=FOLDER',
    )


def job_name(identity: Mapping[str, Any] | None) -> str | None:
    """Return the ID of a job, with that of the array's task as ``4711_3``; None where it is not known."""
    if identity is None or identity['job'] is None:
        return None
    task = identity['array_task']
    return str(identity['job']) if task is None else f'{identity["job"]}_{task}'


def _or_unknown(value: object) -> object:
    return 'N/A' if value is None else value


def _has(environment: Environment, needs: Sequence[str]) -> bool:
    for need in needs:
        name, equals, value = need.partition('=')
        if not environment.get(name) or (equals and environment[name] != value):
            return False
    return True


def _values(environment: Environment, fields: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the texts of the fields whose variables are set."""
    found: dict[str, str] = {}
    for field, names in fields.items():
        text = next((environment[name] for name in names if environment.get(name)), None)
        if text is not None:
            found[field] = text
    return found


def _whole(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


def _is_within(pid: int, text: str, parent_of: Callable[[int], int | None]) -> bool:
    """Return whether a process is the one whose ID ``text`` has, or a descendant of it."""
    wanted = _whole(text)
    current: int | None = pid
    for _ in range(_MOST_ANCESTORS):
        if current is None or current == wanted:
            break
        current = parent_of(current)
    return current is not None and current == wanted


def _step_of_task(task: str, parent_of: Callable[[int], int | None], title_of: Callable[[int], str]) -> str | None:
    """Return the step of a task of Slurm as the daemon above it has it in its title; None where that is not known.

    A script of sbatch has the variables of the step in which sbatch was called, where there was one.
    """
    daemon = parent_of(_whole(task) or 0)
    title = None if daemon is None else _STEP_DAEMON.match(title_of(daemon))
    return None if title is None else title[1]


def _title_of(pid: int) -> str:
    try:
        with open(f'/proc/{pid}/cmdline', 'rb') as file:
            return file.read(_LONGEST).decode(errors='replace')
    except OSError:
        return ''  # it has ended, or belongs to somebody else


def _parent_of(pid: int) -> int | None:
    try:
        with open(f'/proc/{pid}/stat', 'rb') as file:
            parent = int(file.read().rpartition(b')')[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return parent or None


def place_in_job(place: Any) -> str:  # noqa: ANN401 - a JobIdentity, whose class is made of this module's fields
    """Return which rank of which job it was, in a few words, such as ``rank 3 of 64 of job 4711 on n1``."""
    of = '' if place.size is None else f' of {place.size}'
    rank = 'a process' if place.rank is None else f'rank {place.rank}{of}'
    task = '' if place.array_task is None else f'_{place.array_task}'
    job = '' if place.job is None else f' of job {place.job}{task}'
    node = '' if place.node is None else f' on {place.node}'
    attempt = f', attempt {place.attempt}' if place.attempt else ''
    return f'{rank}{job}{node}{attempt} ({place.launcher})'
