"""One rank of a job: it waits for the other ranks, and then takes five steps.

Rank 2 has twice the work in each step. Run one process for each rank, in one folder::

    GPU_TRACKER_RANK=0 GPU_TRACKER_SIZE=4 python examples/steps_in_ranks.py
"""

import os
import time
from pathlib import Path

import gpu_tracker as gput

RANK = int(os.environ.get('GPU_TRACKER_RANK', '0'))
SIZE = int(os.environ.get('GPU_TRACKER_SIZE', '1'))
SLOW_RANK = 2
STEPS = 5
SECONDS = 0.1
STARTED = Path('ranks-started')
"""Has one byte for each rank that has started."""


def wait_for_all() -> None:
    """Block until all ranks have started, like a barrier of MPI."""
    with STARTED.open('ab') as started:
        started.write(b'.')
        started.flush()
        runs_before = (started.tell() - 1) // SIZE
    while STARTED.stat().st_size < (runs_before + 1) * SIZE:
        time.sleep(0.01)


batch = bytearray((10 + 10 * RANK) * 1_000_000)
wait_for_all()

with gput.region('epoch'):
    for _ in range(STEPS):
        with gput.region('step'):
            time.sleep(SECONDS * (2 if RANK == SLOW_RANK else 1))
