"""Records of ranks as gpu-tracker writes them into the folder of a job, and those that strangers could write."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gpu_tracker.fleet.agent.job_ranks import JobRank

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1_800_000_000.0
MACHINE = '8a3d0968-874b-4e3e-85a0-9b4eab865b02'
HOST = 'n1.example.org'
RANK = JobRank(
    folder='resnet',
    node='n1',
    launcher='slurm',
    job='4711_3',
    step='0',
    rank=3,
    size=4,
    pid=4242,
    started=NOW - 100,
    updated=NOW,
    expires=NOW + 90,
    has_figures=True,
    seconds=99.0,
    cpu_seconds=350.5,
    cpu_cores=3.5,
    memory_max=8_000_000_000,
    gpu_memory_max=30_000_000_000,
    gpu_utilization=0.875,
    read=5_000_000,
    written=6_000_000,
)
BEGUN = RANK._replace(
    rank=2,
    has_figures=False,
    seconds=None,
    cpu_seconds=None,
    cpu_cores=None,
    memory_max=None,
    gpu_memory_max=None,
    gpu_utilization=None,
    read=None,
    written=None,
    updated=NOW - 100,
)
UNKNOWN = BEGUN._replace(folder=None, node=None, launcher='', job=None, step=None, rank=None, size=None)
"""A rank of that host that runs."""


def identity(rank: int | None = 3, **differences: object) -> dict[str, Any]:
    """Return the place of a rank in a job of four, as Slurm gives it."""
    usual = {
        'launcher': 'slurm',
        'job': '4711',
        'array_task': None,
        'step': '0',
        'rank': rank,
        'size': 4,
        'local_rank': rank,
        'local_size': 4,
        'node': 'n1',
        'attempt': 0,
    }
    return usual | differences


def totals(**differences: object) -> dict[str, Any]:
    """Return what a rank has used in 100 s, as far as the agent reads it."""
    usual = {
        'seconds': 100.0,
        'cpu': {'combined': [350.0, 4.0]},
        'ram': {'combined': [8_000_000_000, 7_000_000_000, 1_000_000_000]},
        'gpu': {'combined': 30_000_000_000, 'mean_sum': 87.5},
        'io': {'combined': {'bytes': [5_000_000, 6_000_000, 0, 7_000_000, 8_000_000]}},
    }
    return usual | differences


def record(rank: int | None = 3, **differences: object) -> dict[str, Any]:
    """Return the record of a rank that has run for 101 s."""
    usual = {
        'gpu_tracker_job_record': 1,
        'program': 'gpu-tracker 6.0.0',
        'job': identity(rank),
        'host': HOST,
        'machine': MACHINE,
        'pid': 4242,
        'tracker_pid': 4241,
        'pid_namespace': 1,
        'command': ['python', 'train.py', '--password=hunter2'],
        'folder': '/home/alice',
        'started_unix': NOW - 101,
        'updated_unix': NOW,
        'ended': None,
        'exit_code': None,
        'cores': 64,
        'cpus': '0-3',
        'asked': {},
        'interval': 1.0,
        'write_interval': 10.0,
        'units': [],
        'sections': [],
        'recording': 'rank.db',
        'totals': totals(),
    }
    return usual | differences


def write(folder: Path, name: str, content: object) -> Path:
    """Write a file into the folder of a job, whole and by a rename, as ranks do."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    new = folder / '.new'
    new.write_text(content if isinstance(content, str) else json.dumps(content))
    new.rename(path)
    return path
