"""The tracker: it owns the sampling subprocess and turns what that measured into the documented result."""

from __future__ import annotations

import enum
import os
import sys
import time

from gpu_tracker.errors import ParameterError, SamplerError, TrackerStateError
from gpu_tracker.parameters import Parameters
from gpu_tracker.processes import default_reader, proc_fault
from gpu_tracker.resources import settle as settle_sections
from gpu_tracker.sampler.session import Session
from gpu_tracker.sampler.spawn import OwnChildren
from gpu_tracker.settlement import forget_bounds, settle_children

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Any, Self

    from gpu_tracker.sampling import Sampling
    from gpu_tracker.totals import Configuration, Totals
    from gpu_tracker.usage import ResourceUsage

_READERS = ('proc', 'psutil')
_NO_RESULT = 'The sampler has left no result.'


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
        are divided; all cores of the machine where not given.
    :param gpu_uuids: The UUIDs of the GPUs whose utilization counts; all GPUs where not given.
    :param disable_logs: Do not log warnings.
    :param process_id: The process to track; the calling one where not given.
    :param resource_usage_file: A file that holds the result so far as JSON while tracking, and the whole one at the
        end, however the tracked process ends.
    :param n_join_attempts: How often :meth:`stop` waits for a sampler that does not answer.
    :param join_timeout: Seconds of each such wait.
    :param gpu_brand: The vendor of the GPUs: ``nvidia``.
    :param max_overhead_percent: What the sampler may use of one core, in percent, on average from the first sample on.
        Where it does not suffice samples are skipped, with one warning. Where not given, the sampling interval decides,
        and what is read besides the basic figures takes 1 % at most.
    :param cuda: Also tell what it does with CUDA: launches, memory, streams. Needs ``gpu-tracker[cuda]`` and the right
        to load BPF programs; without them there is one warning, and ``resource_usage.cuda`` has no figures.
    :param sections: What else to report, by the names of fields of :class:`~gpu_tracker.ResourceUsage`: ``cuda``, as
        above, ``io``, what was read and written, and ``energy``, of GPUs and CPU packages.
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
        n_expected_cores: int | None = None,
        gpu_uuids: Sequence[str] | None = None,
        disable_logs: bool = False,  # noqa: FBT001, FBT002 - the documented interface
        process_id: int | None = None,
        resource_usage_file: str | os.PathLike[str] | None = None,
        n_join_attempts: int = 5,
        join_timeout: float = 10.0,
        gpu_brand: str | None = None,
        max_overhead_percent: float | None = None,
        cuda: bool = False,  # noqa: FBT001, FBT002 - as disable_logs
        sections: Sequence[str] = (),
    ) -> None:
        self._parameters = Parameters(
            sleep_time=sleep_time,
            ram_unit=ram_unit,
            gpu_ram_unit=gpu_ram_unit,
            time_unit=time_unit,
            n_expected_cores=n_expected_cores,
            gpu_uuids=gpu_uuids,
            disable_logs=disable_logs,
            process_id=process_id,
            resource_usage_file=resource_usage_file,
            n_join_attempts=n_join_attempts,
            join_timeout=join_timeout,
            gpu_brand=gpu_brand,
            max_overhead_percent=max_overhead_percent,
            cuda=cuda,
            sections=sections,
        )
        self.state = self.State.NEW
        self._session: Session | None = None
        self._owner = 0
        self._started_at = 0.0
        self._largest_child: int | None = None
        self._own_faults = 0
        self._switches: tuple[int, int] | None = None
        self._seconds = 0.0
        self._totals: Totals | None = None
        self._problem: str | None = None
        self._told = 0
        self._usage: ResourceUsage | None = None

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
        :raises ValueError: where the driver knows no GPU with one of the UUIDs, or the process does not exist any more.
        """
        if self.state is not self.State.NEW:
            message = f'This tracker was started already (it is {self.state.name}); make a new one for another run.'
            raise TrackerStateError(message)
        fault = proc_fault() if sys.platform == 'linux' else None
        if fault is not None:
            raise SamplerError(fault)
        session = Session(self._configuration())
        try:
            self._use_the_wait()
            ready = session.wait_until_ready()
        except BaseException as error:
            session.end()
            if isinstance(error, SamplerError):
                self._explain(error, session.refusal)
            raise
        self._session = session
        self._owner = os.getpid()
        self.state = self.State.STARTED
        self._tell(ready['messages'])
        self._largest_child = self._largest_child_so_far()
        self._own_faults = OwnChildren.faults
        self._switches = self._own_switches()
        self._started_at = time.monotonic()

    def _use_the_wait(self) -> None:
        """Do what can be done while the sampler starts."""

    def stop(self) -> None:
        """Stop tracking; afterwards the result is there.

        :raises RuntimeError: where it was not started, was stopped before, or was started by another process.
        """
        now = time.monotonic()
        session = self._session
        if self.state is not self.State.STARTED or session is None:
            reason = (
                'has not been started; call start() first' if self.state is self.State.NEW else 'was stopped already'
            )
            message = f'This tracker {reason}.'
            raise TrackerStateError(message)
        if self._owner != os.getpid():
            message = f'This tracker was started by process {self._owner}; only that one can stop it.'
            raise TrackerStateError(message)
        self._seconds = now - self._started_at
        largest_child = self._largest_child_so_far()
        own_faults = OwnChildren.faults - self._own_faults
        switches = self._own_switches()
        try:
            self._problem = session.stop(self._seconds, self._parameters.n_join_attempts, self._parameters.join_timeout)
        finally:
            self.state = self.State.STOPPED
            self._totals = session.totals()
            session.end()
        if self._totals is None:
            raise SamplerError(_NO_RESULT)
        self._totals['record']['tracked_seconds'] = self._seconds  # also where the sampler was ended from outside
        if switches is not None and self._switches is not None:
            since = (switches[0] - self._switches[0], switches[1] - self._switches[1])
            settle_sections(self._totals, {'main': since})
        if self._problem:
            forget_bounds(self._totals)
        elif largest_child is not None and self._largest_child is not None:
            before = max(self._largest_child, OwnChildren.peak)
            settle_children(self._totals, before, largest_child, own_faults)
        if self._problem:
            self._tell([*self._totals['messages'], ('warning', self._problem)])
        else:
            self._tell(self._totals['messages'])

    @property
    def resource_usage(self) -> ResourceUsage:
        """What was used: a :class:`~gpu_tracker.ResourceUsage`.

        :raises RuntimeError: before the end.
        """
        if self._usage is None:
            from gpu_tracker.result import build  # noqa: PLC0415 - keeps the measured process light
            from gpu_tracker.units import Units  # noqa: PLC0415 - as above

            self._usage = build(self._require_totals(), Units(*self._units()))
        return self._usage

    @property
    def sampling(self) -> Sampling:
        """How the run was sampled, and how exact its RAM peaks are: a :class:`~gpu_tracker.sampling.Sampling`.

        :raises RuntimeError: before the end.
        """
        from gpu_tracker.sampling import record_of  # noqa: PLC0415 - keeps the measured process light until the end

        return record_of(self._require_totals(), self._parameters.ram_unit)

    def to_json(self) -> dict[str, Any]:
        """Return the result as a dictionary whose keys are the fields of :class:`~gpu_tracker.ResourceUsage`.

        It holds dictionaries, lists, texts, numbers and None only, so that :func:`json.dumps` takes it as it is.

        :raises RuntimeError: before the end.
        """
        usage = self.resource_usage
        from gpu_tracker.render import as_dictionary  # noqa: PLC0415 - keeps the measured process light until the end

        return as_dictionary(usage)

    def __str__(self) -> str:
        """Return the result as text.

        :raises RuntimeError: before the end.
        """
        usage = self.resource_usage
        from gpu_tracker.render import as_text  # noqa: PLC0415 - as above

        return as_text(usage)

    def _require_totals(self) -> Totals:
        if self.state is not self.State.STOPPED:
            way = 'call start() and stop()' if self.state is self.State.NEW else 'call stop() or leave the block'
            message = f'There is no result yet (the tracker is {self.state.name}); {way} first.'
            raise TrackerStateError(message)
        if self._totals is None:
            raise SamplerError(_NO_RESULT)
        return self._totals

    def _configuration(self) -> Configuration:
        """Return what the sampler is told, see :func:`gpu_tracker.sampler.spawn.spawn`."""
        parameters = self._parameters
        file = parameters.resource_usage_file
        percent = parameters.max_overhead_percent
        return {
            'owner': os.getpid(),
            'target': parameters.process_id,
            'launcher': None,
            'launcher_peak': None,
            'exec_handle': None,
            'reader': _reader(),
            'interval': parameters.sleep_time,
            'brand': parameters.gpu_brand,
            'uuids': parameters.gpu_uuids,
            'overhead': None if percent is None else percent / 100,
            'report': None if file is None else (file, 'json'),
            'settles': False,
            'units': self._units(),
            'sections': parameters.sections,
            'command': None,
        }

    def _largest_child_so_far(self) -> int | None:
        """Return the peak of the largest child that this process has waited for, in bytes; None where not of interest.

        Read when the sampler's short-lived starter has been waited for, to which vfork has lent this process' own peak.
        """
        if self._parameters.process_id != os.getpid() or sys.platform != 'linux':
            return None
        import resource  # noqa: PLC0415 - not on every system

        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024

    def _own_switches(self) -> tuple[int, int] | None:
        """Return the context switches of this process so far; None where they are not of interest."""
        if not self._parameters.sections or self._parameters.process_id != os.getpid() or os.name != 'posix':
            return None
        import resource  # noqa: PLC0415 - not on every system

        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_nvcsw, used.ru_nivcsw

    def _units(self) -> tuple[str, str, str, int | None]:
        parameters = self._parameters
        return parameters.ram_unit, parameters.gpu_ram_unit, parameters.time_unit, parameters.n_expected_cores

    def _explain(self, error: SamplerError, refusal: str | None) -> None:
        """Raise ValueError where it was a parameter that the sampler has refused."""
        parameters = self._parameters
        if refusal == 'process':
            raise ParameterError('process_id', parameters.process_id, 'the id of a process that exists') from None
        if refusal == 'uuids':
            raise ParameterError('gpu_uuids', list(parameters.gpu_uuids or ()), str(error)) from None
        if refusal == 'driver':
            raise ParameterError(
                'gpu_uuids', list(parameters.gpu_uuids or ()), f'left out: the GPU driver {error}'
            ) from None

    def _tell(self, messages: Sequence[tuple[str, str]]) -> None:
        """Tell the messages that were not told yet."""
        new = messages[self._told :]
        self._told = max(self._told, len(messages))
        if not self._parameters.disable_logs:
            for level, text in new:
                self._tell_one(level, text)

    def _tell_one(self, level: str, text: str) -> None:
        """Log one message in the program's own process."""
        if level != 'warning' and 'logging' not in sys.modules:
            return  # nobody has asked for more than warnings, and logging costs 15 ms
        import logging  # noqa: PLC0415 - see above

        logging.getLogger('gpu_tracker').log(logging.WARNING if level == 'warning' else logging.INFO, text)


def _reader() -> str:
    """Return how the process tree is read: as the environment says, else in the system's own way."""
    reader = os.environ.get('GPU_TRACKER_READER') or default_reader()
    if reader not in _READERS:
        raise ParameterError('the environment variable GPU_TRACKER_READER', reader, ' or '.join(_READERS))
    return reader
