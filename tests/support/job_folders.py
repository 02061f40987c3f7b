"""Folders of jobs whose ranks never ran: records with figures that a test knows, written as ranks write them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gpu_tracker.job import FIELDS

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
    ram: int = GIB,
    upper: int | None = None,
    ended: str | None = 'stopped',
    exit_code: int | None = 0,
    gpus: list[dict[str, Any]] | None = None,
    energy: dict[str, Any] | None = None,
    job: dict[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return the record of one rank; without ``cpu`` there are no figures yet."""
    place = {'launcher': 'slurm', 'job': '4711', 'step': '0', 'rank': rank, 'size': size, 'node': node}
    totals = {
        'seconds': seconds,
        'cpu': {'combined': [cpu, 1.0]},
        'ram': {
            'combined': [ram, ram, 0],
            'lower': {'combined': [ram, ram, 0]},
            'upper': {'combined': ram if upper is None else upper},
            'system': 7 * GIB,
            'capacity': 64 * GIB,
        },
        'gpu': {'count': len(gpus or []), 'combined': 0, 'mean_sum': 0.0, 'devices': gpus or []},
        'record': {'tracked_seconds': seconds, 'cpu_is_lower_bound': False},
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
