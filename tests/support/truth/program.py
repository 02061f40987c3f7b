"""What programs use that are started by tests to track themselves."""

from __future__ import annotations

import json
import mmap
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, NoReturn

import gpu_tracker as gput
from support.truth import seconds_of, status

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    'MEGABYTE', 'burn', 'child', 'eventually', 'fill', 'frames', 'gate', 'gput', 'has_ended',
    'memory_in_huge_pages', 'pipe', 'report', 'settle', 'spike', 'status', 'totals', 'union_of_frames', 'until',
    'wait_for_split',
]  # fmt: skip

MEGABYTE = 1_000_000
TIMEOUT = 250  # below that of the test, whose failure would have no reason


def burn(seconds: float) -> None:
    """Use CPU time of this process."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def fill(size: int) -> bytearray:
    """Return memory in which every page is written to."""
    return bytearray(b'\1') * size


def spike() -> None:
    """Have 500 MB for a tenth of a second."""
    size = 500 * MEGABYTE
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as block:
        block[:: mmap.PAGESIZE] = bytes(len(range(0, size, mmap.PAGESIZE)))
        time.sleep(0.1)


def eventually(condition: Callable[[], Any]) -> Any:
    """Return the first true value of ``condition``."""
    deadline = time.monotonic() + TIMEOUT
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.005)
    return value


def union_of_frames(pids: list[int]) -> int:
    """Ask the test for the bytes of distinct physical pages that processes have mapped."""
    os.write(1, f'union {" ".join(map(str, pids))}\n'.encode())
    answer = b''
    while not answer.endswith(b'\n'):
        answer += os.read(0, 100)
    return int(answer)


def frames(descendants: list[int]) -> dict[str, int]:
    """Ask the test for the physical pages of this process, of descendants, and of all of them."""
    main = os.getpid()
    return {
        'main': union_of_frames([main]),
        'descendants': union_of_frames(descendants),
        'combined': union_of_frames([main, *descendants]),
    }


def memory_in_huge_pages() -> int:
    """Return the bytes of this process that lie in transparent huge pages."""
    with open('/proc/self/smaps_rollup', encoding='ascii') as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith('AnonHugePages:'))


def has_ended(pid: int) -> bool:
    """Tell whether a process has ended, waited for or not."""
    try:
        with open(f'/proc/{pid}/stat', encoding='ascii', errors='replace') as line:
            return line.read().rpartition(')')[2].split()[0] == 'Z'
    except (FileNotFoundError, ProcessLookupError):  # the second where it ends between the opening and the reading
        return True


def totals(tracker: gput.Tracker) -> dict[str, Any]:
    """Return what the sampler has published last."""
    return tracker._run.session.evidence() or {}


def until(tracker: gput.Tracker, condition: Callable[[dict[str, Any]], Any]) -> None:
    """Wait until the sampler has seen something."""
    try:
        eventually(lambda: condition(totals(tracker)))
    except TimeoutError:
        message = f'never seen; last: {totals(tracker)}'
        raise TimeoutError(message) from None


def wait_for_split(tracker: gput.Tracker) -> None:
    """Wait until the sampler has sampled again, and has read the exact split at some time."""
    samples = totals(tracker)['samples']
    until(tracker, lambda seen: seen['samples'] > samples + 1 and seen['ram']['combined'][1] is not None)


def settle(tracker: gput.Tracker, interval: float) -> None:
    """Wait until all that is there has been there for three samples, and no reading of pages waits for its budget."""
    before, begun = totals(tracker)['samples'], time.monotonic()

    def has_settled(seen: dict[str, Any]) -> bool:
        is_sampled = seen['samples'] > before + 3 and time.monotonic() > begun + 3.1 * interval
        return is_sampled and 'budget' not in seen['ram']['reasons']

    until(tracker, has_settled)


def pipe(said: int = 0) -> tuple[Callable[[], object], Callable[..., object]]:
    """Return what waits until somebody has said something, and what says it, several times where that is asked for.

    :param said: How often it has been said already.
    """
    hear, say = os.pipe()
    os.write(say, bytes(said))
    return lambda: os.read(hear, 1), lambda times=1: os.write(say, bytes(times))


def gate() -> tuple[Callable[[], object], Callable[[], object]]:
    """Return what children call to wait, and what the parent calls to let all of them go on."""
    hold, go = os.pipe()
    return lambda: os.read(hold, 1), lambda: os.write(go, bytes(1000))


def child(work: Callable[[], object]) -> int:
    """Fork a process that does ``work`` and ends; return its pid."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(TIMEOUT)
        _work_and_end(work)
    return pid


def _work_and_end(work: Callable[[], object]) -> NoReturn:
    try:
        work()
        os._exit(0)
    except BaseException as error:  # noqa: BLE001 - the copy of the program must not go on as its parent
        os.write(2, f'{error!r}\n'.encode())
        os._exit(1)


def report(tracker: gput.Tracker, **truth: object) -> None:
    """Print the result in base units, and what is true."""
    usage = tracker.to_json()
    sampled = tracker._run.totals['seconds']  # from the first sample to the last, which may be late on a busy machine
    found = {
        'usage': usage,
        'cpu': seconds_of(usage, sampled),
        'ram': usage['max_ram'],
        'marked': dict(tracker.sampling.lower_bounds),
    }
    sys.stdout.write(json.dumps({**found, **truth}) + '\n')
