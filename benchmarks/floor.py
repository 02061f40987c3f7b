"""The floor: what reading the same files costs a C program that does nothing else."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import uuid
from pathlib import Path

from benchmarks.compiling import compiled
from benchmarks.running import Workload, fresh_folder, started, wait_until_ready
from benchmarks.session import FailedError

NAME = 'floor'
_SOURCE = Path(__file__).resolve().parent / 'floor.c'
_LINE = re.compile(r'samples (\d+) cpu_seconds ([\d.]+)')


def floor_cost(workload: Workload, interval: float) -> dict[str, float]:
    """Return the CPU seconds a sample of the workload."""
    program = str(compiled(NAME, [_SOURCE]))
    with fresh_folder() as folder:
        ready = folder / 'ready'
        with started(workload.words(ready), folder, dict(os.environ), uuid.uuid4().hex) as command:
            root = wait_until_ready(ready, command, folder)
            words = [program, f'{interval:g}', f'{workload.window:g}', str(root)]
            try:
                printed = subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(root, signal.SIGTERM)
            command.wait(60)
    line = _LINE.search(printed)
    if line is None:
        raise FailedError(f'floor has printed {printed!r}')
    return {'cpu a sample': float(line[2]) / int(line[1])}
