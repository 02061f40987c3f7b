"""The options of a run in one table: from it come ``Tracker``, ``gput.run``, the command line, its help and the magics.

To add one: a line in :data:`OPTIONS`, its types in :class:`TrackerOptions` and :class:`Options`, and the parameter of
:class:`~gpu_tracker.Tracker` with its meaning. Pure, except that it checks whether a process exists and a path can be
written.
"""

from __future__ import annotations

import math
import operator
import sys

from gpu_tracker import units
from gpu_tracker.errors import ParameterError, see
from gpu_tracker.job import FIELDS, checked, expand, identify, identity_of
from gpu_tracker.processes import process_exists
from gpu_tracker.real import os
from gpu_tracker.recording.writing import tracking_file as files
from gpu_tracker.resources import SECTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence
    from typing import Any, Literal, TypedDict

    from gpu_tracker.usage import JobIdentity

    class TrackerOptions(TypedDict, total=False):
        """The parameters of :class:`~gpu_tracker.Tracker` but for ``process_id``."""

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

    Check = Callable[['Options', str, Any], Any]
    """Returns a value in the form in which it is used; it gets the options before it, the name, and what was given."""


ALLOWED = 'allowed'
"""Stands for the number of cores that affinity and control groups leave to the tracked process."""
QUICK_STOP: Mapping[str, Any] = {'n_join_attempts': 1, 'join_timeout': 5.0}
"""For front ends that wait for the result of a command: the sampler takes 20 ms as a rule."""
_LONGEST = 1e9
"""Seconds: above this, clocks and timeouts overflow on some systems."""
_MOST_PERCENT = 100
_COUNT_ACCEPTED = 'a whole number of at least 1'
_CORES_ACCEPTED = f"{_COUNT_ACCEPTED}, or '{ALLOWED}'"
_SECONDS_ACCEPTED = 'a positive number of seconds'
_INTERVALS_ACCEPTED = f'{_SECONDS_ACCEPTED}, or a time with its unit such as 100ms'
_PERCENT_ACCEPTED = 'a percentage of one core, above 0 and at most 100'
_FILE_ACCEPTED = 'the path of a file in a folder that can be written'


class Options:
    """The options of a run, checked, in the form in which they are used.

    :raises ParameterError: if a value cannot be used; it names the option, the value and what is accepted.
    """

    sleep_time: float
    ram_unit: str
    gpu_ram_unit: str
    time_unit: str
    n_expected_cores: int | None
    """None: all cores of the machine."""
    gpu_uuids: tuple[str, ...] | None
    disable_logs: bool
    process_id: int
    resource_usage_file: str | None
    n_join_attempts: int
    join_timeout: float
    gpu_brand: tuple[str, ...] | None
    max_overhead_percent: float | None
    cuda: bool
    sections: tuple[str, ...]
    """The optional sections, ``cuda`` among them if that is given."""
    tracking_file: str | None
    overwrite: bool
    per_process: bool
    job_folder: str | None
    job: dict[str, Any] | None
    """The fields of the identity that was given."""

    def __init__(self, **given: Any) -> None:  # noqa: ANN401 - of any type: it is checked
        values = {option.name: option.default for option in OPTIONS} | given
        if values['process_id'] is None:
            values['process_id'] = os.getpid()
        for option in OPTIONS:
            value = values.pop(option.name)
            is_left_out = value is None and option.default is None
            setattr(self, option.name, None if is_left_out else option.check(self, option.name, value))
        if values:
            raise TypeError(f'there is no option {next(iter(values))!r}')

    @property
    def records_rows_only(self) -> bool:
        """Whether the tracking file is a CSV file."""
        return self.tracking_file is not None and self.tracking_file.endswith('.csv')

    def units(self) -> tuple[str, str, str, int | None]:
        """Return the fields of :class:`gpu_tracker.units.Units`."""
        return self.ram_unit, self.gpu_ram_unit, self.time_unit, self.n_expected_cores

    def expanded(self, name: str, value: str | os.PathLike[str]) -> str:
        """Return a path with the fields in braces replaced."""
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


