"""A program that takes the time of its own work: timed.py KIND REPETITIONS FILE.

Into the file it writes a JSON object: the seconds that the work has taken, and its CPU seconds.
"""

import json
import mmap
import os
import sys
import time

_PAGE = 4096
_AREA = 64 * 2**20


def _page_faults() -> None:
    """Map 64 MB, touch each page of them, and give them back."""
    area = mmap.mmap(-1, _AREA, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    area.madvise(mmap.MADV_NOHUGEPAGE)
    area[::_PAGE] = b'\1' * (_AREA // _PAGE)
    area.close()


def _fork() -> None:
    """Start a process that ends at once, and wait for it."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def _compute() -> None:
    sum(number * number for number in range(100_000))


def _cpu_seconds() -> float:
    """Return what this process and its children that have ended have used."""
    return sum(os.times()[:4])


_KINDS = {'page-faults': _page_faults, 'forks': _fork, 'computing': _compute}

if __name__ == '__main__':
    kind, repetitions, path = sys.argv[1:]
    work = _KINDS[kind]
    start, used = time.perf_counter(), _cpu_seconds()
    for _ in range(int(repetitions)):
        work()
    seconds = {'seconds': time.perf_counter() - start, 'cpu': _cpu_seconds() - used}
    with open(path, 'w', encoding='ascii') as file:
        json.dump(seconds, file)
