"""A thread that looks at one GPU again and again: where its driver hangs, only this GPU's figures get old."""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING

from gpu_tracker.atopgpud.counters import REMEMBERED
from gpu_tracker.gpus.model import GpuReading
from gpu_tracker.processes import stat
from gpu_tracker.sampler.grid import Grid

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from gpu_tracker.gpus.model import Gpu

    class GpuMonitor(Protocol):
        """One GPU that is read again and again. A call may hang as long as the driver does."""

        @property
        def gpu(self) -> Gpu:
            """What the GPU is, as far as it is known by now. Replaced whole, never changed."""

        def read(self, *, accounts: bool) -> GpuReading:
            """Read the GPU; never raises because of it, see ``GpuReading.problem``.

            :param accounts: Read what accounting mode has kept too, if it is on.
            """

        def keep_accounts(self) -> str | None:
            """Switch accounting mode on, for longer than this process lives; return why it is not on, else None."""

    Deliver = Callable[[GpuReading, dict[int, float | None]], None]
    """Takes a reading and, by process ID, what distinguishes its processes from others that have had the same ID."""


_REMEMBERED = 4 * REMEMBERED
"""More than the counters remember, so that these never take a process for ended that is only forgotten here."""


_SHORT = 3.0
"""Seconds in which no process ID is given to another process: the kernel goes through all the others first."""


class Watch:
    """Looks at one GPU on a grid of monotonic time.

    :param begin: When the first reading is due, in seconds of monotonic time.
    :param deliver: Called in the thread with each reading.
    :param start_of: Distinguishes a process from others that have had the same ID.
    :param starts: What another watch of the same GPU has known of that, see ``starts``.
    """

    def __init__(
        self,
        monitor: GpuMonitor,
        interval: float,
        begin: float,
        deliver: Deliver,
        start_of: Callable[[int], float | None],
        starts: dict[int, float | None] | None = None,
    ) -> None:
        self._monitor = monitor
        self._begin = begin
        self._grid = Grid(interval)
        self._deliver = deliver
        self._start_of = start_of
        self._starts = starts or {}
        self._listed_at = -math.inf
        self._stop_asked = threading.Event()
        self._will_end = False
        self._decision = threading.Lock()
        self._thread = threading.Thread(target=self._run, name='watch', daemon=True)

    @property
    def starts(self) -> dict[int, float | None]:
        """When the processes of the GPU started, and those that have left it and live on; replaced whole."""
        return self._starts

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more; a look that has begun goes on."""
        self._stop_asked.set()

    def go_on(self) -> bool:
        """Take ``stop`` back, and return whether that could be done: the look that had begun has not ended yet."""
        with self._decision:
            if not self._will_end:
                self._stop_asked.clear()
            return not self._will_end

    def has_ended(self, timeout: float) -> bool:
        """Return whether the last reading has ended, after ``timeout`` seconds at most."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        self._grid.begin(self._begin)
        while not self._decide_to_end():
            activity = self._look()
            if activity.processes is not None:
                self._starts = self._starts_with([process.pid for process in activity.processes])
            if self._decide_to_end():
                return
            self._deliver(activity, self._starts)
            self._grid.go_on(time.monotonic())
            self._stop_asked.wait(max(0.0, self._grid.due - time.monotonic()))

    def _starts_with(self, pids: list[int]) -> dict[int, float | None]:
        """Return the starts of these processes and of those that have left the GPU and live on, these first."""
        known = self._starts
        listed = set(pids)
        gone = [(pid, started) for pid, started in known.items() if pid not in listed and started is not None]
        left = {pid: started for pid, started in gone[-_REMEMBERED:] if self._start_of(pid) == started}
        now = time.monotonic()
        if now - self._listed_at > _SHORT:
            known = {}  # an ID may belong to another process by now
        self._listed_at = now
        return left | {pid: known[pid] if pid in known else self._start_of(pid) for pid in pids}

    def _decide_to_end(self) -> bool:
        with self._decision:
            self._will_end = self._stop_asked.is_set()
            return self._will_end

    def _look(self) -> GpuReading:
        try:
            return self._monitor.read(accounts=True)
        except Exception as error:  # noqa: BLE001 - whatever a driver answers, the next reading is due
            return GpuReading(self._monitor.gpu, problem=f'cannot be read: {type(error).__name__}: {error}')


def start_of(pid: int) -> float | None:
    """Return when a process started, in clock ticks since the machine did.

    None where it has ended or is about to, and where it is not to be seen, in another container or hidden from users.
    """
    try:
        with open(f'/proc/{pid}/stat', 'rb') as file:
            line = file.read()
        return None if stat.is_ending(line) else stat.start(line)
    except (OSError, ValueError):
        return None
