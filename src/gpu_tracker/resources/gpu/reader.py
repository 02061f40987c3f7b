"""GPUs, read in a thread of their own: a driver that hangs delays nothing else.

The thread alone calls the driver for these figures, the opening included. It publishes them whole, by assignment, and
the sampler's loop takes the latest ones without waiting for it.
"""

from __future__ import annotations

import threading
import time
from collections import deque

from gpu_tracker.background import Poll
from gpu_tracker.errors import GpuError
from gpu_tracker.gpus import process_ids
from gpu_tracker.resources.gpu.figures import NO_GPUS, UNKNOWN, GpuFigures, unknown_uuids, without_the_last

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpu_tracker.gpus.backend import RunGpus
    from gpu_tracker.gpus.model import Gpu
    from gpu_tracker.resources import DeviceReading

_SHORTEST_INTERVAL = 0.1
"""Seconds; drivers renew their figures no more than ten times a second, and asking costs the GPU's work time."""

_LIMIT = 2.0
"""Seconds after which a call that has not returned is reported."""

_BETWEEN_POLLS = 1.0
"""Seconds between two polls of the utilization of GPUs whose driver keeps no samples."""

_INTERVALS = 2
"""Intervals without a reading at the end of a run after which its figures miss something."""
_ROUNDING = 1e-3
"""Seconds by which a thread may wake too early."""

_COLUMNS = 6
"""The length of a row."""

_MOST_DEVICE_READINGS = 1024
"""Readings of single GPUs that wait for being recorded; most runs are not."""
_SILENT = f'has not answered for {_LIMIT:g} s; GPU figures are unknown, or lower bounds, until it does.'
_ANSWERED_LATE = f'took more than {_LIMIT:g} s to answer; GPU figures of that time are unknown.'
_NOT_YET = 'had not answered yet when the run ended; GPU figures are unknown.'
_NO_GPUS_ROW = (0, 0, 0, 0, 0.0, 0.0)
_NO_THREAD = 'The GPUs cannot be read, because no thread can be started here: their figures are unknown.'
_NO_DRIVER = 'No GPU driver is at work on this machine: GPU figures are 0.'
_INTEGRATED_ONLY = (
    'This machine has no GPU with memory of its own: GPU figures are 0 unless a tracked process has memory on an '
    'integrated one.'
)


