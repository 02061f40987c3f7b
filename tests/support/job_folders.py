"""Folders of jobs whose ranks never ran: records with figures that a test knows, written as ranks write them."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any, NamedTuple

from gpu_tracker.job import FIELDS
from gpu_tracker.resources import GROUPS, WHOSE

if TYPE_CHECKING:
    from pathlib import Path

START = 1_800_000_000.0
"""When the first rank begins."""
GIB = 2**30


def record(
    rank: int | None,
    *,
    size: int | None = None,
    node: str = 'n1',
    attempt: int | None = None,
    started: float = 0.0,
    seconds: float = 100.0,
    cpu: float | None = 50.0,
    ram: int | None = GIB,
    is_lower_bound: bool = False,
    ended: str | None = 'stopped',
    exit_code: int | None = 0,
    gpus: list[dict[str, Any]] | None = None,
    energy: dict[str, Any] | None = None,
    job: dict[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return the record of one rank; without ``cpu`` there are no figures yet.

    :param is_lower_bound: Its RAM may have been more.
    """
    place = {'launcher': 'slurm', 'job': '4711', 'step': '0', 'rank': rank, 'size': size, 'node': node}
    totals = {
        'seconds': seconds,
        'cpu': {**{name: [cpu, 1.0] for name in WHOSE}, 'threads': [1, 0, 1], 'cores': 4},
        'ram': {**{name: [ram, ram, 0] for name in GROUPS}, 'system': 7 * GIB, 'capacity': 64 * GIB},
        'gpu': {
            **dict.fromkeys((*WHOSE, 'capacity'), 0),
            'count': len(gpus or []),
            'expected': len(gpus or []),
            'max_sum': 0.0,
            'mean_sum': 0.0,
            'devices': gpus or [],
        },
        'record': {'tracked_seconds': seconds},
        'lower_bounds': {'max_ram.combined.total_rss': 'processes may have had more'} if is_lower_bound else {},
    }
    if energy is not None:
        totals['energy'] = energy
    return {
        'gpu_tracker_job_record': 1,
        'job': dict.fromkeys(FIELDS) | place | {'attempt': attempt} | (job or {}),
        'host': f'host-of-{node}',
        'machine': f'boot-of-{node}',
        'pid': 100,
        'started_unix': START + started,
        'updated_unix': START + started + seconds,
        'ended': ended,
        'exit_code': exit_code,
        'cpus': '0-3',
        'asked': {'cores_of_node': 4, 'ram_of_node': 8 * GIB, 'gpus_of_node': None},
        'write_interval': 10.0,
        'totals': None if cpu is None else totals,
    } | more


def write(folder: Path, name: str, content: dict[str, Any], *, has_report: bool = True) -> None:
    """Write the files of one rank: the start record, and the report where there is one."""
    folder.mkdir(exist_ok=True)
    start = content | {'totals': None, 'ended': None, 'exit_code': None, 'updated_unix': content['started_unix']}
    (folder / f'{name}.start.json').write_text(json.dumps(start))
    if has_report:
        (folder / f'{name}.json').write_text(json.dumps(content))


RANKS_OF_NODE = 16
NOW = START + 1000
"""When the simulated job is merged: long after all its ranks but those that run were heard of."""
_FAULTS = (
    'never started', 'failed', 'killed', 'abandoned', 'silent', 'start alone', 'broken report', 'unreadable',
    'restarted', 'running', 'unmeasured',
)  # fmt: skip
_STATES = {
    'failed': 'failed', 'killed': 'killed', 'abandoned': 'lost', 'silent': 'lost', 'start alone': 'lost',
    'broken report': 'lost', 'running': 'running', 'unmeasured': 'unmeasured',
}  # fmt: skip
_UNKNOWN = {'start alone', 'broken report', 'unmeasured'}
"""Of these there are no figures."""
_SIGNALS = (-9, -11, -15, -6)


