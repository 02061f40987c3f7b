"""The options of ``%%track`` and ``%track``: their help, and how they become parameters of a tracker."""

from __future__ import annotations

import keyword
import re
import shlex
from typing import TYPE_CHECKING, Any, NamedTuple

from IPython.core.error import UsageError
from IPython.core.magic_arguments import MagicArgumentParser
from IPython.utils.text import DollarFormatter

from gpu_tracker.errors import ParameterError
from gpu_tracker.running.options import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_tracker.running.options import Option

MAGIC = 'track'
_DEFAULTS = {'sleep_time': 0.1, 'ram_unit': 'megabytes', 'gpu_ram_unit': 'megabytes', 'time_unit': 'seconds'}
"""Defaults of the magics. Cells are shorter than commands."""
_LEADING_OPTIONS = re.compile(r"""(?:\s*--[\w-]+(?:=(?:"[^"]*"|'[^']*'|\S)*)?(?=\s|$))*""")
_DESCRIPTION = """
Measure a cell or a statement with the processes that it starts, and show the result below.

%%track in the first line of a cell tracks the cell: %%track --st=0.05 --sections=io
%track tracks a statement: %track --name=run work()
"""


class _Own(NamedTuple):
    """An option of the magics alone."""

    flag: str
    value: str
    help: str


_OWN = (
    _Own('--report', '', 'Show the full report below.'),
    _Own('--name', 'variable', 'Keep the tracker with its result in this variable.'),
)
_SHARED = tuple(option for option in OPTIONS if option.in_notebook)
_FLAGS = {option.name: option.flag for option in _SHARED}
_FORMS = [(option.flag, option.value) for option in _SHARED] + [(own.flag, own.value) for own in _OWN]
_ACCEPTED = ', '.join(f'{flag}={value.upper()}' if value else flag for flag, value in _FORMS)


class Request(NamedTuple):
    """The options of a magic.

    :ivar parameters: Parameters of the tracker.
    :ivar shows_report: Show the full report too.
    :ivar variable: The name of the variable for the tracker.
    """

    parameters: dict[str, Any]
    shows_report: bool
    variable: str | None


def read(text: str, variables: Mapping[str, object]) -> Request:
    """Parse options. ``$name`` and ``{name}`` are values of ``variables``, as in other magics.

    :raises UsageError: if an option is unknown or has no value; it names the accepted options.
    """
    try:
        given = _PARSER.parse_args(shlex.split(_expanded(text, variables)))
    except (UsageError, ValueError) as error:
        raise UsageError(f'%{MAGIC}: {error}; accepted options: {_ACCEPTED}') from None
    variable, file = given.name, given.tracking_file
    if variable is not None and (not variable.isidentifier() or keyword.iskeyword(variable)):
        raise UsageError(f'--name must be the name of a variable, not {variable!r}')
    if given.report and file is not None and file.endswith('.csv'):
        raise UsageError(
            f'--report needs a recording, and {file} has no recording: give --tf a path that does not end in .csv'
        )
    parameters = {option.name: _value(option, getattr(given, option.name)) for option in _SHARED}
    parameters = {name: value for name, value in parameters.items() if value is not None}
    return Request({**_DEFAULTS, **parameters}, bool(given.report), variable)


def refusal(error: ParameterError) -> UsageError:
    """Return the error for a parameter that the tracker refuses, with the name of the option."""
    return UsageError(f'{_FLAGS.get(error.parameter, error.parameter)} must be {error.accepted}, not {error.value!r}')


def end_of_options(line: str) -> int:
    """Return the index of the statement in a line of ``%track``, after its options."""
    found = _LEADING_OPTIONS.match(line)
    return 0 if found is None else found.end()


def help_text() -> str:
    """Return the text of ``%track?``."""
    return _PARSER.format_help()


def _value(option: Option, given: Any) -> Any:  # noqa: ANN401 - the tracker checks it
    """Convert the text of an option for the tracker.

    :raises UsageError: if the text is not a valid value.
    """
    if not isinstance(given, str):
        return given
    try:
        return option.read(option.flag, given)
    except ParameterError as error:
        raise refusal(error) from None


def _expanded(text: str, variables: Mapping[str, object]) -> str:
    try:
        return str(DollarFormatter().vformat(text, (), variables))
    except Exception:  # noqa: BLE001 - an expression of the user failed: keep the text, as IPython does
        return text


def _add(parser: MagicArgumentParser, flags: tuple[str, ...], name: str, value: str, meaning: str) -> None:
    meaning = meaning.replace('%', '%%')  # argparse formats it
    if value:
        parser.add_argument(*flags, dest=name, metavar=value.upper(), help=meaning)
    else:
        parser.add_argument(*flags, dest=name, action='store_true', default=None, help=meaning)


def _parser() -> MagicArgumentParser:
    parser = MagicArgumentParser(MAGIC, description=_DESCRIPTION)
    for option in _SHARED:
        _add(parser, option.flags, option.name, option.value, option.help)
    for own in _OWN:
        _add(parser, (own.flag,), own.flag.removeprefix('--'), own.value, own.help)
    return parser


_PARSER = _parser()
