"""Tracks itself with one implementation of the interface, and prints how long its start and its stop have taken.

    start_stop.py IMPLEMENTATION INTERVAL SECONDS FOLDER

It prints a JSON object: seconds until start() has returned, until the first sample was complete, and of stop(). All are
counted from before the tracker is made. IMPLEMENTATION is ``older`` or ``this``: the older one says by a time in its
tracking file when its first sample was complete, this one by returning from start().
"""

import csv
import json
import sys
import time
from pathlib import Path
from typing import Any

from gpu_tracker import Tracker

_LINES_ABOVE_THE_SAMPLES = 2


def _first_sample(file: Path) -> float:
    """Return when the first sample in a tracking file was complete."""
    rows = csv.DictReader(file.read_text().splitlines()[_LINES_ABOVE_THE_SAMPLES:])
    return float(next(rows)['timestamp'])


if __name__ == '__main__':
    implementation, interval, seconds, folder = sys.argv[1:]
    samples = Path(folder) / 'samples.csv'
    options: dict[str, Any] = {'tracking_file': str(samples)} if implementation == 'older' else {}
    begin = time.time()
    tracker = Tracker(sleep_time=float(interval), disable_logs=True, **options)
    tracker.start()
    started = time.time()
    time.sleep(float(seconds))
    stopping = time.time()
    tracker.stop()
    stopped = time.time()
    sampled = _first_sample(samples) if options else started
    print(json.dumps({'start': started - begin, 'first sample': sampled - begin, 'stop': stopped - stopping}))
