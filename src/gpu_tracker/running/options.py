"""The options of a run in one table: from it come ``Tracker``, ``gput.run``, the command line, its help and the magics.

To add one: a line in :data:`OPTIONS`, its types in :class:`TrackerOptions` and :class:`Options`, and the parameter of
:class:`~gpu_tracker.Tracker` with its meaning.
"""

from __future__ import annotations

from gpu_tracker.errors import ParameterError
from gpu_tracker.job import expand, identify, identity_of
from gpu_tracker.real import os
from gpu_tracker.running import checks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Literal, TypedDict

    from gpu_tracker.result.usage import JobIdentity

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


QUICK_STOP: Mapping[str, Any] = {'n_join_attempts': 1, 'join_timeout': 5.0}
"""For front ends that wait for the result of a command: the sampler takes 20 ms as a rule."""


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
        if '\0' in path:
            raise ParameterError(name, value, 'a path without null bytes')
        if '{' not in path:
            return path
        if self.job is not None:
            identity: Mapping[str, Any] | None = self.job
        elif self.process_id == os.getpid():
            identity = identify(os.environ, os.getpid())
        else:
            identity = identity_of(self.process_id)
        return expand(path, name, identity)


class Option:
    """One option.

    :ivar name: The parameter of :class:`~gpu_tracker.Tracker`, ``gput.run`` and ``@gput.track``.
    :ivar check: Returns the value in the form in which it is used, or raises ParameterError.
    :ivar flags: Its names on the command line, a plain word first and the shortest last; none: it has no option there.
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
        read: Callable[[str, str], Any] = checks.as_text,
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
        """The shortest name on the command line; empty if there is none."""
        return self.flags[-1] if self.flags else ''


OPTIONS = (
    Option('job', checks.job),
    Option('process_id', checks.process),
    Option(
        'sleep_time',
        checks.positive,
        ('--sleep-time', '--interval', '--st'),
        'time',
        default=1.0,
        read=checks.as_seconds,
        in_notebook=True,
        help='The time between two samples, in seconds or with a unit, such as 100ms.',
    ),
    Option(
        'ram_unit',
        checks.memory_unit,
        ('--ram-unit', '--ru'),
        'unit',
        default='gigabytes',
        in_notebook=True,
        help='The unit of RAM: B, kB, MB, GB, TB, KiB, MiB, GiB or TiB, or a whole word: bytes, kilobytes, '
        'megabytes, gigabytes or terabytes. With auto, each figure has a unit that fits its size.',
    ),
    Option(
        'gpu_ram_unit',
        checks.memory_unit,
        ('--gpu-ram-unit', '--gru'),
        'unit',
        default='gigabytes',
        in_notebook=True,
        help='The unit of GPU RAM, such as GiB or auto. See --ram-unit for all units.',
    ),
    Option(
        'time_unit',
        checks.time_unit,
        ('--time-unit', '--tu'),
        'unit',
        default='hours',
        in_notebook=True,
        help='The unit of time: s, min, h or d, or a whole word: seconds, minutes, hours or days. With auto, each '
        'time has a unit that fits its length.',
    ),
    Option(
        'n_expected_cores',
        checks.cores,
        ('--expected-cores', '--nec'),
        'cores',
        read=checks.as_cores,
        in_notebook=True,
        help='CPU utilization of the hardware is 100 % if this number of cores is busy. With allowed, gpu-tracker '
        'counts the cores that CPU affinity and control groups allow. Default: all cores of the machine.',
    ),
    Option(
        'gpu_uuids',
        checks.uuids,
        ('--gpu-uuids', '--guuids'),
        'uuids',
        read=checks.as_uuids,
        in_notebook=True,
        help='Report GPU utilization only for the GPUs with these UUIDs, separated by commas. Default: all GPUs.',
    ),
    Option(
        'gpu_brand',
        checks.brands,
        ('--gpu-brand', '--gb'),
        'brand',
        help='Measure only GPUs of these brands, separated by commas: nvidia, amd, intel, or drm for all GPUs that do '
        "not use NVIDIA's own driver. Default: all GPUs, with integrated GPUs only if the program uses their memory.",
    ),
    Option(
        'max_overhead_percent',
        checks.percent,
        ('--max-overhead',),
        'percent',
        read=checks.as_percent,
        in_notebook=True,
        help='Limit the CPU time for sampling to this percentage of one core. Above the limit, gpu-tracker skips '
        'samples.',
    ),
    Option(
        'cuda',
        checks.flag,
        ('--cuda',),
        default=False,
        help='Also report CUDA calls, such as kernel launches and memory allocations. This needs the library libbpf '
        'and the right to load BPF programs.',
    ),
    Option(
        'sections',
        checks.sections,
        ('--sections',),
        'names',
        default=(),
        read=checks.as_names,
        in_notebook=True,
        help='Add these sections to the report, separated by commas: io (reads and writes), energy (of GPUs and CPUs), '
        'gpu_activity (use of SMs and tensor cores), cuda (CUDA calls).',
    ),
    Option('resource_usage_file', checks.usage_file),
    Option(
        'overwrite',
        checks.flag,
        ('--overwrite',),
        default=False,
        in_notebook=True,
        help='Replace an older recording in the file of --record. By default, an older recording is renamed.',
    ),
    Option(
        'tracking_file',
        checks.tracking_file,
        ('--record', '--tracking-file', '--tf'),
        'file',
        read=checks.as_path,
        in_notebook=True,
        help='Record the run in this file, for gpu-tracker show, report and plot. Exception: a .csv file has only '
        'samples, and these commands cannot read CSV files.',
    ),
    Option(
        'job_folder',
        checks.job_folder,
        ('--job',),
        'folder',
        read=checks.as_path,
        help='Print nothing, and write the report and recording of this rank into a folder that all ranks of the job '
        'share. gpu-tracker merge <folder> then makes one report of all ranks.',
    ),
    Option(
        'per_process',
        checks.per_process,
        ('--per-process',),
        default=False,
        in_notebook=True,
        help='Add the figures of each single process to the recording of --record or --job.',
    ),
    Option('n_join_attempts', checks.count, default=5),
    Option('join_timeout', checks.positive, default=10.0),
    Option(
        'disable_logs',
        checks.flag,
        ('--disable-logs',),
        default=False,
        help='Print errors and the report, but no warnings.',
    ),
)
"""All options, in the order in which they are checked: a check may use the options above it."""
