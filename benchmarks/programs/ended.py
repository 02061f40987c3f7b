"""Tracks a command, and prints what was measured of its descendants beside what is true, as JSON.

``ended.py MEGABYTES COMMAND...``: this process has so much memory itself. The command is waited for, and so is the CPU
time that it tells of its own; where it prints a number, that is the CPU time of its descendants.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

import gpu_tracker as gput

kept = bytearray(b'\1') * (int(sys.argv[1]) * 1_000_000)
before = resource.getrusage(resource.RUSAGE_CHILDREN)
begun = time.monotonic()
with gput.Tracker(sleep_time=1, time_unit='seconds', ram_unit='bytes') as tracker:
    output = subprocess.run(sys.argv[2:], stdout=subprocess.PIPE, check=True).stdout
seconds = time.monotonic() - begun
after = resource.getrusage(resource.RUSAGE_CHILDREN)
usage, sampling = tracker.resource_usage, tracker.sampling
waited_for = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
print(
    json.dumps(
        {
            'measured': (usage.cpu_utilization.descendants.mean_sum_percent or 0) / 100 * usage.compute_time.time,
            'waited for': waited_for,
            'known': float(output or 0),
            'peak': usage.max_ram.descendants.total_rss or 0.0,
            'sampler': sampling.cpu_seconds,
            'seconds': seconds,
            'ends': float(getattr(sampling, 'exit_records', None) or 0),
        }
    )
)
