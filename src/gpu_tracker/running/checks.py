"""Checks of the options of a run: each returns the value in the form in which it is used, or raises ParameterError.

A check gets the options that were checked before it, the name of the option, and the given value. The functions
``as_...`` read a value from the text of a command line.
"""

from __future__ import annotations

import math
import operator
import sys

from gpu_tracker import units
from gpu_tracker.errors import ParameterError, see
from gpu_tracker.job import FIELDS, checked
from gpu_tracker.processes import process_exists
from gpu_tracker.real import os
from gpu_tracker.recording.writing import tracking_file as files
from gpu_tracker.resources import SECTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence
    from typing import Any, Protocol

    class Given(Protocol):
        """What has been checked before: options by their names, in the order of the table."""

        process_id: int
        tracking_file: str | None
        overwrite: bool
        job_folder: str | None
        resource_usage_file: str | None
        cuda: bool

        @property
        def records_rows_only(self) -> bool:
            """Whether the tracking file is a CSV file."""

        def expanded(self, name: str, value: str | os.PathLike[str]) -> str:
            """Return a path with the fields in braces replaced."""


ALLOWED = 'allowed'
"""Stands for the number of cores that affinity and control groups leave to the tracked process."""
_LONGEST = 1e9
"""Seconds: above this, clocks and timeouts overflow on some systems."""
_MOST_PERCENT = 100
_COUNT_ACCEPTED = 'a whole number of at least 1'
_CORES_ACCEPTED = f"{_COUNT_ACCEPTED}, or '{ALLOWED}'"
_SECONDS_ACCEPTED = 'a positive number of seconds'
_INTERVALS_ACCEPTED = f'{_SECONDS_ACCEPTED}, or a time with its unit such as 100ms'
_PERCENT_ACCEPTED = 'a percentage of one core, above 0 and at most 100'
_FILE_ACCEPTED = 'the path of a file in a folder that can be written'


def positive(_: Given, name: str, value: object) -> float:
    """Check a number of seconds."""
    number = _number(value)
    if number is None or not math.isfinite(number) or number <= 0:
        raise ParameterError(name, value, _SECONDS_ACCEPTED)
    if number > _LONGEST:
        raise ParameterError(name, value, f'{_SECONDS_ACCEPTED}, at most {_LONGEST:.0f}')
    return number


def percent(_: Given, name: str, value: object) -> float:
    """Check a percentage of one core."""
    number = _number(value)
    if number is None or not 0 < number <= _MOST_PERCENT:
        raise ParameterError(name, value, _PERCENT_ACCEPTED)
    return number


def _number(value: object) -> float | None:
    """Return a number of any kind, numpy's included, as a float; None for anything else."""
    if isinstance(value, (bool, str, bytes)) or not hasattr(value, '__float__'):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def count(_: Given, name: str, value: object, accepted: str = _COUNT_ACCEPTED) -> int:
    """Check a whole number."""
    try:
        count = operator.index(value)  # type: ignore[arg-type]  # what has no __index__ is a TypeError
    except TypeError:
        count = 0
    if isinstance(value, bool) or count < 1:
        raise ParameterError(name, value, accepted)
    return count


def cores(options: Given, name: str, value: object) -> int | None:
    """Check a number of cores; None: all cores of the machine."""
    if isinstance(value, str) and value == ALLOWED:
        if sys.platform != 'linux':
            return None  # nothing is known there that limits a process: all cores are expected
        from gpu_tracker.control_groups.allowed import expected_cores  # noqa: PLC0415 - only if it is asked for

        return expected_cores(options.process_id)
    return count(options, name, value, _CORES_ACCEPTED)


def flag(_: Given, name: str, value: object) -> bool:
    """Check that a value is True or False, of Python or of numpy."""
    if type(value).__name__ not in {'bool', 'bool_'}:  # numpy's is one of these
        raise ParameterError(name, value, 'True or False')
    return bool(value)


def sections(options: Given, name: str, value: object) -> tuple[str, ...]:
    """Return the names of optional sections, each once and in the order of the table."""
    if isinstance(value, str) or not hasattr(value, '__iter__'):
        raise ParameterError(name, value, f'a sequence of names, each {_alternatives(SECTIONS)}')
    wanted = {_one_of(name, section, SECTIONS) for section in value}
    return tuple(section for section in SECTIONS if section in wanted or (options.cuda and section == 'cuda'))


def _one_of(name: str, value: object, accepted: Container[str] | Sequence[str]) -> str:
    if not isinstance(value, str) or value not in accepted:
        raise ParameterError(name, value, _alternatives(accepted))
    return value


def memory_unit(_: Given, name: str, value: object) -> str:
    """Check a unit of memory."""
    return _unit(name, value, units.memory_unit, units.UNITS_ACCEPTED)


def time_unit(_: Given, name: str, value: object) -> str:
    """Check a unit of time."""
    return _unit(name, value, units.time_unit, units.TIME_UNITS_ACCEPTED)


def _unit(name: str, value: object, read: Callable[[str], str | None], accepted: str) -> str:
    found = read(value) if isinstance(value, str) else None
    if found is None:
        raise ParameterError(name, value, accepted)
    return found


