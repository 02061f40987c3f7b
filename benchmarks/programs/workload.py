"""The program that is measured: it builds what its arguments say, writes its pid into a file, and waits for SIGTERM.

    workload.py READY_FILE KIND NUMBER

KIND is ``memory`` (NUMBER megabytes in 4 KB pages), ``idle`` (NUMBER child processes that sleep), ``working`` (NUMBER
child processes that each do a little every 0.1 s), ``forking`` (NUMBER children a second that end at once) or
``threads`` (NUMBER threads that sleep).
"""

import ctypes
import mmap
import os
import random
import signal
import sys
import threading
import time

_MEGABYTE = 10**6
_PAGE = 4096
_PR_SET_PDEATHSIG = 1
_NAP = 0.1
_SMALL_STACK = 65536
_LONGEST_LIFE = 900


def _memory(megabytes: int) -> None:
    """Hold so much memory, each page of it touched; without huge pages, whose map is a five-hundredth as long."""
    pages = megabytes * _MEGABYTE // _PAGE
    area = mmap.mmap(-1, pages * _PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    area.madvise(mmap.MADV_NOHUGEPAGE)
    area[::_PAGE] = b'\1' * pages
    _KEPT.append(area)


def _children(number: int, *, working: bool) -> None:
    libc = ctypes.CDLL(None)
    for _ in range(number):
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            _work() if working else signal.pause()
            os._exit(0)


def _work() -> None:
    time.sleep(random.random() * _NAP)  # noqa: S311 - so that they do not all wake at once
    while True:
        sum(range(500))
        time.sleep(_NAP)


def _fork_steadily(a_second: int) -> None:
    def fork() -> None:
        while True:
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            os.waitpid(pid, 0)
            time.sleep(1 / a_second)

    threading.Thread(target=fork, daemon=True).start()


def _threads(number: int) -> None:
    threading.stack_size(_SMALL_STACK)
    for _ in range(number):
        threading.Thread(target=threading.Event().wait, daemon=True).start()


_KEPT: list[mmap.mmap] = []
_KINDS = {
    'memory': _memory,
    'idle': lambda number: _children(number, working=False),
    'working': lambda number: _children(number, working=True),
    'forking': _fork_steadily,
    'threads': _threads,
}

if __name__ == '__main__':
    ready, kind, number = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    signal.alarm(_LONGEST_LIFE)  # whatever becomes of those who started it
    _KINDS[kind](int(number))
    with open(f'{ready}.new', 'w', encoding='ascii') as file:
        file.write(str(os.getpid()))
    os.replace(f'{ready}.new', ready)
    while True:
        signal.pause()
