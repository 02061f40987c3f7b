"""A stand-in for a training: three workers load, compute and save in epochs. The last one is killed midway.

python examples/train_in_regions.py [SIZE]: SIZE is the memory of a worker's batch in MB, 50 by default.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import gpu_tracker as gput

EPOCHS = 2
WORKERS = 3
SECONDS_OF_A_STEP = 0.1


@gput.region
def load(megabytes: int) -> bytearray:
    """Make a batch of that size."""
    return bytearray(os.urandom(1 << 20) * megabytes)


def compute(batch: bytearray) -> int:
    """Use one core for a while."""
    ends = time.monotonic() + SECONDS_OF_A_STEP
    total = 0
    while time.monotonic() < ends:
        total += sum(batch[:10_000])
    return total


def train(number: int, megabytes: int) -> None:
    """Train in one worker; the last one is killed in its second epoch."""
    for epoch in range(EPOCHS):
        with gput.region('epoch', worker=number, epoch=epoch):
            batch = load(megabytes)
            for _ in range(2):
                with gput.region('step'):
                    compute(batch)
            if number == WORKERS - 1 and epoch == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            with gput.region('save'):
                time.sleep(0.02)


def main() -> None:
    """Start the workers, each a program of its own, and wait for them."""
    megabytes = sys.argv[1] if len(sys.argv) > 1 else '50'
    with gput.region('training'):
        command = [sys.executable, __file__, megabytes]
        workers = [subprocess.Popen([*command, str(number)]) for number in range(WORKERS)]
        codes = [worker.wait() for worker in workers]
    print('workers ended with', *codes)


if __name__ == '__main__':
    if len(sys.argv) > 2:  # noqa: PLR2004 - the size, and the number of the worker that this process is
        train(int(sys.argv[2]), int(sys.argv[1]))
    else:
        main()