def brands(_: Given, __: str, value: object) -> tuple[str, ...]:
    """Check brands of GPUs."""
    from gpu_tracker.gpus.opening import check_brands  # noqa: PLC0415 - most users leave the choice to us

    return check_brands(value)


def _alternatives(words: object) -> str:
    quoted = [repr(word) for word in words]  # type: ignore[attr-defined]  # a dict's keys
    return quoted[0] if len(quoted) == 1 else f'{", ".join(quoted[:-1])} or {quoted[-1]}'


def uuids(_: Given, name: str, value: object) -> tuple[str, ...]:
    """Check UUIDs of GPUs, as far as a text alone allows."""
    if isinstance(value, str) or not hasattr(value, '__iter__'):
        raise ParameterError(name, value, 'a sequence of UUIDs of GPUs')
    uuids = tuple(value)
    if not uuids or not all(isinstance(uuid, str) and uuid for uuid in uuids):
        raise ParameterError(name, value, 'at least one UUID of a GPU')
    return tuple(dict.fromkeys(uuids))


def process(_: Given, name: str, value: object) -> int:
    """Check the ID of a process."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ParameterError(name, value, 'the id of a process that exists')
    if not process_exists(value):
        raise ParameterError(name, value, 'the id of a process that exists', see('no-such-process'))
    return value


def job(_: Given, name: str, value: object) -> dict[str, Any]:
    """Check the place in a job, and return its fields."""
    accepted = 'a gpu_tracker.JobIdentity'
    names = getattr(type(value), '__slots__', ())
    if not set(FIELDS).issubset(names):
        raise ParameterError(name, value, accepted)
    try:
        return checked({field: getattr(value, field) for field in FIELDS})
    except ValueError as error:
        raise ParameterError(name, value, f'{accepted} ({error})') from None


def usage_file(options: Given, name: str, value: object) -> str:
    """Check that a report can be written, and return its absolute path."""
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
        raise ParameterError(name, value, _FILE_ACCEPTED)
    path = os.path.abspath(options.expanded(name, value))
    folder = os.path.dirname(files.whole_path(path, name))
    if os.path.isdir(path) or not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise ParameterError(name, value, _FILE_ACCEPTED, see('cannot-write'))
    return path


def tracking_file(options: Given, name: str, value: object) -> str:
    """Check that a recording can be written, and return its absolute path."""
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
        raise ParameterError(name, value, _FILE_ACCEPTED)
    path = files.whole_path(options.expanded(name, value))
    if os.fsdecode(value).endswith('/'):
        raise ParameterError(name, value, 'the path of a file, not of a folder')
    files.check(path, value, overwrite=options.overwrite)
    if options.resource_usage_file is not None and path == files.whole_path(options.resource_usage_file):
        raise ParameterError(name, value, 'a file other than resource_usage_file')
    return path


def job_folder(options: Given, name: str, value: object) -> str:
    """Check that the folder of a job can be written, and return its absolute path."""
    accepted = 'the path of a folder that exists or can be made'
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
        raise ParameterError(name, value, accepted)
    if options.tracking_file is not None:
        raise ParameterError(name, value, 'left out if tracking_file is given')
    path = os.path.abspath(options.expanded(name, value))
    there = path
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    if not os.path.isdir(there):
        raise ParameterError(name, value, f'the path of a folder ({there} is not a folder)')
    if not os.access(there, os.W_OK | os.X_OK):
        raise ParameterError(name, value, f'{accepted} ({there} is not writable)', see('cannot-write'))
    return path


def per_process(options: Given, name: str, value: object) -> bool:
    """Check that there is a recording for the rows of each process."""
    is_wanted = flag(options, name, value)
    is_recording = options.tracking_file is not None and not options.records_rows_only
    if is_wanted and not is_recording and options.job_folder is None:
        raise ParameterError(name, value, 'False if no recording is written')
    return is_wanted


def as_text(_: str, text: str) -> str:
    """Return a text as it is."""
    return text


def as_path(_: str, text: str) -> str:
    """Return a path with the home folder in place of ~."""
    return os.path.expanduser(text)


def as_seconds(flag: str, text: str) -> float:
    """Read a number of seconds, or a time with its unit."""
    found = units.parse_time(text)
    return _as_number(float, flag, text, _INTERVALS_ACCEPTED) if found is None else found


def as_cores(flag: str, text: str) -> float | str:
    """Read a number of cores, or ``allowed``."""
    return text if text == ALLOWED else _as_number(int, flag, text, _CORES_ACCEPTED)


def as_percent(flag: str, text: str) -> float:
    """Read a percentage."""
    return _as_number(float, flag, text, _PERCENT_ACCEPTED)


def _as_number(kind: Callable[[str], float], flag: str, text: str, accepted: str) -> float:
    try:
        return kind(text.replace('_', '?'))  # Python allows underscores between digits, users of other programs do not
    except ValueError:
        raise ParameterError(flag, text, accepted) from None


def as_names(_: str, text: str) -> list[str]:
    """Read names with commas between them."""
    return [name.strip() for name in text.split(',')]


def as_uuids(flag: str, text: str) -> list[str]:
    """Read UUIDs with commas between them."""
    uuids = as_names(flag, text)
    if not all(uuids):
        raise ParameterError(flag, text, 'UUIDs of GPUs, separated by commas')
    return uuids