class GpuReader:
    """Reads the GPUs at steady intervals in a daemon thread.

    :param open_backend: Opens the driver; None where the machine has none (see ``gpu_tracker.gpus.opening.BACKENDS``).
    :param interval: Seconds between two readings, at least 0.1 in effect.
    :param uuids: The GPUs whose utilization is summed; None for all.
    :param monotonic: The clock of the readings, in seconds.
    :param wall_clock: Seconds since 1970, which the time stamps of utilization samples are compared to.
    :param in_initial_pid_namespace: Whether the driver's process IDs are certainly ours; None: find out.
    :param pid_exists: Returns whether there is a process of an ID.
    :param most_share: CPU seconds a second that the readings may cost at most; None: no limit.
    :param counts_integrated: Whether integrated GPUs count in any case (see ``gpu.figures``).
    :param absence: Returns why there is no driver, which is then a warning; None: nobody has asked for a GPU.
    :param visible: Returns the UUIDs of the GPUs that the run can use, if something restricts them; else none.
    :ivar error: What ``uuids`` would have to be, known after ``wait``; None where nothing is wrong with them.
    :ivar by_process: Bytes of each tracked process at the last reading, see ``GpuFigures.by_process``.
    """

    error: str | None
    by_process: dict[int, int | None] | None

    def __init__(
        self,
        open_backend: Callable[[], RunGpus | None],
        interval: float,
        uuids: tuple[str, ...] | None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        in_initial_pid_namespace: bool | None = None,
        pid_exists: Callable[[int], bool] = process_ids.pid_exists,
        most_share: float | None = None,
        counts_integrated: bool = False,
        absence: Callable[[], str] | None = None,
        visible: Callable[[Sequence[Gpu]], frozenset[str]] = lambda _: frozenset(),
    ) -> None:
        self.error = None
        self._visible = visible
        self._absence = absence
        self._open_backend = open_backend
        self._interval = max(interval, _SHORTEST_INTERVAL)
        self._uuids = uuids
        self._monotonic = monotonic
        self._wall_clock = wall_clock
        if in_initial_pid_namespace is None:
            in_initial_pid_namespace = process_ids.in_initial_pid_namespace()
        self._in_initial_pid_namespace = in_initial_pid_namespace
        self._pid_exists = pid_exists
        self._most_share = most_share
        self._counts_integrated = counts_integrated
        self._is_complete = True
        self._charged = 0.0
        self._members: tuple[int | None, frozenset[int]] = (None, frozenset())
        self._since_us: int | None = None
        self._published = UNKNOWN
        self._row: tuple[float | None, ...] = (None,) * _COLUMNS
        self.by_process: dict[int, int | None] | None = None
        self._devices: deque[DeviceReading] = deque(maxlen=_MOST_DEVICE_READINGS)
        self._messages: deque[tuple[str, str]] = deque()
        self._doubt: str | None = None
        self._figures: GpuFigures | None = None
        self._start = 0.0
        self._next_reading = 0.0
        self._read_at = monotonic()
        self._is_answered = threading.Event()
        self._is_last = threading.Event()
        self._poll = Poll(self._work, 'gpu-source', limit=_LIMIT, clock=monotonic)

    def start(self) -> None:
        """Start the thread; return at once."""
        try:
            self._poll.start()
        except RuntimeError:  # a limit on processes, which counts threads
            self._messages.append(('warning', _NO_THREAD))
            self._is_answered.set()

    def wait(self, timeout: float) -> bool:
        """Wait for the first reading. The run begins when this returns: earlier utilization is not counted.

        :param timeout: Seconds to wait at most.
        :return: Whether the first reading is complete, or it is known that there is no driver or that it does not work.
        """
        is_answered = self._is_answered.wait(timeout)
        if self._since_us is None:
            self._since_us = int(self._wall_clock() * 1e6)
        return is_answered

    def follow(self, main: int | None, descendants: frozenset[int]) -> None:
        """Say which processes are the root and its descendants, from the next reading on."""
        self._members = (main, descendants)

    def request_last(self) -> None:
        """Ask for one last reading."""
        self._is_last.set()
        self._poll.wake()

    def wait_for_last(self, timeout: float) -> None:
        """Wait for the last reading, which was requested.

        :param timeout: Seconds to wait at most; those that a call under way has taken already count, so that a driver
            that is known to hang delays nothing.
        """
        if self._poll.has_ended(timeout):
            return
        if not self._is_answered.is_set():
            self._report_delay(_SILENT if self._poll.is_overdue else _NOT_YET)
        elif self._poll.is_overdue:
            self._report_delay(_SILENT)
        elif self._doubt is not None:  # the reading before was the last one, for the result
            self._messages.append(('warning', self._doubt))

    @property
    def most_memory(self) -> int | None:
        """The most bytes of GPU memory that all tracked processes had together; None: unknown."""
        most = self._published['combined']
        return most if isinstance(most, int) else None

    def totals(self) -> dict[str, object]:
        """Return the figures so far: see ``GpuFigures.totals``. Never waits for the driver."""
        return without_the_last(self._published) if self._is_last_missing else dict(self._published)

    @property
    def _is_last_missing(self) -> bool:
        """Whether the driver has been silent for so long that the published figures miss a part of the run."""
        if not self._is_last.is_set() or self._poll.has_ended(0) or self._figures is None:
            return self._poll.is_overdue
        return self._monotonic() - self._read_at > _INTERVALS * self._interval + _SHORTEST_INTERVAL

    def row(self) -> tuple[float | None, ...]:
        """Return the figures of the last reading: see ``GpuFigures.row``. Never waits for the driver."""
        return self._row

    def take_devices(self) -> list[DeviceReading]:
        """Return what single GPUs had at readings that were not taken yet."""
        return [self._devices.popleft() for _ in range(len(self._devices))]

    def leave_out(self, problem: str) -> None:
        """Note, while the drivers are opened, that the GPUs of one are not known: then no sum over all GPUs is.

        :param problem: Why, as a sentence.
        """
        self._is_complete = False
        self._messages.append(('warning', problem))

    def charge(self, seconds: float) -> None:
        """Count CPU seconds that other threads have used for the readings."""
        self._charged += seconds

    def take_messages(self) -> list[tuple[str, str]]:
        """Return what is to be reported and was not taken yet: ('info' or 'warning', text), once for each cause."""
        if self._poll.is_overdue:
            self._report_delay(_SILENT)
        messages = []
        while self._messages:
            messages.append(self._messages.popleft())
        return messages

    def _report_delay(self, silence: str) -> None:
        if self._poll.report_once():
            self._messages.append(('warning', f'The GPU driver {silence}'))

    def _work(self) -> float | None:
        """Open the driver or, where it is open, read once.

        :returns: Seconds until this is due again; None: no more.
        """
        try:
            if self._figures is None:
                self._figures = self._open()
                self._start = self._monotonic()
                if self._figures is not None:
                    return 0.0
                pause = None
            else:
                pause = self._read(self._figures)
        except GpuError as error:
            self._give_up(str(error))
            pause = None
        except Exception as error:  # noqa: BLE001 - a thread that ended in silence would look like a driver that hangs
            what = f'{type(error).__name__}: {error}'
            self._give_up(f'The GPUs can no longer be read ({what}); their figures are unknown, or lower bounds.')
            pause = None
        self._is_answered.set()
        return pause

    def _give_up(self, problem: str) -> None:
        """Report why there is no other reading: figures so far miss the rest of the run."""
        self._messages.append(('warning', problem))
        self._published = without_the_last(self._published)
        self._row = (None,) * _COLUMNS
        self.by_process = None

    def _open(self) -> GpuFigures | None:
        """Return what folds the readings, None where there is nothing to be read."""
        backend = self._open_backend()
        if self._is_complete:  # else a UUID may be that of a GPU whose driver does not work
            self.error = unknown_uuids(self._uuids or (), () if backend is None else backend.gpus())
        if backend is None:
            self._published = NO_GPUS
            self._row = _NO_GPUS_ROW
            if self._absence is None:
                self._messages.append(('info', _NO_DRIVER))
            else:
                self._messages.append(('warning', f'GPU figures are 0: {self._absence()}'))
            return None
        if self.error is not None:
            if self._since_us is not None:  # nobody waits any more who would raise it
                self._messages.append(('warning', f'gpu_uuids must be {self.error}; GPU figures are unknown.'))
            return None
        figures = GpuFigures(
            backend,
            self._uuids,
            visible=self._visible(backend.gpus()),
            wall_clock=self._wall_clock,
            in_initial_pid_namespace=self._in_initial_pid_namespace,
            pid_exists=self._pid_exists,
            is_complete=self._is_complete,
            counts_integrated=self._counts_integrated,
        )
        if figures.are_all_left_out and self._is_complete:
            self._messages.append(('info', _INTEGRATED_ONLY))
        return figures

    def _read(self, figures: GpuFigures) -> float | None:
        """Read once; return the seconds until the next reading, None where this is the last."""
        is_last = self._is_last.is_set()  # asked for before this reading begins
        begun = self._monotonic()
        if figures.without_buffer and begun < self._next_reading - _ROUNDING and not is_last:
            figures.poll_utilization(self._since_us)
            return self._pause(figures)
        cpu_before = time.thread_time() + self._charged
        figures.read(*self._members, self._since_us)
        if self._monotonic() - begun > _LIMIT:
            figures.miss()
            self._report_delay(_ANSWERED_LATE)
        self._read_at = self._monotonic()
        self._published = figures.totals()
        self._row = figures.row()
        self.by_process = figures.by_process()
        self._devices.extend(figures.devices(self._monotonic()))
        self._messages.extend(figures.take_messages(last=is_last))
        self._doubt = figures.doubt
        if is_last:
            return None
        now = self._monotonic()
        pause = next_reading(self._start, now, self._interval)
        if self._most_share is not None:
            pause = max(pause, (time.thread_time() + self._charged - cpu_before) / self._most_share)
        self._next_reading = now + pause
        return self._pause(figures)

    def _pause(self, figures: GpuFigures) -> float:
        """Return the seconds until the next reading or poll."""
        pause = max(0.0, self._next_reading - self._monotonic())
        return min(pause, _BETWEEN_POLLS) if figures.without_buffer else pause


def next_reading(start: float, now: float, interval: float) -> float:
    """Return the seconds from now to the next point of a grid; points that were missed are skipped."""
    return interval - (now - start) % interval