def _positive(_: Options, name: str, value: object) -> float:
    number = _number(value)
    if number is None or not math.isfinite(number) or number <= 0:
        raise ParameterError(name, value, _SECONDS_ACCEPTED)
    if number > _LONGEST:
        raise ParameterError(name, value, f'{_SECONDS_ACCEPTED}, at most {_LONGEST:.0f}')
    return number


def _percent(_: Options, name: str, value: object) -> float:
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


def _count(_: Options, name: str, value: object, accepted: str = _COUNT_ACCEPTED) -> int:
    try:
        count = operator.index(value)  # type: ignore[arg-type]  # what has no __index__ is a TypeError
    except TypeError:
        count = 0
    if isinstance(value, bool) or count < 1:
        raise ParameterError(name, value, accepted)
    return count


def _cores(options: Options, name: str, value: object) -> int | None:
    if isinstance(value, str) and value == ALLOWED:
        if sys.platform != 'linux':
            return None  # nothing is known there that limits a process: all cores are expected
        from gpu_tracker.control_groups.allowed import expected_cores  # noqa: PLC0415 - only if it is asked for

        return expected_cores(options.process_id)
    return _count(options, name, value, _CORES_ACCEPTED)


def _truth(_: Options, __: str, value: object) -> bool:
    return bool(value)