class SimulatedRun(NamedTuple):
    """One run of one rank, as it truly was."""

    rank: int
    fault: str
    attempt: int
    start: int
    stop: int
    exit_code: int | None
    cpu: float | None
    """Eighths of a second, which floats add up exactly; None: nobody knows."""
    ram: int | None
    is_lower_bound: bool
    """Its RAM may have been more."""
    gpu: str
    utilization: int
    joules: float

    @property
    def node(self) -> str:
        """The name of its node."""
        return f'n{self.rank // RANKS_OF_NODE:04d}'

    @property
    def state(self) -> str:
        """What it is to be called."""
        return _STATES.get(self.fault, 'ended')

    @property
    def is_known(self) -> bool:
        """Whether there are figures."""
        return self.cpu is not None

    def content(self, size: int) -> dict[str, Any]:
        """Return the record."""
        gpus = [
            {
                'uuid': f'{self.node}-{place}',
                'name': 'A100',
                'capacity': 40 * GIB,
                'combined': GIB if self.gpu.endswith(str(place)) else 0,
                'utilization': float(self.utilization) if self.gpu.endswith(str(place)) else 99.0,
            }
            for place in (0, 1)
        ]
        found = record(
            self.rank,
            size=size,
            node=self.node,
            attempt=self.attempt,
            started=self.start,
            seconds=self.stop - self.start,
            cpu=self.cpu,
            ram=self.ram or 0,
            is_lower_bound=self.is_lower_bound,
            exit_code=self.exit_code,
            gpus=gpus,
            energy={'gpus': [[self.gpu, self.joules, False]], 'packages': self.joules},
        )
        if self.fault == 'running':
            found |= {'ended': None, 'updated_unix': NOW - 5}
        elif self.fault in {'abandoned', 'silent', 'unmeasured'}:
            found |= {'ended': {'silent': None}.get(self.fault, self.fault)}
        return found


def simulated_job(folder: Path, seed: int, *, size: int, each: int) -> tuple[list[SimulatedRun], dict[str, list[int]]]:
    """Write the folder of a job; return its runs that anybody can know of, and the ranks by what happened to them.

    :param each: How many ranks have each fault.
    """
    chance = random.Random(seed)  # noqa: S311 - a job that is the same each time
    order = chance.sample(range(size), size)
    faults = {fault: sorted(order[place * each : (place + 1) * each]) for place, fault in enumerate(_FAULTS)}
    fault_of = {rank: fault for fault, ranks in faults.items() for rank in ranks}
    runs = []
    for rank in range(size):
        fault = fault_of.get(rank, 'ended')
        if fault == 'never started':
            continue
        name = f'rank-{rank:04d}-n{rank // RANKS_OF_NODE:04d}-{chance.randrange(99999)}-{chance.randbytes(4).hex()}'
        if fault == 'unreadable':
            write(folder, name, record(rank))
            for ending in ('.start.json', '.json'):
                (folder / f'{name}{ending}').write_text('{"gpu_tracker_job_record": 1, "job": nul')
            continue
        if fault == 'restarted':
            runs.append(_run(chance, rank, 'killed', attempt=0, start=chance.randrange(-200, -190)))
            write(folder, f'{name}-first', runs[-1].content(size))
        runs.append(_run(chance, rank, fault, attempt=int(fault == 'restarted'), start=chance.randrange(20)))
        write(folder, name, runs[-1].content(size), has_report=fault != 'start alone')
        if fault == 'broken report':
            (folder / f'{name}.json').write_bytes((folder / f'{name}.json').read_bytes()[:400])
    return runs, faults


def _run(chance: random.Random, rank: int, fault: str, *, attempt: int, start: int) -> SimulatedRun:
    is_known = fault not in _UNKNOWN
    ram = chance.randrange(GIB, 2 * GIB)
    codes: dict[str, int | None] = {'failed': chance.randrange(1, 256), 'killed': chance.choice(_SIGNALS)}
    lost = {'abandoned', 'silent', 'running', *_UNKNOWN}
    stop = int(NOW - START) - 5 if fault == 'running' else start + chance.randrange(50, 120)
    return SimulatedRun(
        rank=rank,
        fault=fault,
        attempt=attempt,
        start=start,
        stop=start if fault in {'start alone', 'broken report'} else stop,
        exit_code=None if fault in lost else codes.get(fault, 0),
        cpu=chance.randrange(80, 8000) / 8 if is_known else None,
        ram=ram if is_known else None,
        is_lower_bound=chance.randrange(4 * RANKS_OF_NODE) == 0,
        gpu=f'n{rank // RANKS_OF_NODE:04d}-{rank % 2}',
        utilization=25 * chance.randrange(1, 5),
        joules=float(chance.randrange(1000)),
    )
