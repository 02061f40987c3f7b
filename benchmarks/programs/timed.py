"""A program that takes the time of its own work: timed.py KIND REPETITIONS FILE.

It begins when its standard input has come to its end. Into the file it writes a JSON object: the seconds that the work
has taken, and its CPU seconds.
"""

import json
import mmap
import os
import sys
import threading
import time

_PAGE = 4096
_AREA = 64 * 2**20
_EXCHANGES = 1000


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


def _exec() -> None:
    """Start a program that ends at once, and wait for it."""
    os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)


def _exchange_with_process() -> None:
    """Start a process, and send a byte to it and back, again and again."""
    there, back = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        _send_back(there, back)
        os._exit(0)
    _send_and_wait(there, back)
    os.waitpid(child, 0)
    _close(*there, *back)


def _exchange_with_thread() -> None:
    """Start a thread, and send a byte to it and back, again and again."""
    there, back = os.pipe(), os.pipe()
    thread = threading.Thread(target=_send_back, args=(there, back))
    thread.start()
    _send_and_wait(there, back)
    thread.join()
    _close(*there, *back)


def _send_and_wait(there: tuple[int, int], back: tuple[int, int]) -> None:
    for _ in range(_EXCHANGES):
        os.write(there[1], b'.')
        os.read(back[0], 1)


def _send_back(there: tuple[int, int], back: tuple[int, int]) -> None:
    for _ in range(_EXCHANGES):
        os.write(back[1], os.read(there[0], 1))


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _compute() -> None:
    sum(number * number for number in range(100_000))


def _cpu_seconds() -> float:
    """Return what this process and its children that have ended have used."""
    return sum(os.times()[:4])


_KINDS = {
    'page-faults': _page_faults,
    'forks': _fork,
    'programs': _exec,
    'processes': _exchange_with_process,
    'threads': _exchange_with_thread,
    'computing': _compute,
}

if __name__ == '__main__':
    kind, repetitions, path = sys.argv[1:]
    work = _KINDS[kind]
    sys.stdin.read()
    start, used = time.perf_counter(), _cpu_seconds()
    for _ in range(int(repetitions)):
        work()
    seconds = {'seconds': time.perf_counter() - start, 'cpu': _cpu_seconds() - used}
    with open(path, 'w', encoding='ascii') as file:
        json.dump(seconds, file)
