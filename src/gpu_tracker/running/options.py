"""What a tracker is asked to do: its parameters, checked. Pure but for one look whether the process exists."""

from __future__ import annotations

import math
import operator
import os
import sys

from gpu_tracker import units
from gpu_tracker.errors import ParameterError, see
from gpu_tracker.job import FIELDS, checked, expand, identify, identity_of
from gpu_tracker.processes import process_exists
from gpu_tracker.recording.writing import tracking_file as files
from gpu_tracker.resources import SECTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence
    from typing import Any, Literal, TypedDict

    from gpu_tracker.usage import JobIdentity

    class TrackerOptions(TypedDict, total=False):
        """The parameters of :class:`~gpu_tracker.Tracker` but for ``process_id``, where they are passed on."""

        sleep_time: float
        ram_unit: str
        gpu_ram_unit: str
        time_unit: str
        n_expected_cores: int | Literal['allowed'] | None
        gpu_uuids: Sequence[str] | None
        disable_logs: bool
        resource_usage_file: str | os.PathLike[str] | None
        n_join_attempts: int
        join_timeout: float
        gpu_brand: str | Sequence[str] | None
        max_overhead_percent: float | None
        cuda: bool
        sections: Sequence[str]
        tracking_file: str | os.PathLike[str] | None
        overwrite: bool
        per_process: bool
        job_folder: str | os.PathLike[str] | None
        job: JobIdentity | None


_LONGEST = 1e9
"""Seconds: above this, clocks and timeouts overflow on some systems."""
_MOST_PERCENT = 100
_COUNT_ACCEPTED = 'a whole number of at least 1'
ALLOWED = 'allowed'
"""Stands for the number of cores that affinity and control groups leave to the tracked process."""
_FILE_ACCEPTED = 'the path of a file in a folder that can be written'


class Parameters:
    """The parameters of a tracker, in the form in which they are used; the defaults are those of the tracker."""

    def __init__(
        self,
        *,
        sleep_time: float = 1.0,
        ram_unit: str = 'gigabytes',
        gpu_ram_unit: str = 'gigabytes',
        time_unit: str = 'hours',
        n_expected_cores: int | Literal['allowed'] | None = None,
        gpu_uuids: Sequence[str] | None = None,
        disable_logs: bool = False,
        process_id: int | None = None,
        resource_usage_file: str | os.PathLike[str] | None = None,
        n_join_attempts: int = 5,
        join_timeout: float = 10.0,
        gpu_brand: str | Sequence[str] | None = None,
        max_overhead_percent: float | None = None,
        cuda: bool = False,
        sections: Sequence[str] = (),
        tracking_file: str | os.PathLike[str] | None = None,
        overwrite: bool = False,
        per_process: bool = False,
        job_folder: str | os.PathLike[str] | None = None,
        job: JobIdentity | None = None,
    ) -> None:
        self.sleep_time = _positive('sleep_time', sleep_time, 'a positive number of seconds')
        self.ram_unit = _unit('ram_unit', ram_unit, units.memory_unit, units.UNITS_ACCEPTED)
        self.gpu_ram_unit = _unit('gpu_ram_unit', gpu_ram_unit, units.memory_unit, units.UNITS_ACCEPTED)
        self.time_unit = _unit('time_unit', time_unit, units.time_unit, units.TIME_UNITS_ACCEPTED)
        self.gpu_uuids = None if gpu_uuids is None else _uuids(gpu_uuids)
        self.disable_logs = bool(disable_logs)
        self.process_id = os.getpid() if process_id is None else _existing_process(process_id)
        self.n_expected_cores = None if n_expected_cores is None else self._expected_cores(n_expected_cores)
        """None: all cores of the machine."""
        self.job = None if job is None else _job(job)
        """The fields of the identity that was given."""
        self.resource_usage_file = None if resource_usage_file is None else self._usage_file(resource_usage_file)
        self.n_join_attempts = _count('n_join_attempts', n_join_attempts)
        self.join_timeout = _positive('join_timeout', join_timeout, 'a positive number of seconds')
        self.gpu_brand = None if gpu_brand is None else _brands(gpu_brand)
        self.max_overhead_percent = None if max_overhead_percent is None else _percent(max_overhead_percent)
        self.sections = _sections(sections, cuda=_flag('cuda', cuda))
        """The names of what is wanted beside the documented sections."""
        self.overwrite = _flag('overwrite', overwrite)
        self.per_process = _flag('per_process', per_process)
        self.tracking_file = None if tracking_file is None else self._tracking_file(tracking_file)
        self.job_folder = None if job_folder is None else self._job_folder(job_folder)
        is_recording = self.tracking_file is not None and not self.records_rows_only
        if self.per_process and not is_recording and self.job_folder is None:
            raise ParameterError('per_process', per_process, 'False without a tracking_file that is a recording')

    @property
    def records_rows_only(self) -> bool:
        """Whether the tracking file is a CSV file."""
        return self.tracking_file is not None and self.tracking_file.endswith('.csv')

    def _expanded(self, name: str, value: str | os.PathLike[str]) -> str:
        """Return a path with what stands in braces replaced."""
        path = os.fsdecode(value)
        if '{' not in path:
            return path
        if self.job is not None:
            identity: Mapping[str, Any] | None = self.job
        elif self.process_id == os.getpid():
            identity = identify(os.environ, os.getpid())
        else:
            identity = identity_of(self.process_id)
        return expand(path, name, identity)

    def _expected_cores(self, value: object) -> int | None:
        if isinstance(value, str) and value == ALLOWED:
            if sys.platform != 'linux':
                return None  # nothing is known there that limits a process: all cores are expected
            from gpu_tracker.control_groups.allowed import expected_cores  # noqa: PLC0415 - only where it is asked for

            return expected_cores(self.process_id)
        return _count('n_expected_cores', value, f"{_COUNT_ACCEPTED}, or '{ALLOWED}'")

    def _usage_file(self, value: object) -> str:
        if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
            raise ParameterError('resource_usage_file', value, _FILE_ACCEPTED)
        path = os.path.abspath(self._expanded('resource_usage_file', value))
        folder = os.path.dirname(os.path.realpath(path))
        if os.path.isdir(path) or not os.path.isdir(folder) or not os.access(folder, os.W_OK):
            raise ParameterError('resource_usage_file', value, _FILE_ACCEPTED, see('cannot-write'))
        return path

    def _job_folder(self, value: object) -> str:
        accepted = 'the path of a folder that is there, or can be made'
        if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
            raise ParameterError('job_folder', value, accepted)
        if self.tracking_file is not None:
            raise ParameterError('job_folder', value, 'left out where there is a tracking_file: it has the recording')
        path = os.path.abspath(self._expanded('job_folder', value))
        there = path
        while not os.path.lexists(there):
            there = os.path.dirname(there)
        if not os.path.isdir(there):
            raise ParameterError('job_folder', value, f'the path of a folder ({there} is none)')
        if not os.access(there, os.W_OK | os.X_OK):
            raise ParameterError('job_folder', value, f'{accepted} ({there} may not be written)', see('cannot-write'))
        return path

    def _tracking_file(self, value: object) -> str:
        if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
            raise ParameterError('tracking_file', value, _FILE_ACCEPTED)
        path = files.whole_path(self._expanded('tracking_file', value))
        if os.fsdecode(value).endswith('/'):
            raise ParameterError('tracking_file', value, 'the path of a file, not of a folder')
        files.check(path, value, overwrite=self.overwrite)
        if self.resource_usage_file is not None and path == files.whole_path(self.resource_usage_file):
            raise ParameterError('tracking_file', value, 'another file than resource_usage_file')
        return path


