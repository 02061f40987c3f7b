"""A process that starts and stops a tracker again and again, and what is left of that.

Its process prints it::

    export PYTHONPATH=src:tests
    python -m support.repeated_runs 10000
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile

import gpu_tracker as gput

_BEFORE = 10
"""Runs after which all is loaded and every cache is filled."""


def left_after(runs: int) -> dict[str, float]:
    """Return how much more of everything there is after so many runs; objects and bytes are of one run."""
    for _ in range(_BEFORE):
        _run()
    before = _held()
    for _ in range(runs):
        _run()
    found = {name: after - before[name] for name, after in _held().items()}
    return {**found, 'objects': found['objects'] / runs, 'bytes': found['bytes'] / runs}


def _run() -> None:
    with gput.Tracker(disable_logs=True) as tracker, gput.region('step'):
        pass
    str(tracker)
    if len(tracker.regions) != 1:
        raise AssertionError('the region is missing')


def _held() -> dict[str, float]:
    gc.collect()
    with open('/proc/self/statm', encoding='ascii') as file:
        pages = int(file.read().split()[1])
    return {
        'descriptors': len(os.listdir('/proc/self/fd')),
        'threads': len(os.listdir('/proc/self/task')),
        'children': _children(),
        'files': len(os.listdir(tempfile.gettempdir())),
        'objects': len(gc.get_objects()),
        'bytes': pages * os.sysconf('SC_PAGE_SIZE'),
    }


def _children() -> int:
    """Return the number of children, zombies as well."""
    found = 0
    for thread in os.listdir('/proc/self/task'):
        with open(f'/proc/self/task/{thread}/children', encoding='ascii') as file:
            found += len(file.read().split())
    return found


if __name__ == '__main__':
    with tempfile.TemporaryDirectory() as folder:
        os.environ['TMPDIR'] = tempfile.tempdir = folder
        print(left_after(int(sys.argv[1])))
