"""Programs of which it is known what they use: each is run by a tool that measures it, and tells the truth.

python known.py STAGE PROGRAM [ARGUMENT...]

What is true goes as lines of JSON into the named pipe STAGE/told. Where only somebody else can find it out, the program
names its processes there, holds still, and goes on when a line comes from the named pipe STAGE/go.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import resource
import select
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MEGABYTE = 1_000_000
_CHILDREN = 200
_CHILD_SECONDS = 0.02
_SPIKE = 500 * MEGABYTE
_SPIKE_SECONDS = 0.1
_ARRAY = 200 * MEGABYTE
_ARRAYS = 5
_MEASURED_SECONDS = 2
_INHERITED = 300 * MEGABYTE
_REWRITTEN = 25 * MEGABYTE
_OWN = 50 * MEGABYTE
_FORKS = 4
_SHARED = 300 * MEGABYTE
_DAEMON = 200 * MEGABYTE
_DAEMON_SECONDS = 0.5
_FOREIGN = 200 * MEGABYTE
PATIENCE = 60  # seconds after which a process ends that nobody lets go on

STAGE = sys.argv[1]


def children() -> None:
    """Wait for 200 children, one after the other, of 20 ms of CPU time each."""
    for _ in range(_CHILDREN):
        os.waitpid(forked(lambda: burn(_CHILD_SECONDS)), 0)
    own = cpu_seconds(resource.RUSAGE_SELF)
    tell(cpu=own + cpu_seconds(resource.RUSAGE_CHILDREN))


def spike(delay: str) -> None:
    """Have 500 MB for a tenth of a second, ``delay`` seconds after the start."""
    time.sleep(float(delay))
    with filled(_SPIKE):
        time.sleep(_SPIKE_SECONDS)
    time.sleep(1)
    tell(peak=status('VmHWM'))


def arrays(library: str, interval: str) -> None:
    """Have 5 arrays of 200 MB, and only then have a library measure this process for some seconds.

    Between the arrays something else is mapped, as programs do that load their libraries meanwhile. Otherwise the
    kernel makes one mapping of all.

    :param library: The library's name for importing it; empty where a tool is attached from outside.
    """
    kept: list[object] = []
    with open(sys.executable, 'rb') as file:
        for _ in range(_ARRAYS):
            kept += [_filled_array(), mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)]
    if not library:
        hold([])
        return
    report = _measure_with_memory_profiler if library == 'memory_profiler' else _measure_with_gpu_tracker
    said, true = report(float(interval))
    tell(said=said, peak=true)


def _filled_array() -> bytearray:
    return bytearray(b'\1') * _ARRAY


def _measure_with_gpu_tracker(interval: float) -> tuple[float, int]:
    """Return what the library says and what is resident while it measures, in bytes."""
    import gpu_tracker  # noqa: PLC0415 - of the environment that this is run in

    with gpu_tracker.Tracker(sleep_time=interval, ram_unit='bytes', disable_logs=True) as tracker:
        time.sleep(_MEASURED_SECONDS)
        true = status('VmRSS')
    return float(tracker.resource_usage.max_ram.main.total_rss or 0), true


def _measure_with_memory_profiler(interval: float) -> tuple[float, int]:
    import memory_profiler  # type: ignore[import-not-found]  # noqa: PLC0415 - of the environment that this is run in

    mebibytes = memory_profiler.memory_usage(-1, interval=interval, timeout=_MEASURED_SECONDS, max_usage=True)
    return float(mebibytes) * 2**20, status('VmRSS')


def fork_tree() -> None:
    """Have 4 forked children with what they inherit, of which each rewrites a part, and memory of their own."""
    with filled(_INHERITED) as inherited, gate() as wait:
        ready, tell_ready = os.pipe()

        def work() -> None:
            fill(inherited, _REWRITTEN)
            with filled(_OWN):
                os.write(tell_ready, b'\n')
                wait()

        pids = [forked(work) for _ in range(_FORKS)]
        for _ in pids:
            os.read(ready, 1)
        hold([os.getpid(), *pids])
    for pid in pids:
        os.waitpid(pid, 0)


def shared_memory(kind: str) -> None:
    """Have two programs map the same 300 MB, which are no relatives by fork but started on their own.

    :param kind: ``shm``, ``memfd`` or ``file``.
    """
    with _memory_file(kind) as (descriptor, path):
        block = bytes(MEGABYTE)
        for _ in range(_SHARED // MEGABYTE):
            os.write(descriptor, block)
        mappers = [
            subprocess.Popen(
                [sys.executable, __file__, STAGE, 'mapper', path or str(descriptor)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=() if path else (descriptor,),
            )
            for _ in range(2)
        ]
        for mapper in mappers:
            assert mapper.stdout is not None  # noqa: S101 - for the type checker
            mapper.stdout.readline()
        hold([os.getpid(), *(mapper.pid for mapper in mappers)])
        for mapper in mappers:
            mapper.communicate()


def mapper(path: str) -> None:
    """Map a file, read all of it, say so, and stay until the end of the input."""
    signal.alarm(PATIENCE)
    descriptor = int(path) if path.isdecimal() else os.open(path, os.O_RDWR)
    with mmap.mmap(descriptor, 0) as memory:
        sum(memory[:: mmap.PAGESIZE])
        os.write(1, b'ready\n')
        sys.stdin.read()


def daemon() -> None:
    """Make a daemon in the classical way, with two forks and a session of its own, that has memory and uses CPU."""
    born, tell_born = os.pipe()
    with gate() as wait:

        def become_daemon() -> None:
            os.setsid()
            forked(work)

        def work() -> None:
            null = os.open(os.devnull, os.O_RDWR)
            for descriptor in range(3):
                os.dup2(null, descriptor)
            with filled(_DAEMON):
                burn(_DAEMON_SECONDS)
                os.write(tell_born, f'{os.getpid()}\n'.encode())
                wait()

        os.waitpid(forked(become_daemon), 0)
        pid = int(os.read(born, 20))
        hold([os.getpid(), pid], waited_for=cpu_seconds(resource.RUSAGE_CHILDREN))
        os._exit(0)  # the daemon sees that its gate opens, and ends as well


def other_user(program: str) -> None:
    """Start a ``dd`` that has 200 MB and runs as another user, as its set-user-ID bit says."""
    output, input_ = os.pipe()
    with subprocess.Popen(
        [program, 'if=/dev/zero', f'bs={_FOREIGN}', 'count=1', 'status=none'], stdout=input_
    ) as process:
        os.close(input_)
        select.select([output], [], [], PATIENCE)  # it writes when it has read all
        hold([os.getpid(), process.pid])
        os.close(output)


def tell(**truth: object) -> None:
    """Write what is true."""
    with open(f'{STAGE}/told', 'w', encoding='ascii') as pipe:
        pipe.write(json.dumps(truth) + '\n')


def hold(pids: Iterable[int], **truth: object) -> None:
    """Name processes, and wait until somebody has looked at them."""
    tell(hold=list(pids) or [os.getpid()], **truth)
    with open(f'{STAGE}/go', encoding='ascii') as pipe:
        pipe.readline()


def forked(work: Callable[[], object]) -> int:
    """Fork a process that does ``work`` and ends; return its pid."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(PATIENCE)
        _work_and_end(work)
    return pid


