"""A rank of a job, which mostly waits: steps.py SECONDS. Each tenth of a second is a step, and a region."""

import sys
import time

import gpu_tracker as gput

SECONDS = float(sys.argv[1])
STEP = 0.1

with gput.region('epoch'):
    for _ in range(round(SECONDS / STEP)):
        with gput.region('step'):
            time.sleep(STEP)
