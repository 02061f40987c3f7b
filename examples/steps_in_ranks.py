"""One rank of a job: some steps, each of which waits for the slowest rank, as a data-parallel training does.

Rank 2 has twice the work in each step. Run one process for each rank::

    GPU_TRACKER_RANK=0 GPU_TRACKER_SIZE=4 python examples/steps_in_ranks.py
"""

import os
import time

import gpu_tracker as gput

RANK = int(os.environ.get('GPU_TRACKER_RANK', '0'))
SLOW_RANK = 2
STEPS = 5
SECONDS = 0.1

batch = bytearray((10 + 10 * RANK) * 1_000_000)

with gput.region('epoch'):
    for _ in range(STEPS):
        with gput.region('step'):
            time.sleep(SECONDS * (2 if RANK == SLOW_RANK else 1))
