"""Programs that are hard to measure: what they use is known, but few tools see it.

python hard.py STAGE PROGRAM DELAY [ARGUMENT...]

Each is quiet for ``DELAY`` seconds, has its most memory for a moment, and writes its CPU seconds into a file. If there
is a named pipe STAGE/go, the moment lasts until its page frames have been counted: see ``known.py``.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import known  # type: ignore[import-not-found]  # it lies beside this file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_BLOCK = 100 * known.MEGABYTE
_FORKS = 4
_TEMPORARIES = 25
_TEMPORARY = 4 * known.MEGABYTE
_TAKERS = 8
_TURNS = 5
_THREAD_BLOCK = 150 * known.MEGABYTE
_NAMESPACE_SECONDS = 1.0
_ORPHAN_SECONDS = 0.5
_MAPPED = 120 * known.MEGABYTE
_MAPPERS = 3
_BLOCKS = 8
_SMALL_BLOCK = 50 * known.MEGABYTE

_is_counted = os.path.exists(f'{known.STAGE}/go')


def moved() -> None:
    """Have forked processes move 100 MB of inherited memory: mremap moves a mapping without room to grow."""
    inherited = _private(_BLOCK)
    with _workers(_FORKS, lambda: inherited.resize(2 * _BLOCK)) as pids:
        _at_largest(pids, 0.5)


def temporaries() -> None:
    """Have forked processes allocate and free 4 MB again and again, beside 100 MB that they inherit."""

    def work() -> mmap.mmap:
        for _ in range(_TEMPORARIES):
            _private(_TEMPORARY).close()
        return _private(_TEMPORARY)

    with known.filled(_BLOCK), _workers(_FORKS, work) as pids:
        _at_largest(pids, 0.3)


def turns() -> None:
    """Have eight children take turns with 100 MB each; the parent has the last turn."""
    token, pass_on = os.pipe()
    os.write(pass_on, b'.')

    def work() -> None:
        for _ in range(_TURNS):
            os.read(token, 1)
            _private(_BLOCK).close()
            os.write(pass_on, b'.')

    with _workers(_TAKERS, work) as pids, known.filled(_BLOCK):
        _at_largest(pids, 0)


def first_thread() -> None:
    """Have 150 MB and a forked child in a process whose first thread has ended."""

    def work() -> None:
        time.sleep(0.1)  # until the first thread has ended
        with known.filled(_THREAD_BLOCK), _workers(1, lambda: None) as pids:
            _at_largest(pids, 0.5, threading.get_native_id())
        _tell_cpu_and_end()

    threading.Thread(target=work).start()
    ctypes.CDLL(None).pthread_exit(None)


def namespace() -> float:
    """Use a second of CPU time in a process that dies with its PID namespace; return its CPU seconds."""
    words = ['unshare', '-Urpf', '--mount-proc', sys.executable, __file__, known.STAGE, 'namespace-init', '0']
    return float(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)


def namespace_init() -> None:
    """Be the first process of a PID namespace, and end while a child still runs."""
    output, input_ = os.pipe()

    def work() -> None:
        known.burn(_NAMESPACE_SECONDS)
        os.write(input_, str(time.process_time()).encode())
        signal.pause()

    known.forked(work)
    os.write(1, os.read(output, 20))


def orphan() -> float:
    """Have 100 MB and use CPU time in a program whose parent has ended; return its CPU seconds."""
    output, input_ = os.pipe()
    stay, end = os.pipe()

    def be_parent() -> None:
        subprocess.Popen([sys.executable, __file__, known.STAGE, 'orphan-work', '0'], stdin=stay, stdout=input_)

    os.waitpid(known.forked(be_parent), 0)
    _at_largest([int(os.read(output, 20))], 0.3)
    os.close(end)
    return float(os.read(output, 20))


def orphan_work() -> None:
    """Use memory and CPU time, say so, and stay until the end of the input."""
    with known.filled(_BLOCK):
        known.burn(_ORPHAN_SECONDS)
        os.write(1, str(os.getpid()).encode())
        sys.stdin.read()
    os.write(1, str(time.process_time()).encode())


def shared() -> None:
    """Have three children map the same 120 MB of a memfd for a moment."""
    descriptor = os.memfd_create('hard')
    block = bytes(known.MEGABYTE)
    for _ in range(_MAPPED // known.MEGABYTE):
        os.write(descriptor, block)

    def work() -> mmap.mmap:
        memory = mmap.mmap(descriptor, 0)
        sum(memory[:: mmap.PAGESIZE])
        return memory

    with _workers(_MAPPERS, work) as pids:
        _at_largest(pids, 0.15)


def copies() -> None:
    """Have four forked processes each write to all of 100 MB that they inherit, for a moment."""
    with known.filled(_BLOCK) as inherited, _workers(_FORKS, lambda: known.fill(inherited, _BLOCK)) as pids:
        _at_largest(pids, 0.2)


def blocks(processes: str) -> None:
    """Have children with eight blocks of shared memory in all, of 50 MB each, for a moment."""

    def work() -> list[mmap.mmap]:
        kept = [mmap.mmap(-1, _SMALL_BLOCK) for _ in range(_BLOCKS // int(processes))]
        for memory in kept:
            known.fill(memory, _SMALL_BLOCK)
        return kept

    with _workers(int(processes), work) as pids:
        _at_largest(pids, 0.15)


def child(seconds: str) -> None:
    """Have a child that computes as long as it lives, and has 100 MB in the second half of its life."""

    def work() -> mmap.mmap | None:
        kept, end = None, time.monotonic() + float(seconds)
        while time.monotonic() < end:
            if kept is None and time.monotonic() > end - float(seconds) / 2:
                kept = _private(_BLOCK)
        return kept

    with _workers(1, work) as pids:
        _at_largest(pids, 0)


@contextmanager
def _workers(count: int, work: Callable[[], object]) -> Iterator[Sequence[int]]:
    """Fork processes; when all have done ``work`` they keep its result until the block ends."""
    with known.gate() as wait:
        done, tell_done = os.pipe()

        def work_and_stay() -> None:
            kept = work()
            os.write(tell_done, b'.')
            wait()
            del kept

        pids = [known.forked(work_and_stay) for _ in range(count)]
        for _ in pids:
            os.read(done, 1)
        yield pids
    for pid in pids:
        os.waitpid(pid, 0)


def _at_largest(others: Sequence[int], seconds: float, main: int = 0) -> None:
    """Stay for some seconds, or until the page frames of this process and others have been counted."""
    if _is_counted:
        known.hold([main or os.getpid(), *others])
    else:
        time.sleep(seconds)


def _tell_cpu_and_end(others: float = 0.0) -> NoReturn:
    """Write what this process and its children have used, and ``others``; then use next to nothing."""
    known.tell(cpu=known.cpu_seconds(resource.RUSAGE_SELF) + known.cpu_seconds(resource.RUSAGE_CHILDREN) + others)
    os._exit(0)


def _private(size: int) -> mmap.mmap:
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    known.fill(memory, size)
    return memory


_PROGRAMS: dict[str, Callable[..., float | None]] = {
    'moved': moved,
    'temporaries': temporaries,
    'turns': turns,
    'first-thread': first_thread,
    'namespace': namespace,
    'namespace-init': namespace_init,
    'orphan': orphan,
    'orphan-work': orphan_work,
    'shared': shared,
    'copies': copies,
    'blocks': blocks,
    'child': child,
}

if __name__ == '__main__':
    signal.alarm(known.PATIENCE)
    time.sleep(float(sys.argv[3]))
    used = _PROGRAMS[sys.argv[2]](*sys.argv[4:])
    if not sys.argv[2].endswith(('-init', '-work')):
        _tell_cpu_and_end(used or 0.0)
    os._exit(0)
