"""The training that the documentation's pictures show: it loads, trains and validates, three times.

It computes on the CPU alone. Before each step it prints its process ID, what it does and the number of the step, so
that who starts it can have a simulated GPU do the rest.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import gpu_tracker as gput

EPOCHS = 3
TRAIN_STEPS, VALIDATE_STEPS = 32, 9
BATCH_BYTES = 130_000_000
STEP_SECONDS = 0.1
LOADER = """
import time
pages = bytearray()
for _ in range(14):
    pages += bytes([1]) * 9_000_000
    ends = time.monotonic() + 0.06
    while time.monotonic() < ends:
        sum(range(1000))
    time.sleep(0.04)
"""
"""What each of two workers does: it reads and decodes, and its memory grows."""


def step(phase: str, number: int, busy: float) -> None:
    """Compute for a part of a step, and sleep for the rest of it."""
    print(os.getpid(), phase, number, flush=True)
    begin = time.monotonic()
    while time.monotonic() < begin + busy * STEP_SECONDS:
        sum(range(1000))
    time.sleep(max(0.0, begin + STEP_SECONDS - time.monotonic()))


def main() -> None:
    """Train."""
    batches = bytearray()
    with gput.region('training'):
        for epoch in range(EPOCHS):
            with gput.region('load', epoch=epoch):
                loaders = [subprocess.Popen([sys.executable, '-c', LOADER]) for _ in range(2)]
                number = 0
                while any(loader.poll() is None for loader in loaders):
                    step('load', number, 0.1)
                    number += 1
            batches += bytes([1]) * BATCH_BYTES
            with gput.region('train', epoch=epoch):
                for number in range(TRAIN_STEPS):
                    step('train', number, 0.5)
            with gput.region('validate', epoch=epoch):
                for number in range(VALIDATE_STEPS):
                    step('validate', number, 0.2)


if __name__ == '__main__':
    main()
