"""Reads the arguments of a command by its docopt text, and says in plain words which option is at fault."""

from __future__ import annotations

import contextlib
import io
import os
import re
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from docopt import DocoptExit, DocoptLanguageError, docopt

from gpu_tracker.errors import GpuTrackerError, ParameterError
from gpu_tracker.units import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Values = dict[str, str | bool | list[str] | None]
"""What docopt has read: by option, by argument and by the words of the usage."""

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


def parse(text: str, version: str, arguments: list[str], command: str | None = None) -> Values | str:
    """Read ``arguments`` by the docopt ``text``: return the values by name, or what to print for help and version.

    ``command`` is the word in front of the arguments that has led to this text.

    Raises UsageError naming the argument that does not fit.
    """
    printed = io.StringIO()
    usual = _with_usual_names(_options(text), arguments)
    try:
        # Captured, because a print into a closed pipe fails only when the interpreter ends.
        with contextlib.redirect_stdout(printed):
            values = dict(docopt(text, [*([command] if command else []), *usual], version=version))
    except (DocoptExit, DocoptLanguageError) as error:
        raise UsageError(explain(text, arguments)) from error
    except SystemExit:
        return printed.getvalue()
    if values.get('--json') and '--format' in values:
        given, _ = given_and_stray(text, usual)
        if '--format' in given and values['--format'] != 'json':
            raise UsageError(f'--json and --format={values["--format"]} do not go together')
        values['--format'] = 'json'
    return values


class Parted(NamedTuple):
    """The arguments of a command that starts another one: its own, and those of the other.

    :ivar own: What stands in front of the other command, without ``--``.
    :ivar words: The other command; None: there is none.
    :ivar has_dashes: Whether ``--`` stands between them.
    """

    own: list[str]
    words: list[str] | None
    has_dashes: bool


def part_at_command(text: str, arguments: list[str]) -> Parted:
    """Part ``arguments`` where another command begins.

    That is behind the first ``--``, which never is an option's value, or else at the first word that is neither an
    option of the docopt ``text`` nor the value of one. What begins with a dash is no command: it needs ``--``.

    :raises UsageError: There is a negative number, which docopt would take for a word.
    """
    known = _options(text)
    rest = list(arguments)
    while rest:
        position = len(arguments) - len(rest)
        if rest[0] == '--':
            return Parted(arguments[:position], rest[1:], has_dashes=True)
        if not rest[0].startswith('-') or rest[0] == '-':
            return Parted(arguments[:position], rest, has_dashes=False)
        try:
            is_option = bool(_scan_one(known, rest))
        except UsageError:
            return Parted(arguments[: position + 1], None, has_dashes=False)  # docopt finds the same fault
        if not is_option:
            raise UsageError(f'unexpected argument {arguments[position]!r}')
    return Parted(arguments, None, has_dashes=False)


def part_at_dashes(arguments: list[str]) -> tuple[list[str], list[str] | None]:
    """Part ``arguments`` at the first ``--``, which never is an option's value; None where there is none."""
    if '--' not in arguments:
        return arguments, None
    position = arguments.index('--')
    return arguments[:position], arguments[position + 1 :]


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return the end of a message that names those of the ``known`` words that ``given`` resembles; empty: none."""
    from difflib import get_close_matches  # noqa: PLC0415 (only for who has mistyped something)

    close = get_close_matches(given, sorted(known), n=2, cutoff=0.7)
    return f': did you mean {" or ".join(close)}?' if close else ''


def number(option: str, kind: type[Number], given: str, accepted: str) -> Number:
    """Return the number that was ``given`` to ``option``; raise ParameterError where it is none."""
    try:
        return kind(given.replace('_', '?'))  # Python allows underscores between digits, users of other programs do not
    except ValueError:
        raise ParameterError(option, given, accepted) from None


def chosen_format(values: Values, formats: Sequence[str]) -> str:
    """Return what ``--format`` was given; raise ParameterError where it is none of ``formats``."""
    given = str(values['--format'])
    if given not in formats:
        accepted = formats[0] if len(formats) == 1 else f'{", ".join(formats[:-1])} or {formats[-1]}'
        raise ParameterError('--format', given, accepted)
    return given


def output_path(values: Values) -> str | None:
    """Return the path that ``--output`` was given; None: the output goes to standard output, which ``-`` is too."""
    given = values['--output']
    return None if given in {None, '-'} else os.path.expanduser(str(given))


def time(option: str, given: str, accepted: str) -> float:
    """Return the seconds of the time that was ``given`` to ``option``: a number of them, or a time with its units.

    :raises ParameterError: where it is neither.
    """
    found = parse_time(given)
    return number(option, float, given, accepted) if found is None else found


def of_option(error: ParameterError, option: str, given: str | None) -> ParameterError:
    """Say of the ``option``, in the words that it was ``given`` in, what ``error`` says of a parameter."""
    return ParameterError(option, error.value if given is None else given, error.accepted, error.advice)


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


def _with_usual_names(options: list[Option], arguments: list[str]) -> list[str]:
    """Return ``arguments`` with the last name of each option, which docopt reads, for its other long names."""
    usual = {name: option.names[-1] for option in options for name in option.names[:-1] if name.startswith('--')}
    own, words = part_at_dashes(arguments)
    renamed = []
    for argument in own:
        name, equals, value = argument.partition('=')
        renamed.append(f'{usual.get(name, name)}{equals}{value}')
    return renamed if words is None else [*renamed, '--', *words]


def _scan(options: list[Option], arguments: list[str]) -> tuple[list[Given], list[str]]:
    """Return the options given and the stray words, up to ``--``; raise UsageError at an option used wrongly."""
    given: list[Given] = []
    stray: list[str] = []
    rest = list(arguments)
    while rest and rest[0] != '--':
        word = rest[0]
        found = _scan_one(options, rest)
        given += found
        if not found:
            stray.append(word)
    return given, stray


def _scan_one(options: list[Option], rest: list[str]) -> list[Given]:
    """Take the first word, with its value, from ``rest``; return the options in it: none where it is a stray word."""
    word = rest.pop(0)
    if word.startswith('--'):
        return [_long_option(options, word, rest)]
    if word.startswith('-') and word != '-' and not _is_number(word):
        return _short_options(options, word, rest)
    return []


def _long_option(options: list[Option], word: str, rest: list[str]) -> Given:
    """Read ``--option``, ``--option=value`` or ``--option value``, taking the value from ``rest``."""
    name, equals, _ = word.partition('=')
    exact = [option for option in options if name in option.names]
    matching = exact or [option for option in options if any(known.startswith(name) for known in option.names)]
    if not matching:
        known = [known for option in options for known in option.names]
        raise UsageError(f'unknown option {name}{did_you_mean(name, known)}')
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
    """Return the seconds, from the first to the second of ``limits``, that an option has as a number or with units."""
    shortest, longest = limits
    accepted = f'a number of seconds from {shortest:g} to {longest:g}'
    found = time(option, given, accepted)
    if not shortest <= found <= longest:
        raise ParameterError(option, given, accepted)
    return found