def _flag(_: Options, name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ParameterError(name, value, 'True or False')
    return value


def _sections(options: Options, name: str, value: object) -> tuple[str, ...]:
    """Return the names of optional sections, each once and in the order of the table."""
    if isinstance(value, str) or not hasattr(value, '__iter__'):
        raise ParameterError(name, value, f'a sequence of names, each {_alternatives(SECTIONS)}')
    wanted = {_one_of(name, section, SECTIONS) for section in value}
    return tuple(section for section in SECTIONS if section in wanted or (options.cuda and section == 'cuda'))


def _one_of(name: str, value: object, accepted: Container[str] | Sequence[str]) -> str:
    if not isinstance(value, str) or value not in accepted:
        raise ParameterError(name, value, _alternatives(accepted))
    return value


def _memory_unit(_: Options, name: str, value: object) -> str:
    return _unit(name, value, units.memory_unit, units.UNITS_ACCEPTED)


def _time_unit(_: Options, name: str, value: object) -> str:
    return _unit(name, value, units.time_unit, units.TIME_UNITS_ACCEPTED)


def _unit(name: str, value: object, read: Callable[[str], str | None], accepted: str) -> str:
    found = read(value) if isinstance(value, str) else None
    if found is None:
        raise ParameterError(name, value, accepted)
    return found


def _brands(_: Options, __: str, value: object) -> tuple[str, ...]:
    from gpu_tracker.gpus import check_brands  # noqa: PLC0415 - most users leave the choice to us

    return check_brands(value)


def _alternatives(words: object) -> str:
    quoted = [repr(word) for word in words]  # type: ignore[attr-defined]  # a dict's keys
    return quoted[0] if len(quoted) == 1 else f'{", ".join(quoted[:-1])} or {quoted[-1]}'


def _uuids(_: Options, name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not hasattr(value, '__iter__'):
        raise ParameterError(name, value, 'a sequence of UUIDs of GPUs')
    uuids = tuple(value)
    if not uuids or not all(isinstance(uuid, str) and uuid for uuid in uuids):
        raise ParameterError(name, value, 'at least one UUID of a GPU')
    return tuple(dict.fromkeys(uuids))


def _process(_: Options, name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ParameterError(name, value, 'the id of a process that exists')
    if not process_exists(value):
        raise ParameterError(name, value, 'the id of a process that exists', see('no-such-process'))
    return value


def _job(_: Options, name: str, value: object) -> dict[str, Any]:
    accepted = 'a gpu_tracker.JobIdentity'
    names = getattr(type(value), '__slots__', ())
    if not set(FIELDS).issubset(names):
        raise ParameterError(name, value, accepted)
    try:
        return checked({field: getattr(value, field) for field in FIELDS})
    except ValueError as error:
        raise ParameterError(name, value, f'{accepted} ({error})') from None


def _usage_file(options: Options, name: str, value: object) -> str:
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
        raise ParameterError(name, value, _FILE_ACCEPTED)
    path = os.path.abspath(options.expanded(name, value))
    folder = os.path.dirname(os.path.realpath(path))
    if os.path.isdir(path) or not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise ParameterError(name, value, _FILE_ACCEPTED, see('cannot-write'))
    return path


def _tracking_file(options: Options, name: str, value: object) -> str:
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
        raise ParameterError(name, value, _FILE_ACCEPTED)
    path = files.whole_path(options.expanded(name, value))
    if os.fsdecode(value).endswith('/'):
        raise ParameterError(name, value, 'the path of a file, not of a folder')
    files.check(path, value, overwrite=options.overwrite)
    if options.resource_usage_file is not None and path == files.whole_path(options.resource_usage_file):
        raise ParameterError(name, value, 'another file than resource_usage_file')
    return path


def _job_folder(options: Options, name: str, value: object) -> str:
    accepted = 'the path of a folder that is there, or can be made'
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
        raise ParameterError(name, value, accepted)
    if options.tracking_file is not None:
        raise ParameterError(name, value, 'left out where there is a tracking_file: it has the recording')
    path = os.path.abspath(options.expanded(name, value))
    there = path
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    if not os.path.isdir(there):
        raise ParameterError(name, value, f'the path of a folder ({there} is none)')
    if not os.access(there, os.W_OK | os.X_OK):
        raise ParameterError(name, value, f'{accepted} ({there} may not be written)', see('cannot-write'))
    return path


def _per_process(options: Options, name: str, value: object) -> bool:
    is_wanted = _flag(options, name, value)
    is_recording = options.tracking_file is not None and not options.records_rows_only
    if is_wanted and not is_recording and options.job_folder is None:
        raise ParameterError(name, value, 'False without a tracking_file that is a recording')
    return is_wanted


def _as_text(_: str, text: str) -> str:
    return text


def _as_path(_: str, text: str) -> str:
    return os.path.expanduser(text)


def _as_seconds(flag: str, text: str) -> float:
    found = units.parse_time(text)
    return _as_number(float, flag, text, _INTERVALS_ACCEPTED) if found is None else found


def _as_cores(flag: str, text: str) -> float | str:
    return text if text == ALLOWED else _as_number(int, flag, text, _CORES_ACCEPTED)


def _as_percent(flag: str, text: str) -> float:
    return _as_number(float, flag, text, _PERCENT_ACCEPTED)


def _as_number(kind: Callable[[str], float], flag: str, text: str, accepted: str) -> float:
    try:
        return kind(text.replace('_', '?'))  # Python allows underscores between digits, users of other programs do not
    except ValueError:
        raise ParameterError(flag, text, accepted) from None


def _as_names(_: str, text: str) -> list[str]:
    return [name.strip() for name in text.split(',')]


def _as_uuids(flag: str, text: str) -> list[str]:
    uuids = _as_names(flag, text)
    if not all(uuids):
        raise ParameterError(flag, text, 'UUIDs of GPUs with commas between them')
    return uuids


class Option:
    """One option.

    :ivar name: The parameter of :class:`~gpu_tracker.Tracker`, ``gput.run`` and ``@gput.track``.
    :ivar check: Returns the value in the form in which it is used, or raises ParameterError.
    :ivar flags: Its names on the command line, the usual one last; none: it has no option there.
    :ivar value: What stands for its value in the help; empty: it is a switch.
    :ivar default: Its value if it is not given; None: it is left out.
    :ivar read: Returns the value for a text; it gets the flag and the text.
    :ivar in_notebook: The magics have the option too.
    :ivar help: What it is for, with its unit and what is accepted.
    """

    __slots__ = ('check', 'default', 'flags', 'help', 'in_notebook', 'name', 'read', 'value')

    def __init__(
        self,
        name: str,
        check: Check,
        flags: tuple[str, ...] = (),
        value: str = '',
        *,
        default: object = None,
        read: Callable[[str, str], Any] = _as_text,
        in_notebook: bool = False,
        help: str = '',  # noqa: A002 - as argparse calls it
    ) -> None:
        self.name = name
        self.default = default
        self.check = check
        self.flags = flags
        self.value = value
        self.read = read
        self.in_notebook = in_notebook
        self.help = help

    @property
    def flag(self) -> str:
        """The usual name on the command line; empty if there is none."""
        return self.flags[-1] if self.flags else ''


OPTIONS = (
    Option('job', _job),
    Option('process_id', _process),
    Option(
        'sleep_time',
        _positive,
        ('--interval', '--st'),
        'time',
        default=1.0,
        read=_as_seconds,
        in_notebook=True,
        help='The time between two samples: a positive number of seconds, or with its unit as in 100ms.',
    ),
    Option(
        'ram_unit',
        _memory_unit,
        ('--ru',),
        'unit',
        default='gigabytes',
        in_notebook=True,
        help='The unit of RAM: bytes, kilobytes, megabytes, gigabytes or terabytes, in short B, kB, MB, GB, TB; KiB, '
        'MiB, GiB or TiB. With --format=text or summary also auto: the unit that suits each figure.',
    ),
    Option(
        'gpu_ram_unit',
        _memory_unit,
        ('--gru',),
        'unit',
        default='gigabytes',
        in_notebook=True,
        help='The unit of GPU RAM: the same units as --ru.',
    ),
    Option(
        'time_unit',
        _time_unit,
        ('--tu',),
        'unit',
        default='hours',
        in_notebook=True,
        help='The unit of time: seconds, minutes, hours or days, in short s, min, h or d; or auto, as with --ru.',
    ),
    Option(
        'n_expected_cores',
        _cores,
        ('--nec',),
        'cores',
        read=_as_cores,
        in_notebook=True,
        help='How many cores the program is expected to use. Its hardware percentages are divided by them. A positive '
        'whole number, or allowed: the cores that affinity and control groups leave to it. Default: all cores of the '
        'machine.',
    ),
    Option(
        'gpu_uuids',
        _uuids,
        ('--guuids',),
        'uuids',
        read=_as_uuids,
        in_notebook=True,
        help='The GPUs whose utilization counts: UUIDs with commas between them. Default: all GPUs.',
    ),
    Option(
        'gpu_brand',
        _brands,
        ('--gb',),
        'brand',
        help="Only GPUs of this brand: nvidia, amd, intel or drm (all but those of NVIDIA's own driver), or several "
        'with commas between them. Default: all GPUs; integrated ones count once the program has memory there.',
    ),
    Option(
        'max_overhead_percent',
        _percent,
        ('--max-overhead',),
        'percent',
        read=_as_percent,
        in_notebook=True,
        help='What measuring may cost, in percent of one core: above 0 and at most 100. Past it, samples are skipped.',
    ),
    Option(
        'cuda',
        _flag,
        ('--cuda',),
        default=False,
        help='Also report its CUDA calls: launches, memory, streams. Needs libbpf and the right to load BPF programs; '
        'without them there is a warning.',
    ),
    Option(
        'sections',
        _sections,
        ('--sections',),
        'names',
        default=(),
        read=_as_names,
        in_notebook=True,
        help='What else to report, with commas between: io (what it reads and writes), energy (of GPUs and CPUs), '
        'cuda.',
    ),
    Option('resource_usage_file', _usage_file),
    Option(
        'overwrite',
        _flag,
        ('--overwrite',),
        default=False,
        in_notebook=True,
        help='Replace a recording that is there already.',
    ),
    Option(
        'tracking_file',
        _tracking_file,
        ('--tracking-file', '--tf'),
        'file',
        read=_as_path,
        in_notebook=True,
        help='Record the run into a file: a path. gpu-tracker show reads it. A file whose name ends in .csv holds the '
        'samples alone.',
    ),
    Option(
        'job_folder',
        _job_folder,
        ('--job',),
        'folder',
        read=_as_path,
        help='Write what this rank of a job uses, with a recording, into a folder that all ranks share. gpu-tracker '
        'merge <folder> makes one report of them. Nothing is printed then.',
    ),
    Option(
        'per_process',
        _per_process,
        ('--per-process',),
        default=False,
        in_notebook=True,
        help='Record each process by itself too.',
    ),
    Option('n_join_attempts', _count, default=5),
    Option('join_timeout', _positive, default=10.0),
    Option(
        'disable_logs',
        _truth,
        ('--disable-logs',),
        default=False,
        help='Print no warnings. Errors and the report are printed all the same.',
    ),
)
"""All options, in the order in which they are checked: a check may use the options above it."""
