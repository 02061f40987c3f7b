"""Reads the arguments of a command by its docopt text, and says in plain words which option is at fault."""

from __future__ import annotations

import contextlib
import io
import re
from typing import NamedTuple, TypeVar

from docopt import DocoptExit, DocoptLanguageError, docopt

from gpu_tracker.errors import GpuTrackerError, ParameterError
from gpu_tracker.units import parse_time

Number = TypeVar('Number', int, float)

_REPEATABLE = re.compile(r'\[(--[a-z-]+)=<[^>]*>\]\.\.\.')
"""An option in the usage that may be given several times."""


class UsageError(GpuTrackerError):
    """The arguments themselves are wrong; the message names the one at fault."""


class Option(NamedTuple):
    """An option as the docopt text describes it: all its names, the long one last, and whether it takes a value."""

    names: tuple[str, ...]
    takes_value: bool


class Given(NamedTuple):
    """An option found among the arguments: the name that was written, and the option that it means."""

    written: str
    option: Option


def parse(
    text: str, version: str, arguments: list[str], command: str | None = None
) -> dict[str, str | bool | list[str] | None] | str:
    """Read ``arguments`` by the docopt ``text``: return the values by name, or what to print for help and version.

    ``command`` is the word in front of the arguments that has led to this text.

    Raises UsageError naming the argument that does not fit.
    """
    printed = io.StringIO()
    try:
        # Captured, because a print into a closed pipe fails only when the interpreter ends.
        with contextlib.redirect_stdout(printed):
            return dict(docopt(text, [*([command] if command else []), *arguments], version=version))
    except (DocoptExit, DocoptLanguageError) as error:
        raise UsageError(explain(text, arguments)) from error
    except SystemExit:
        return printed.getvalue()


def part_at_dashes(arguments: list[str]) -> tuple[list[str], list[str] | None]:
    """Part ``arguments`` at the first ``--``, which never is an option's value; None where there is none."""
    if '--' not in arguments:
        return arguments, None
    position = arguments.index('--')
    return arguments[:position], arguments[position + 1 :]


def number(option: str, kind: type[Number], given: str, accepted: str) -> Number:
    """Return the number that was ``given`` to ``option``; raise ParameterError where it is none."""
    try:
        return kind(given.replace('_', '?'))  # Python allows underscores between digits, users of other programs do not
    except ValueError:
        raise ParameterError(option, given, accepted) from None


def time(option: str, given: str, accepted: str) -> float:
    """Return the seconds of the time that was ``given`` to ``option``: a number of them, or a time with its units.

    :raises ParameterError: where it is neither.
    """
    found = parse_time(given)
    return number(option, float, given, accepted) if found is None else found


def of_option(error: ParameterError, option: str, given: str | None) -> ParameterError:
    """Say of the ``option``, in the words that it was ``given`` in, what ``error`` says of a parameter."""
    return ParameterError(option, error.value if given is None else given, error.accepted)


def explain(text: str, arguments: list[str]) -> str:
    """Say which of ``arguments`` does not fit the docopt ``text``, without docopt's own list of patterns."""
    given, stray = _scan(_options(text), arguments)
    if stray:
        return f'unexpected argument {stray[0]!r}'
    repeatable = _REPEATABLE.findall(text)
    seen: set[Option] = set()
    for written, option in given:
        if option in seen and option.names[-1] not in repeatable:
            return f'{written} was given twice'
        seen.add(option)
    return 'these arguments do not go together'


def given_and_stray(text: str, arguments: list[str]) -> tuple[set[str], list[str]]:
    """Return every name of the options that stand in front of ``--``, and the words that belong to none."""
    given, stray = _scan(_options(text), arguments)
    return {name for found in given for name in found.option.names}, stray


def _options(text: str) -> list[Option]:
    """Return the options that the docopt ``text`` lists, one a line that begins with a dash."""
    options = []
    for line in text.splitlines():
        description = line.strip().partition('  ')[0]
        if description.startswith('-'):
            words = description.replace(',', ' ').replace('=', ' ').split()
            names = tuple(word for word in words if word.startswith('-'))
            options.append(Option(names, len(words) > len(names)))
    return options


def _scan(options: list[Option], arguments: list[str]) -> tuple[list[Given], list[str]]:
    """Return the options given and the stray words, up to ``--``; raise UsageError at an option used wrongly."""
    given: list[Given] = []
    stray: list[str] = []
    rest = list(arguments)
    while rest and rest[0] != '--':
        word = rest.pop(0)
        if word.startswith('--'):
            given.append(_long_option(options, word, rest))
        elif word.startswith('-') and word != '-' and not _is_number(word):
            given += _short_options(options, word, rest)
        else:
            stray.append(word)
    return given, stray


def _long_option(options: list[Option], word: str, rest: list[str]) -> Given:
    """Read ``--option``, ``--option=value`` or ``--option value``, taking the value from ``rest``."""
    name, equals, _ = word.partition('=')
    exact = [option for option in options if name in option.names]
    matching = exact or [option for option in options if any(known.startswith(name) for known in option.names)]
    if not matching:
        raise UsageError(f'unknown option {name}')
    if len(matching) > 1:
        raise UsageError(f'{name} could be any of {", ".join(option.names[-1] for option in matching)}')
    option = matching[0]
    if equals and not option.takes_value:
        raise UsageError(f'{name} takes no value')
    if option.takes_value and not equals:
        _take_value(options, name, rest)
    return Given(name, option)


def _short_options(options: list[Option], word: str, rest: list[str]) -> list[Given]:
    """Read one-letter options written together, such as ``-vf json`` or ``-fjson``."""
    given = []
    letters = word[1:]
    while letters:
        name, letters = f'-{letters[0]}', letters[1:]
        option = next((option for option in options if name in option.names), None)
        if option is None:
            raise UsageError(f'unknown option {name}')
        if option.takes_value:
            if not letters:
                _take_value(options, name, rest)
            letters = ''
        given.append(Given(name, option))
    return given


def _take_value(options: list[Option], name: str, rest: list[str]) -> None:
    """Take the value of the option ``name`` from ``rest``; another option in its place is none."""
    if not rest or rest[0] == '--' or any(rest[0].partition('=')[0] in option.names for option in options):
        raise UsageError(f'{name} needs a value')
    rest.pop(0)


def _is_number(word: str) -> bool:
    """Return whether docopt takes ``word`` for a negative number, and so for no option."""
    try:
        float(word)
    except ValueError:
        return False
    return True


_LAST_PORT = 65535


def host(given: str) -> str:
    """Return what ``--host`` has; whether it is this machine's is seen when it is looked up."""
    if not given:
        raise ParameterError('--host', given, "a name or an address of this machine's")
    return given


def port(given: str) -> int:
    """Return what ``--port`` has: a TCP port, or 0 for any that is free."""
    accepted = f'a number from 0 to {_LAST_PORT}'
    found = number('--port', int, given, accepted)
    if not 0 <= found <= _LAST_PORT:
        raise ParameterError('--port', given, accepted)
    return found


def seconds(option: str, given: str, limits: tuple[float, float]) -> float:
    """Return what an option has that takes seconds, from the first to the second of ``limits``."""
    shortest, longest = limits
    accepted = f'a number of seconds from {shortest:g} to {longest:g}'
    found = number(option, float, given, accepted)
    if not shortest <= found <= longest:
        raise ParameterError(option, given, accepted)
    return found
