"""The folder of a job, as its ranks fill it and as it is merged."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from support.engines.slurm_cluster import SlurmCluster

GPU_TRACKER = (sys.executable, '-m', 'gpu_tracker')

# Ranks signal by files in the folder where they were started: no two have the same name.
RANK_PROGRAM = """
import os, pathlib, signal, sys, time
rank = os.environ['SLURM_PROCID']

def there(name):
    pathlib.Path(name).touch()

def wait_for(name):
    while not os.path.exists(name):
        time.sleep(0.01)

def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
"""
"""What the programs of ranks begin with."""


def tracked(program: str, *options: str) -> list[str]:
    """Return the words that run a rank's program in Python under gpu-tracker."""
    return [*GPU_TRACKER, *options, '--', sys.executable, '-c', RANK_PROGRAM + program]


def merged(cluster: SlurmCluster, folder: Path) -> dict[str, Any]:
    """Return the merged report of a job's folder, made on the cluster."""
    finished = cluster.run(*GPU_TRACKER, 'merge', str(folder), '--format=json')
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


def by_rank(report: dict[str, Any], field: str) -> dict[int, Any]:
    """Return a field of each rank of a merged report in which no rank stands twice."""
    found = {rank['rank']: rank[field] for rank in report['ranks']}
    assert len(found) == len(report['ranks'])
    return found


def states(report: dict[str, Any]) -> dict[str, int]:
    """Return how many ranks are in each state of a merged report, without those that none is in."""
    return {state: count for state, count in report['states'].items() if count}
