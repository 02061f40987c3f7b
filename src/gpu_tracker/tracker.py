"""The tracker: what a program uses to track itself, or another process, and to read the result."""

from __future__ import annotations

import enum
import sys

from gpu_tracker.errors import SamplerError, TrackerStateError
from gpu_tracker.real import os
from gpu_tracker.running.options import Options
from gpu_tracker.running.run import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Any, Literal, Self

    from gpu_tracker.recording.reading.model import Region
    from gpu_tracker.result.sampling import Sampling
    from gpu_tracker.result.usage import JobIdentity, ResourceUsage


class Tracker:
    """Tracks what a process and everything it starts use of the machine, from :meth:`start` to :meth:`stop`.

    As a context manager it tracks the block, and the result is complete also where an exception ends it::

        with Tracker() as tracker:
            work()
        print(tracker)

    :param sleep_time: Seconds between two samples.
    :param ram_unit: ``bytes``, ``kilobytes``, ``megabytes``, ``gigabytes`` or ``terabytes``, all decimal.
    :param gpu_ram_unit: The same for GPU RAM.
    :param time_unit: ``seconds``, ``minutes``, ``hours`` or ``days``.
    :param n_expected_cores: The cores that the tracked process is expected to use, by which its hardware percentages
        are divided; all cores of the machine where not given. ``'allowed'``: those that it may use when the tracker is
        made, by its affinity and the quotas of its control groups; a quota of 1.5 cores counts as 2.
    :param gpu_uuids: The UUIDs of the GPUs whose utilization counts; all GPUs where not given. A short-lived process
        checks them, for 5 s at most.
    :param disable_logs: Do not log warnings.
    :param process_id: The process to track; the calling one where not given.
    :param resource_usage_file: A file that holds the result so far as JSON while tracking, and the whole one at the
        end, however the tracked process ends.
    :param n_join_attempts: How often :meth:`stop` waits for a sampler that does not answer.
    :param join_timeout: Seconds of each such wait. A sampler that a signal has stopped is ended after 1 s.
    :param gpu_brand: The brand of the GPUs: ``nvidia``, ``amd``, ``intel``, or ``drm`` for all that the kernel's DRM
        drivers serve, which are all but those of NVIDIA's own driver; or several, in a list or with commas between
        them. None: all GPUs; integrated ones, which share the system's memory, count once a tracked process has memory
        on one.
    :param max_overhead_percent: What the sampler may use of one core, in percent, on average from the first sample on.
        Where it does not suffice samples are skipped, with one warning. Where not given, the sampling interval decides,
        and what is read besides the basic figures takes 1 % at most.
    :param cuda: Also tell what it does with CUDA: launches, memory, streams. Needs libbpf and the right to load BPF
        programs; without them there is one warning, and ``resource_usage.cuda`` has no figures.
    :param sections: What else to report, by the names of fields of :class:`~gpu_tracker.ResourceUsage`: ``cuda``, as
        above, ``io``, what was read and written, ``energy``, of GPUs and CPU packages, and ``gpu_activity``, how busy
        the parts of GPUs were.
    :param tracking_file: A file to record the run into, see :doc:`formats`: an SQLite file, or with the ending
        ``.csv`` the samples alone. An older recording there gets a number in its name.
    :param overwrite: Replace the older recording.
    :param per_process: Record each process by itself too.
    :param job_folder: A folder that all ranks of a job share, into which this one writes what it has used, with a
        recording; see :doc:`jobs`. It is made where it is missing.
    :param job: The place of the process in its job; where not given, it is taken from the variables that launchers set.
        In the three paths ``{job}``, ``{rank}``, ``{node}``, ``{pid}`` and ``{date}`` are replaced.
    :raises ValueError: where a parameter has a value that cannot be used; it names the parameter, the value and what is
        accepted.
    """

    class State(enum.Enum):
        """Where a tracker stands."""

        NEW = 'new'
        STARTED = 'started'
        STOPPED = 'stopped'

    state: State
    """Where this tracker stands."""

    def __init__(
        self,
        sleep_time: float = 1.0,
        ram_unit: str = 'gigabytes',
        gpu_ram_unit: str = 'gigabytes',
        time_unit: str = 'hours',
        n_expected_cores: int | Literal['allowed'] | None = None,
        gpu_uuids: Sequence[str] | None = None,
        disable_logs: bool = False,  # noqa: FBT001, FBT002 - the documented interface
        process_id: int | None = None,
        resource_usage_file: str | os.PathLike[str] | None = None,
        n_join_attempts: int = 5,
        join_timeout: float = 10.0,
        gpu_brand: str | Sequence[str] | None = None,
        max_overhead_percent: float | None = None,
        cuda: bool = False,  # noqa: FBT001, FBT002 - as disable_logs
        sections: Sequence[str] = (),
        tracking_file: str | os.PathLike[str] | None = None,
        overwrite: bool = False,  # noqa: FBT001, FBT002 - as disable_logs
        per_process: bool = False,  # noqa: FBT001, FBT002 - as disable_logs
        job_folder: str | os.PathLike[str] | None = None,
        job: JobIdentity | None = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name != 'self'}
        options = Options(**given)
        self.state = self.State.NEW
        self._run = Run(options, log)
        self._run.check_uuids()
        self._owner = 0
        self._usage: ResourceUsage | None = None
        self._regions: tuple[Region, ...] | None = None
        self._html: str | None = None

    def __repr__(self) -> str:
        """Return the state."""
        return f'State: {self.state.name}'

    def __enter__(self) -> Self:
        """Start tracking."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop tracking, unless the block has done so; nothing in a process that the block has forked."""
        if self.state is self.State.STARTED and self._owner == os.getpid():
            self.stop()

    def start(self) -> None:
        """Start tracking; return when the first sample is complete.

        :raises RuntimeError: where it was started before, or where nothing can be measured; the program can go on then.
        :raises ValueError: if the process does not exist any more, or a GPU does not.
        """
        if self.state is not self.State.NEW:
            message = f'This tracker was started already (it is {self.state.name}); make a new one for another run.'
            raise TrackerStateError(message)
        self._run.start()
        self._owner = os.getpid()
        self.state = self.State.STARTED
        # Only now: a handler of the program's log may raise.
        self._run.keep_files()
        self._run.notify_first()

    def stop(self) -> None:
        """Stop tracking; afterwards the result is there.

        :raises RuntimeError: where it was not started, was stopped before, or was started by another process.
        """
        if self.state is not self.State.STARTED:
            reason = (
                'has not been started; call start() first' if self.state is self.State.NEW else 'was stopped already'
            )
            message = f'This tracker {reason}.'
            raise TrackerStateError(message)
        if self._owner != os.getpid():
            message = f'This tracker was started by process {self._owner}; only that one can stop it.'
            raise TrackerStateError(message)
        try:
            self._run.stop()
            self._run.finish()
        finally:
            self.state = self.State.STOPPED

    def so_far(self) -> ResourceUsage:
        """Return what was used so far, as the sampler has published it last, at most some 1 s ago.

        No sample is taken for it, and tracking goes on. ``lower_bounds`` names all sums and maxima.

        :raises RuntimeError: before the start and after the end.
        """
        if self.state is not self.State.STARTED:
            message = f'This tracker does not run (it is {self.state.name}); so_far() needs one between start and stop.'
            raise TrackerStateError(message)
        return self._run.usage_so_far()

    @property
    def resource_usage(self) -> ResourceUsage:
        """What was used: a :class:`~gpu_tracker.ResourceUsage`.

        :raises RuntimeError: before the end.
        """
        if self._usage is None:
            self._usage = self._ended_run().usage()
        return self._usage

    @property
    def sampling(self) -> Sampling:
        """How the run was sampled, and which figures are lower bounds: a :class:`.Sampling`.

        :raises RuntimeError: before the end.
        """
        return self._ended_run().sampling()

    @property
    def regions(self) -> tuple[Region, ...]:
        """The regions in which the program was, see :doc:`formats`, in the order in which they began.

        Without a ``tracking_file`` too; where another process is tracked there are none.

        :raises RuntimeError: before the end.
        """
        run = self._ended_run()
        if self._regions is None:
            self._regions = run.files.regions()
        return self._regions

    def to_json(self) -> dict[str, Any]:
        """Return the result as a dictionary whose keys are the fields of :class:`~gpu_tracker.ResourceUsage`.

        It holds dictionaries, lists, texts, numbers and None only, so that :func:`json.dumps` takes it as it is.

        :raises RuntimeError: before the end.
        """
        return self.resource_usage.to_dict()

    def __str__(self) -> str:
        """Return the result as text.

        :raises RuntimeError: before the end.
        """
        return str(self.resource_usage)

    def _repr_html_(self) -> str | None:
        """Return the result as a table, for notebooks; None before the end, and where there is no result.

        Kept once made: the recording that its sparklines are from may be removed later.
        """
        if self._html is None and self.state is self.State.STOPPED:
            from gpu_tracker.views.html import tracker_html  # noqa: PLC0415 - keeps the measured process light

            try:
                self._html = tracker_html(self.resource_usage, self._run.files.recording)
            except SamplerError:
                return None
        return self._html

    def _ended_run(self) -> Run:
        if self.state is not self.State.STOPPED:
            missing = 'call start() and stop()' if self.state is self.State.NEW else 'call stop() or leave the block'
            message = f'There is no result yet (the tracker is {self.state.name}); {missing} first.'
            raise TrackerStateError(message)
        return self._run


def log(level: str, text: str) -> None:
    """Log a message in the program's own process."""
    if level != 'warning' and 'logging' not in sys.modules:
        return  # nobody has asked for more than warnings, and logging costs 15 ms
    import logging  # noqa: PLC0415 - see above

    logging.getLogger('gpu_tracker').log(logging.WARNING if level == 'warning' else logging.INFO, text)
