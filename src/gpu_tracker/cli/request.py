"""The target of a run: a command to start, or a running process."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from gpu_tracker import job
from gpu_tracker.cli import command_words, options, output
from gpu_tracker.errors import ParameterError
from gpu_tracker.running.options import OPTIONS
from gpu_tracker.system import files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_tracker.limits import RunLimits

_PROCESS_ID = 'a positive whole number'


def words_of(values: options.Values) -> list[str]:
    """Return the words of the command to start; there are none if a process is given.

    :raises UsageError: It is empty.
    """
    program, command = values['<command>'], _text(values, '--execute')
    if command is None:
        return program if isinstance(program, list) else []
    if not command.strip():
        raise options.UsageError('the command is empty')
    return command_words.words_to_start(command, os.get_exec_path())


def process_id(given: str) -> int:
    """Return the process ID that ``--pid`` was given; raise ParameterError if it is none."""
    value = options.number('--pid', int, given, _PROCESS_ID)
    if value < 1:
        raise ParameterError('--pid', given, _PROCESS_ID)
    return value


_LIMITING = ('--time-limit', '--cpu-limit', '--memory-limit', '--gpu-memory-limit')


class Request(NamedTuple):
    """A tracking that was asked for.

    Either ``words`` is the command to start or ``process_id`` the process to watch; ``parameters`` are Tracker's.
    ``verbose`` asks for the record of the sampling, ``live`` for a view of the run. ``commit_interval`` is in seconds;
    None: the usual one of a recording. ``limits`` end the command; None: there are none. ``own_group`` asks for a
    control group of the command's own. ``quiet`` asks for no lines about the run. ``adaptive`` names the figures with
    a unit of their own in the text.
    """

    words: list[str]
    process_id: int | None
    destination: output.Destination
    format: str
    verbose: bool
    parameters: Mapping[str, Any]
    values: options.Values
    live: bool = False
    commit_interval: float | None = None
    limits: RunLimits | None = None
    own_group: bool = False
    quiet: bool = False
    adaptive: tuple[str, ...] = ()

    @property
    def form(self) -> tuple[str, tuple[str, ...], list[str]]:
        """The fields of a :class:`gpu_tracker.result.formats.Form`."""
        return self.format, self.adaptive, self.words if self.format == 'csv' else []

    @property
    def is_silent(self) -> bool:
        """Whether nothing is to be printed of a run in which all goes well: the folder of the job has it."""
        return 'job_folder' in self.parameters and self.values['--output'] is None


def read_request(values: options.Values) -> Request:
    """Return what ``values`` ask for.

    Raises UsageError if options do not go together, ParameterError if a value is wrong.
    """
    if values['--quiet'] and values['--verbose']:
        raise options.UsageError(f'{values.name("--quiet")} and {values.name("--verbose")} do not go together')
    if (config := _text(values, '--tconfig')) is not None:
        from gpu_tracker.cli import config_files  # noqa: PLC0415 (rarely given, and JSON costs its import)

        found, unknown = config_files.option_values(config_files.read_object('--tconfig', config), values.written)
        values.update(found)
        if unknown and not values['--quiet']:
            output.complain(f'--tconfig: no option has these names, so they are ignored: {", ".join(unknown)}')
    limits = _limits(values)
    destination = _destination(values)
    destination.check(_text(values, '--output'))
    pid = _text(values, '--pid')
    adaptive = take_adaptive_units(values)
    parameters = _parameters(values)
    recording = parameters.get('tracking_file')
    if recording is not None and destination.leads_to(recording):
        raise ParameterError('--tf', recording, 'another file than --output')
    if values['--cgroup'] and pid is not None:
        raise options.UsageError(
            f'{values.name("--cgroup")} and --pid do not go together: a process that runs stays in its control group'
        )
    return Request(
        words=words_of(values),
        process_id=None if pid is None else process_id(pid),
        destination=destination,
        format=_text(values, '--format') or '',
        verbose=bool(values['--verbose']),
        parameters=parameters,
        values=values,
        live=bool(values['--live']),
        limits=limits,
        own_group=bool(values['--cgroup']),
        quiet=bool(values['--quiet']),
        adaptive=adaptive,
    )


def _destination(values: options.Values) -> output.Destination:
    """Return where the report goes."""
    appends = bool(values['--append'])
    path = _own_path(values, '--output', shared=appends)
    if appends and (path is None or values['--format'] != 'csv'):
        raise options.UsageError(f'{values.name("--append")} needs --format=csv and --output: the file with the table')
    return output.Destination(path, appends=appends)


_ADAPTIVE = {'--ru': ('ram', 'bytes'), '--gru': ('gpu_ram', 'bytes'), '--tu': ('time', 'seconds')}
"""What an option is for, and the unit that ``auto`` stands for, from which each figure gets its own."""


def take_adaptive_units(values: options.Values) -> tuple[str, ...]:
    """Return what is shown in the unit that suits each figure, and put the unit behind that in place of ``auto``."""
    found = []
    for option, (kind, unit) in _ADAPTIVE.items():
        given = _text(values, option)
        if given is not None and given.strip().lower() == 'auto':
            if values['--format'] not in {'text', 'summary'}:
                raise ParameterError(option, given, 'a unit: auto is for --format=text and summary alone')
            values[option] = unit
            found.append(kind)
    return tuple(found)


def _parameters(values: options.Values) -> dict[str, Any]:
    """Return the parameters of Tracker that the options set; those not given keep Tracker's own defaults."""
    found: dict[str, Any] = {}
    for option in OPTIONS:
        given = values[option.flag] if option.flag else None
        if isinstance(given, str):
            found[option.name] = option.read(option.flag, given)
        elif given:
            found[option.name] = True
    found['disable_logs'] = bool(values['--disable-logs'] or values['--quiet'])
    _check_recording(values, found)
    return found


