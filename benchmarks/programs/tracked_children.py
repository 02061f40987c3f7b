"""A program that has a library track it while it sleeps and then runs a command.

tracked_children.py INTERVAL DELAY RESULT WORD...

Into the file RESULT goes what the library measured, and what is resident in this program in the end, in bytes. With an
interval of 0 the library is imported and not used.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time

import gpu_tracker  # of the environment that this is run in


def main(interval: float, delay: float, result: str, words: list[str]) -> None:
    """Run the command and write down what is known then."""
    known: dict[str, float | None] = {}
    tracked = gpu_tracker.Tracker(sleep_time=interval, ram_unit='bytes', disable_logs=True) if interval else None
    with tracked or contextlib.nullcontext():
        time.sleep(delay)
        subprocess.run(words, check=True)
        known['main'] = _resident()
    if tracked is not None:
        ram = tracked.resource_usage.max_ram
        known |= {'descendants': ram.descendants.total_rss, 'combined': ram.combined.total_rss}
        if hasattr(tracked, 'sampling'):  # the older implementation has none
            known['sampler'] = tracked.sampling.cpu_seconds
    with open(result, 'w', encoding='ascii') as file:
        json.dump(known, file)


def _resident() -> int:
    with open('/proc/self/status', encoding='ascii', errors='replace') as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith('VmRSS:'))


if __name__ == '__main__':  # the older implementation imports this program again in its own process
    main(float(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4:])