def _work_and_end(work: Callable[[], object]) -> NoReturn:
    try:
        work()
    finally:
        os._exit(0)


@contextlib.contextmanager
def gate() -> Iterator[Callable[[], None]]:
    """Give what forked processes call to wait until the block ends, or the process that is in it."""
    closed, go = os.pipe()

    def wait() -> None:
        os.close(go)
        os.read(closed, 1)

    yield wait
    os.close(go)


def burn(seconds: float) -> None:
    """Use CPU time until this process has used so much."""
    while time.process_time() < seconds:
        pass


@contextlib.contextmanager
def filled(size: int) -> Iterator[mmap.mmap]:
    """Have private memory in which every page is written to."""
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        fill(memory, size)
        yield memory


def fill(memory: mmap.mmap, size: int) -> None:
    """Write to every page of the first ``size`` bytes."""
    memory[: size : mmap.PAGESIZE] = bytes(len(range(0, size, mmap.PAGESIZE)))


@contextlib.contextmanager
def _memory_file(kind: str) -> Iterator[tuple[int, str | None]]:
    """Give an open file for memory and its path, where it has one."""
    if kind == 'memfd':
        descriptor, path = os.memfd_create('truth'), None
    else:
        path = f'/dev/shm/gpu-tracker-truth-{os.getpid()}' if kind == 'shm' else f'{STAGE}/mapped'  # noqa: S108 - POSIX shm
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        yield descriptor, path
    finally:
        os.close(descriptor)
        if path is not None:
            os.unlink(path)


def cpu_seconds(who: int) -> float:
    """Return the CPU time that getrusage(2) reports."""
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def status(field: str) -> int:
    """Return a field of this process' status in bytes."""
    with open('/proc/self/status', encoding='ascii', errors='replace') as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f'{field}:'))


_PROGRAMS: dict[str, Callable[..., None]] = {
    'children': children,
    'spike': spike,
    'arrays': arrays,
    'fork-tree': fork_tree,
    'shared-memory': shared_memory,
    'mapper': mapper,
    'daemon': daemon,
    'other-user': other_user,
}

if __name__ == '__main__':
    signal.alarm(PATIENCE)
    _PROGRAMS[sys.argv[2]](*sys.argv[3:])