def _limits(values: options.Values) -> RunLimits | None:
    """Return the limits that the options set; None: there are none."""
    texts = {option: text for option in _LIMITING if (text := _text(values, option)) is not None}
    grace = _text(values, '--kill-after')
    if not texts and grace is None:
        return None
    if not texts:
        known = f'{", ".join(_LIMITING[:-1])} or {_LIMITING[-1]}'
        raise options.UsageError(f'{values.name("--kill-after")} needs a limit: {known}')
    if values['--pid'] is not None:
        raise options.UsageError(
            f'{values.name(next(iter(texts)))} and --pid do not go together: '
            'only what gpu-tracker has started itself is ended by a limit'
        )
    from gpu_tracker import limits  # noqa: PLC0415 (most runs have none)

    return limits.of_options(texts, grace)


def _check_recording(values: options.Values, parameters: dict[str, Any]) -> None:
    """Check how the options of a recording go together, and replace what stands in braces in its paths."""
    path = _own_path(values, '--tf')
    if path is not None:
        parameters['tracking_file'] = path
    if (folder := _text(values, '--job')) is not None:
        if path is not None:
            raise options.UsageError(
                f'--job and {values.name("--tf")} do not go together: with --job the recording is in its folder'
            )
        if '{rank}' in folder or '{pid}' in folder:
            raise ParameterError('--job', folder, 'the same folder for all ranks, without {rank} and {pid}')
        parameters['job_folder'] = job.expand(parameters['job_folder'], '--job', _identity(values))
    if values['--per-process'] and path is None and folder is None:
        raise options.UsageError(f'{values.name("--per-process")} needs --record or --job')


def _own_path(values: options.Values, option: str, *, shared: bool = False) -> str | None:
    """Return the path of an option, with what stands in braces replaced.

    :param shared: Whether several ranks may write it.
    :raises ParameterError: where other ranks of the job would write the same file.
    """
    path = _text(values, option)
    if path is None or (option == '--output' and path == '-'):
        return None
    path = os.path.expanduser(path)
    identity = _identity(values)
    if not shared and (option != '--output' or files.replaceable_file_or_none(path) is not None):
        job.check_own_path(path, option, identity)
    return job.expand(path, option, identity)


def _identity(values: options.Values) -> Mapping[str, Any] | None:
    """Return the place in a job of what is to be tracked."""
    pid = _text(values, '--pid')
    if pid is None:
        return job.identify(os.environ, os.getpid())
    return job.identity_of(process_id(pid))


def _text(values: options.Values, name: str) -> str | None:
    """Return the value of the option ``name`` as docopt has read it."""
    value = values[name]
    return value if isinstance(value, str) else None
