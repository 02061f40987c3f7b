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
    """Measures the resources that a process and its descendants use, from :meth:`start` to :meth:`stop`.

    In a ``with`` statement, a tracker measures the block. The result can be read after the block, even after an
    exception. Before :meth:`stop`, reading the result raises ``RuntimeError``.

    :param sleep_time: Seconds between two samples.
    :param ram_unit: ``bytes``, ``kilobytes``, ``megabytes``, ``gigabytes`` or ``terabytes`` (powers of 1,000).
    :param gpu_ram_unit: Unit of GPU RAM: the same names as for ``ram_unit``.
    :param time_unit: ``seconds``, ``minutes``, ``hours`` or ``days``.
    :param n_expected_cores: Number of cores that means 100 % CPU utilization. Default: all cores. ``'allowed'`` means
        all cores that CPU affinity and quotas allow, rounded up.
    :param gpu_uuids: Measure utilization only of the GPUs with these UUIDs. Default: all GPUs.
    :param disable_logs: Log no warnings.
    :param process_id: ID of the process to track. Default: the current process.
    :param resource_usage_file: Write the result to this JSON file, during and after the run.
    :param n_join_attempts: How many times :meth:`stop` waits for the last sample.
    :param join_timeout: Longest duration of each wait in :meth:`stop`, in seconds.
    :param gpu_brand: Brands of GPUs to measure: ``nvidia``, ``amd``, ``intel``, ``drm`` (every GPU with a DRM driver)
        or a list of brands. Default: all GPUs, but integrated GPUs only if a tracked process uses their memory.
    :param max_overhead_percent: Limit for the mean CPU time of taking samples, in percent of one core. Above this
        limit, the tracker skips samples and logs one warning.
    :param cuda: Report CUDA calls. Tracing CUDA calls needs libbpf and the right to load BPF programs.
    :param sections: Names of optional sections to report: ``cuda``, ``io``, ``energy``, ``gpu_activity``.
    :param tracking_file: Record the run in this SQLite file, or the samples in this ``.csv`` file. An existing
        recording with this name is renamed.
    :param overwrite: Overwrite an existing recording.
    :param per_process: Also record each process separately. Requires ``tracking_file`` or ``job_folder``.
    :param job_folder: Folder in which all ranks of a job write their reports.
    :param job: Job and rank of the process (:class:`~gpu_tracker.JobIdentity`). Default: read from environment
        variables of the launcher, such as torchrun.
    :raises ValueError: if a parameter has an invalid value. The message lists the valid values.
    """

    class State(enum.Enum):
        """Whether a tracker is new, started or stopped."""

        NEW = 'new'
        STARTED = 'started'
        STOPPED = 'stopped'

    state: State
    """``State.NEW``, ``State.STARTED`` or ``State.STOPPED``."""

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
        """Start tracking, and return after the first sample.

        :raises RuntimeError: if the tracker was already started, or if measuring fails.
        :raises ValueError: if the process to track or a GPU in ``gpu_uuids`` does not exist.
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
        """Stop tracking, and make the result available.

        :raises RuntimeError: if the tracker is not running, or was started in another process.
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
        """Return the result so far, and continue tracking. The result is at most about 1 s old.

        :raises RuntimeError: if the tracker is not running.
        """
        if self.state is not self.State.STARTED:
            message = f'This tracker does not run (it is {self.state.name}); so_far() needs one between start and stop.'
            raise TrackerStateError(message)
        return self._run.usage_so_far()

    @property
    def resource_usage(self) -> ResourceUsage:
        """Result of the run (:class:`~gpu_tracker.ResourceUsage`)."""
        if self._usage is None:
            self._usage = self._ended_run().usage()
        return self._usage

    @property
    def sampling(self) -> Sampling:
        """Number of samples, and figures that may be too low (:class:`.Sampling`)."""
        return self._ended_run().sampling()

    @property
    def regions(self) -> tuple[Region, ...]:
        """Calls of regions in this process, sorted by start (:class:`.Region`). No recording is needed."""
        run = self._ended_run()
        if self._regions is None:
            self._regions = run.files.regions()
        return self._regions

    def to_json(self) -> dict[str, Any]:
        """Return the result as a dictionary for :func:`json.dumps`."""
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