def _positive(name: str, value: object, accepted: str) -> float:
    number = _number(value)
    if number is None or not math.isfinite(number) or number <= 0:
        raise ParameterError(name, value, accepted)
    if number > _LONGEST:
        raise ParameterError(name, value, f'{accepted}, at most {_LONGEST:.0f}')
    return number


def _percent(value: object) -> float:
    number = _number(value)
    if number is None or not 0 < number <= _MOST_PERCENT:
        raise ParameterError('max_overhead_percent', value, 'a percentage of one core, above 0 and at most 100')
    return number


def _number(value: object) -> float | None:
    """Return a number of any kind, numpy's included, as a float; None for anything else."""
    if isinstance(value, (bool, str, bytes)) or not hasattr(value, '__float__'):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _count(name: str, value: object, accepted: str = _COUNT_ACCEPTED) -> int:
    try:
        count = operator.index(value)  # type: ignore[arg-type]  # what has no __index__ is a TypeError
    except TypeError:
        count = 0
    if isinstance(value, bool) or count < 1:
        raise ParameterError(name, value, accepted)
    return count


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ParameterError(name, value, 'True or False')
    return value


def _sections(value: object, *, cuda: bool) -> tuple[str, ...]:
    """Return the names of optional sections, each once and in the order of the table."""
    if isinstance(value, str) or not hasattr(value, '__iter__'):
        raise ParameterError('sections', value, f'a sequence of names, each {_alternatives(SECTIONS)}')
    wanted = {_one_of('sections', name, SECTIONS) for name in value}
    return tuple(name for name in SECTIONS if name in wanted or (cuda and name == 'cuda'))


def _one_of(name: str, value: object, accepted: Container[str] | Sequence[str]) -> str:
    if not isinstance(value, str) or value not in accepted:
        raise ParameterError(name, value, _alternatives(accepted))
    return value


def _unit(name: str, value: object, read: Callable[[str], str | None], accepted: str) -> str:
    found = read(value) if isinstance(value, str) else None
    if found is None:
        raise ParameterError(name, value, accepted)
    return found


def _brands(value: object) -> tuple[str, ...]:
    from gpu_tracker.gpus import check_brands  # noqa: PLC0415 - most users leave the choice to us

    return check_brands(value)


def _alternatives(words: object) -> str:
    quoted = [repr(word) for word in words]  # type: ignore[attr-defined]  # a dict's keys
    return quoted[0] if len(quoted) == 1 else f'{", ".join(quoted[:-1])} or {quoted[-1]}'


def _uuids(value: object) -> tuple[str, ...]:
    accepted = 'at least one UUID of a GPU'
    if isinstance(value, str) or not hasattr(value, '__iter__'):
        raise ParameterError('gpu_uuids', value, 'a sequence of UUIDs of GPUs')
    uuids = tuple(value)
    if not uuids or not all(isinstance(uuid, str) and uuid for uuid in uuids):
        raise ParameterError('gpu_uuids', value, accepted)
    return tuple(dict.fromkeys(uuids))


def _existing_process(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ParameterError('process_id', value, 'the id of a process that exists')
    if not process_exists(value):
        raise ParameterError('process_id', value, 'the id of a process that exists', see('no-such-process'))
    return value


def _job(value: object) -> dict[str, Any]:
    accepted = 'a gpu_tracker.JobIdentity'
    names = getattr(type(value), '__slots__', ())
    if not set(FIELDS).issubset(names):
        raise ParameterError('job', value, accepted)
    try:
        return checked({field: getattr(value, field) for field in FIELDS})
    except ValueError as error:
        raise ParameterError('job', value, f'{accepted} ({error})') from None
