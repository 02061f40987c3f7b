"""The target of a run: a command to start, or a running process."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from gpu_tracker import job
from gpu_tracker.cli import command_words, keeping, options, output
from gpu_tracker.errors import ParameterError
from gpu_tracker.running.options import OPTIONS
from gpu_tracker.system import files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
    """Return the process ID in ``--pid``; raise ParameterError if it is not one."""
    value = options.number('--pid', int, given, _PROCESS_ID)
    if value < 1:
        raise ParameterError('--pid', given, _PROCESS_ID)
    return value


_LIMITING = ('--time-limit', '--cpu-limit', '--memory-limit', '--gpu-memory-limit')


class Request(NamedTuple):
    """The requested tracking.

    Either ``words`` is the command to start or ``process_id`` the process to watch; ``parameters`` are Tracker's.
    ``verbose`` asks for the record of the sampling, ``live`` for a view of the run. ``commit_interval`` is in seconds;
    None: the usual one of a recording. ``limits`` end the command; None: there are none. ``own_group`` asks for a
    control group of the command's own. ``quiet`` asks for no lines about the run. ``adaptive`` names the figures with
    a unit of their own in the text. ``format`` is None for the short report on standard error. ``keeps`` asks for a
    recording that is kept under a number.
    """

    words: list[str]
    process_id: int | None
    destination: output.Destination
    format: str | None
    verbose: bool
    parameters: Mapping[str, Any]
    values: options.Values
    live: bool = False
    commit_interval: float | None = None
    limits: RunLimits | None = None
    own_group: bool = False
    quiet: bool = False
    adaptive: tuple[str, ...] = ()
    keeps: bool = False

    @property
    def form(self) -> tuple[str, tuple[str, ...], list[str]]:
        """The fields of a :class:`gpu_tracker.result.formats.Form`."""
        return self.format or '', self.adaptive, self.words if self.format == 'csv' else []

    @property
    def announces_end(self) -> bool:
        """Whether a line is printed when the tracking is complete."""
        return not (self.quiet or self.is_silent or self.values['<command>'])

    @property
    def is_silent(self) -> bool:
        """Whether a successful run prints nothing, because its report is in the folder of the job."""
        return 'job_folder' in self.parameters and self.values['--output'] is None


def read_request(values: options.Values) -> Request:
    """Return what ``values`` ask for.

    Raises UsageError if options do not go together, ParameterError if a value is wrong.
    """
    if (config := _text(values, '--tconfig')) is not None:
        from gpu_tracker.cli import config_files  # noqa: PLC0415 (rarely given, and JSON costs its import)

        unknown = config_files.set_options(values, config)
        if unknown and not values['--quiet']:
            output.complain(f'--tconfig: ignored unknown parameters: {", ".join(unknown)}')
    adaptive = take_adaptive_units(values)
    for names, message in _conflicts(values):
        if not any(map(values.drop_default, names)):
            raise options.UsageError(message)
    report_format = _format(values)
    if report_format is None:
        not_given = (kind for option, (kind, _) in _ADAPTIVE.items() if option not in values.written)
        adaptive = (*adaptive, *not_given)
    limits = _limits(values)
    appends = bool(values['--append'])
    destination = output.Destination(_own_path(values, '--output', shared=appends), appends=appends)
    destination.check(_text(values, '--output'))
    pid = _text(values, '--pid')
    parameters = _parameters(values)
    return Request(
        words=words_of(values),
        process_id=None if pid is None else process_id(pid),
        destination=destination,
        format=report_format,
        verbose=bool(values['--verbose']),
        parameters=parameters,
        values=values,
        live=bool(values['--live']),
        limits=limits,
        own_group=bool(values['--cgroup']),
        quiet=bool(values['--quiet']),
        adaptive=adaptive,
        keeps=keeping.wanted(values, os.environ),
    )


def _format(values: options.Values) -> str | None:
    """Return the format of the report; None: the short report of a command that was given as words."""
    given = _text(values, '--format')
    is_short = given is None and values['<command>'] and values['--output'] is None
    return None if is_short else 'text' if given is None else given


_Conflict = tuple[tuple[str, ...], str]
"""Options in conflict, or an option without the one it needs, and the message."""


def _excluded(values: options.Values, option: str, other: str, reason: str = '') -> Iterator[_Conflict]:
    if values[option] and values[other]:
        yield (option, other), f'{values.name(option)} and {values.name(other)} do not go together{reason}'


def _conflicts(values: options.Values) -> Iterator[_Conflict]:
    """Yield conflicts between options. Meanwhile, the caller drops defaults from the environment."""
    yield from _excluded(values, '--quiet', '--verbose')
    for option in _LIMITING:
        yield from _excluded(values, option, '--pid', ': limits end only commands that gpu-tracker started')
    yield from _excluded(values, '--cgroup', '--pid', ': a process that runs stays in its control group')
    if values['--kill-after'] is not None and all(values[option] is None for option in _LIMITING):
        known = f'{", ".join(_LIMITING[:-1])} or {_LIMITING[-1]}'
        yield ('--kill-after',), f'{values.name("--kill-after")} needs a limit: {known}'
    yield from _excluded(values, '--job', '--tf', ': with --job the recording is in its folder')
    yield from _excluded(values, '--keep', '--no-keep')
    yield from _excluded(values, '--keep', '--tf', ': the recording is in that file')
    yield from _excluded(values, '--keep', '--job', ': the recording is in its folder')
    if values['--append'] and (values['--output'] in {None, '-'} or values['--format'] != 'csv'):
        yield ('--append',), f'{values.name("--append")} needs --format=csv and --output: the file with the table'
    recording, report = _own_path(values, '--tf'), _own_path(values, '--output', shared=bool(values['--append']))
    if recording is not None and report is not None and os.path.realpath(recording) == os.path.realpath(report):
        yield ('--tf',), f'{values.name("--tf")} and {values.name("--output")} name the same file: {report}'
    is_recorded = values['--job'] is not None or not str(values['--tf'] or '.csv').endswith('.csv')
    if values['--per-process'] and not is_recorded:
        yield ('--per-process',), f'{values.name("--per-process")} needs --record or --job, and no CSV file'


_ADAPTIVE = {'--ru': ('ram', 'bytes'), '--gru': ('gpu_ram', 'bytes'), '--tu': ('time', 'seconds')}
"""The kind of figure of an option, and its unit before ``auto`` chooses one for each figure."""


def take_adaptive_units(values: options.Values) -> tuple[str, ...]:
    """Return the kinds of figures with ``auto``, and replace ``auto`` by a fixed unit.

    :raises UsageError: The format has a fixed unit.
    """
    found = []
    for option, (kind, unit) in _ADAPTIVE.items():
        is_shown = values['--format'] in {None, 'text', 'summary'}
        if _is_auto(values, option) and not is_shown and not any(map(values.drop_default, (option, '--format'))):
            raise options.UsageError(f'{values.name(option)}=auto needs --format=text or --format=summary')
        if _is_auto(values, option):
            values[option] = unit
            found.append(kind)
    return tuple(found)


def _is_auto(values: options.Values, option: str) -> bool:
    return str(values[option]).strip().lower() == 'auto'


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
    if not texts:
        return None
    from gpu_tracker import limits  # noqa: PLC0415 (most runs have none)

    return limits.of_options(texts, grace)


def _check_recording(values: options.Values, parameters: dict[str, Any]) -> None:
    """Expand ``{job}`` and the like in its paths."""
    path = _own_path(values, '--tf')
    if path is not None:
        parameters['tracking_file'] = path
    if (folder := _text(values, '--job')) is not None:
        if any(name in folder for name in ('{rank}', '{pid}', '{date}')):
            raise ParameterError('--job', folder, 'the same folder for all ranks, without {rank}, {pid} and {date}')
        parameters['job_folder'] = job.expand(parameters['job_folder'], '--job', _identity(values))


def _own_path(values: options.Values, option: str, *, shared: bool = False) -> str | None:
    """Return the path of an option, with ``{job}`` and the like expanded.

    :param shared: Whether several ranks may write it.
    :raises ParameterError: Other ranks of the job would write the same file.
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
    """Return the job and rank of the run."""
    pid = _text(values, '--pid')
    if pid is None:
        return job.identify(os.environ, os.getpid())
    return job.identity_of(process_id(pid))


def _text(values: options.Values, name: str) -> str | None:
    """Return the value of the option ``name`` as docopt has read it."""
    value = values[name]
    return value if isinstance(value, str) else None
