"""The options of ``%%track`` and ``%track``: their help, and how they become parameters of a tracker."""

from __future__ import annotations

import keyword
import os
import re
import shlex
from typing import TYPE_CHECKING, Any, NamedTuple

from IPython.core.error import UsageError
from IPython.core.magic_arguments import MagicArgumentParser
from IPython.utils.text import DollarFormatter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpu_tracker.errors import ParameterError

MAGIC = 'track'
_DEFAULTS = {'sleep_time': 0.1, 'ram_unit': 'megabytes', 'gpu_ram_unit': 'megabytes', 'time_unit': 'seconds'}
"""Those of the magic: cells are shorter than commands."""
_LEADING_OPTIONS = re.compile(r"""(?:\s*--[\w-]+(?:=(?:"[^"]*"|'[^']*'|\S)*)?(?=\s|$))*""")
_DESCRIPTION = """
Track a cell or a statement, and show below it what it has used with all that it has started.

%%track in the first line of a cell tracks the cell: %%track --st=0.05 --sections=io
%track tracks a statement: %track --name=run work()
"""


class _Option(NamedTuple):
    """An option.

    :ivar name: As it is written.
    :ivar metavar: What its value is; None: it has none.
    :ivar parameter: That of the tracker; None: it is of the magic alone.
    """

    name: str
    metavar: str | None
    parameter: str | None
    help: str


_OPTIONS = (
    _Option('--st', 'SECONDS', 'sleep_time', 'Seconds between two samples; 0.1 where not given.'),
    _Option('--sections', 'NAMES', 'sections', 'What else to measure, with commas between: io, energy, cuda.'),
    _Option('--tf', 'FILE', 'tracking_file', 'Keep the recording in this file.'),
    _Option('--overwrite', None, 'overwrite', 'Replace a recording that is there already.'),
    _Option('--per-process', None, 'per_process', 'Record each process by itself too.'),
    _Option('--report', None, None, 'Show the full report below.'),
    _Option('--name', 'VARIABLE', None, 'Keep the tracker, with its result, in this variable.'),
    _Option(
        '--ru',
        'UNIT',
        'ram_unit',
        'The unit of RAM in that result: bytes, kilobytes, megabytes (so where not given) and so on.',
    ),
    _Option('--gru', 'UNIT', 'gpu_ram_unit', 'The same of GPU RAM.'),
    _Option(
        '--tu',
        'UNIT',
        'time_unit',
        'The unit of time in that result: seconds (so where not given), minutes, hours or days.',
    ),
    _Option(
        '--nec',
        'CORES',
        'n_expected_cores',
        'How many cores the code is expected to use; allowed: all that it may.',
    ),
    _Option('--guuids', 'UUIDS', 'gpu_uuids', 'The GPUs whose utilization counts, with commas between.'),
    _Option('--max-overhead', 'PERCENT', 'max_overhead_percent', 'What measuring may cost, in percent of one core.'),
)
_NAMES = {option.parameter: option.name for option in _OPTIONS}
_ACCEPTED = ', '.join(
    option.name if option.metavar is None else f'{option.name}={option.metavar}' for option in _OPTIONS
)
_LISTS = {'sections', 'gpu_uuids'}
_NUMBERS: Mapping[str, Callable[[str], float]] = {
    'sleep_time': float,
    'max_overhead_percent': float,
    'n_expected_cores': int,
}


class Request(NamedTuple):
    """What is asked for.

    :ivar parameters: Those of the tracker.
    :ivar shows_report: The full report is shown too.
    :ivar variable: The name of the variable that the tracker is kept in.
    """

    parameters: dict[str, Any]
    shows_report: bool
    variable: str | None


def read(text: str, variables: Mapping[str, object]) -> Request:
    """Return what options ask for. ``$name`` and ``{name}`` are values of ``variables``, as in other magics.

    :raises UsageError: where an option is not known, or has no value; it names what is accepted.
    """
    try:
        given = _PARSER.parse_args(shlex.split(_expanded(text, variables)))
    except (UsageError, ValueError) as error:
        raise UsageError(f'%{MAGIC}: {error}; accepted are {_ACCEPTED}') from None
    values = {option.parameter: getattr(given, _key(option)) for option in _OPTIONS if option.parameter}
    variable, file = given.name, given.tf
    if variable is not None and (not variable.isidentifier() or keyword.iskeyword(variable)):
        raise UsageError(f'--name must be the name of a variable, not {variable!r}')
    if given.report and file is not None and file.endswith('.csv'):
        raise UsageError(f'--report needs a recording: --tf must be a path without the ending .csv, not {file!r}')
    parameters = {name: _value(name, value) for name, value in values.items() if value is not None}
    return Request({**_DEFAULTS, **parameters}, given.report, variable)


def refusal(error: ParameterError) -> UsageError:
    """Return what is to be said of a parameter that the tracker refuses, by the name of the option."""
    accepted = error.accepted.replace('unless overwrite', 'unless --overwrite')
    return UsageError(f'{_NAMES.get(error.parameter, error.parameter)} must be {accepted}, not {error.value!r}')


def end_of_options(line: str) -> int:
    """Return where the statement begins in a line that begins with options, each of them one word."""
    found = _LEADING_OPTIONS.match(line)
    return 0 if found is None else found.end()


def help_text() -> str:
    """Return what ``%track?`` shows."""
    return _PARSER.format_help()


def _key(option: _Option) -> str:
    return option.name.removeprefix('--').replace('-', '_')


def _value(parameter: str, given: Any) -> Any:  # noqa: ANN401 - what the tracker takes, which checks it
    """Return a value as the tracker takes it; what cannot be a number stays a text, which the tracker refuses."""
    if parameter in _LISTS:
        return [part.strip() for part in given.split(',') if part.strip()]
    if parameter == 'tracking_file':
        return os.path.expanduser(given)
    if parameter not in _NUMBERS:
        return given
    try:
        return _NUMBERS[parameter](given)
    except ValueError:
        return given


def _expanded(text: str, variables: Mapping[str, object]) -> str:
    try:
        return str(DollarFormatter().vformat(text, (), variables))
    except Exception:  # noqa: BLE001 - an expression of the user's that fails: IPython takes such a text as it stands
        return text


def _parser() -> MagicArgumentParser:
    parser = MagicArgumentParser(MAGIC, description=_DESCRIPTION)
    for option in _OPTIONS:
        if option.metavar is None:
            parser.add_argument(option.name, action='store_true', help=option.help)
        else:
            parser.add_argument(option.name, metavar=option.metavar, help=option.help)
    return parser


_PARSER = _parser()
