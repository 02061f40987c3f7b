"""What a reading of the GPUs costs a run's sampler, here and in an earlier revision, in turn.

Usage:
    gpu_reading [--gpus=N] [--processes=N] [--rounds=N] [--against=REVISION]

It is run as python -m benchmarks.gpu_reading in the checkout, where the group test is installed.

Options:
    --gpus=N              GPUs of the simulated driver [default: 8].
    --processes=N         Processes on them; half are tracked [default: 64].
    --rounds=N            Readings in turn; the medians are printed [default: 6].
    --against=REVISION    The earlier revision [default: HEAD].
    -h --help             Show this text.

The simulated driver reads its state once, so most of the time is that of gpu-tracker and nvidia-ml-py.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from docopt import docopt

from benchmarks import simulated_driver
from benchmarks.before import put_files_there
from benchmarks.environments import CHECKOUT
from benchmarks.peers import BEFORE

_PROGRAM = """
import json, sys, time
from gpu_tracker.gpus.opening import open_gpus
from gpu_tracker.resources.gpu.figures import GpuFigures

backend = open_gpus()
figures = GpuFigures(backend, None, in_initial_pid_namespace=True)
pids = json.loads(sys.argv[1])
for _ in range(3):
    figures.read(pids[0], frozenset(pids[1:]), 0)
begun = time.process_time()
for _ in range(20):
    figures.read(pids[0], frozenset(pids[1:]), 0)
    figures.totals()
print((time.process_time() - begun) / 20)
"""
_MICRO = 1e6
_LEAST_PID = 1000


def main(arguments: list[str]) -> None:
    """Measure, and print both medians and their ratio."""
    options = docopt(__doc__, arguments)
    revision = put_files_there(options['--against'])
    count, processes = int(options['--gpus']), int(options['--processes'])
    pids = list(range(_LEAST_PID, _LEAST_PID + processes))
    simulated = simulated_driver.load()
    sources = {'here': CHECKOUT / 'src', revision: Path(BEFORE.folder) / 'src'}
    library = {'LD_LIBRARY_PATH': str(simulated_driver.kept_library().parent)}
    seconds: dict[str, list[float]] = {name: [] for name in sources}
    with tempfile.TemporaryDirectory() as folder:
        driver = simulated.SimulatedDriver(Path(folder))
        on_each = [simulated.Process(pid, memory=1 << 20, sm=1) for pid in pids]
        driver.write(
            gpus=[
                simulated.Gpu(total=1 << 40, used=1 << 30, util=50, processes=on_each[n::count]) for n in range(count)
            ]
        )
        for _ in range(int(options['--rounds'])):
            for name, source in sources.items():
                environment = {**os.environ, **driver.environment(), **library, 'PYTHONPATH': str(source)}
                words = [sys.executable, '-c', _PROGRAM, json.dumps(pids[::2])]
                printed = subprocess.run(words, env=environment, check=True, capture_output=True, text=True).stdout
                seconds[name].append(float(printed))
    lines = [
        f'{name:<12} {statistics.median(found) * _MICRO:8.0f} µs of CPU: {count} GPUs, {processes} processes'
        for name, found in seconds.items()
    ]
    ratio = statistics.median(ours / theirs for ours, theirs in zip(*seconds.values(), strict=True))
    sys.stdout.write('\n'.join([*lines, f'ratio        {ratio:8.2f}', '']))


if __name__ == '__main__':
    main(sys.argv[1:])
