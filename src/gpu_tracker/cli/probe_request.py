"""The arguments of ``gpu-tracker probe``, parsed and checked."""

from __future__ import annotations

import os
import textwrap
from dataclasses import fields
from typing import NamedTuple

from gpu_tracker.cli import options, output
from gpu_tracker.cli import request as command_line
from gpu_tracker.cuda_probe.limits import Limits
from gpu_tracker.errors import ParameterError

_LONGEST = 1e9
"""Seconds: the longest time that clocks of all systems accept."""
_LEAST_INTERVAL = 0.1
"""Seconds. A report costs some milliseconds."""

_DEFAULTS: dict[str, int | float] = {
    field.name: field.default for field in fields(Limits) if isinstance(field.default, int | float)
}

LIMITS = textwrap.fill(
    ', '.join(f'{name}={default}' for name, default in _DEFAULTS.items()) + '.',
    84,
    initial_indent=' ' * 24,
    subsequent_indent=' ' * 24,
)
"""The bounds with their defaults, as lines of the help."""


class ProbeRequest(NamedTuple):
    """The requested probing.

    Either ``words`` is the command to start or ``process_id`` the process to probe.
    """

    words: list[str]
    process_id: int | None
    destination: output.Destination
    to_file: bool
    as_json: bool
    live: bool
    interval: float
    """Seconds between two reports of ``live``."""
    duration: float | None
    """Seconds; None: until the end."""
    top: int
    limits: Limits
    libraries: list[str]


def read_request(values: options.Values) -> ProbeRequest:
    """Return what ``values`` ask for.

    :raises UsageError: The command is empty.
    :raises ParameterError: A value is wrong.
    """
    pid = _text(values, '--pid')
    given = options.output_path(values)
    request = ProbeRequest(
        words=command_line.words_of(values),
        process_id=None if pid is None else command_line.process_id(pid),
        destination=output.Destination(given),
        to_file=given is not None,
        as_json=options.chosen_format(values, ('text', 'json')) == 'json',
        live=bool(values['--live']),
        interval=_seconds('--interval', _text(values, '--interval') or '', _LEAST_INTERVAL),
        duration=None if values['--duration'] is None else _seconds('--duration', str(values['--duration'])),
        top=_top(_text(values, '--top') or ''),
        limits=_limits(_several(values, '--limit')),
        libraries=_libraries(_several(values, '--library')),
    )
    request.destination.check(given)  # last, for it may make the file
    return request


def _seconds(option: str, given: str, least: float = 0.0) -> float:
    accepted = f'a number of seconds, {least} at least' if least else 'a positive number of seconds'
    seconds = options.time(option, given, accepted)
    if not 0 < seconds < float('inf') or seconds < least:
        raise ParameterError(option, given, accepted)
    return min(seconds, _LONGEST)


def _top(given: str) -> int:
    accepted = 'a whole number, 0 for no kernels'
    top = options.number('--top', int, given, accepted)
    if top < 0:
        raise ParameterError('--top', given, accepted)
    return top


def _limits(given: list[str]) -> Limits:
    """Return the limits, with defaults for missing ones."""
    values: dict[str, int | float] = {}
    for text in given:
        name, _, number = text.partition('=')
        if name not in _DEFAULTS:
            raise ParameterError('--limit', text, f'NAME=NUMBER with one of the names {", ".join(_DEFAULTS)}')
        whole = isinstance(_DEFAULTS[name], int)
        accepted = f'{name} and a positive {"whole " if whole else ""}number, as {name}={_DEFAULTS[name]}'
        kind = int if whole else float
        try:
            values[name] = kind(number.replace('_', '?'))  # as options.number reads numbers
        except ValueError:
            raise ParameterError('--limit', text, accepted) from None
        if not 0 < values[name] < float('inf'):
            raise ParameterError('--limit', text, accepted)
    try:
        return Limits(**values)  # type: ignore[arg-type] # each has the type of its default
    except ParameterError as error:
        raise of_option(error) from error


def of_option(error: ParameterError) -> ParameterError:
    """Return the error of a limit or library as an error of ``--limit`` or ``--library``."""
    if error.parameter == 'libraries':
        return options.of_option(error, '--library', None)
    if error.parameter not in _DEFAULTS:
        return error
    return options.of_option(error, '--limit', f'{error.parameter}={error.value}')


def _libraries(given: list[str]) -> list[str]:
    for path in given:
        if not os.path.isfile(path):
            raise ParameterError('--library', path, 'the path of a library or program')
    return [os.path.abspath(path) for path in given]


def _several(values: options.Values, name: str) -> list[str]:
    """Return all values of the option ``name``."""
    value = values[name]
    return list(dict.fromkeys(value)) if isinstance(value, list) else []  # docopt lists the last one twice


def _text(values: options.Values, name: str) -> str | None:
    """Return the value of the option ``name`` as docopt has read it."""
    value = values[name]
    return value if isinstance(value, str) else None
