"""Parses the arguments of a command by its help text, and names a wrong one."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, TypeVar

from docopt import DocoptExit, docopt

from gpu_tracker import __version__
from gpu_tracker.cli.help_texts import blocks_of, options_of
from gpu_tracker.errors import GpuTrackerError, ParameterError
from gpu_tracker.units import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gpu_tracker.cli.help_texts import HelpOption

Number = TypeVar('Number', int, float)


class UsageError(GpuTrackerError):
    """Wrong arguments. The message names the wrong one."""


class Values(dict[str, 'str | bool | list[str] | None']):
    """Options and arguments by their names in the help. ``<command>`` holds all words of a program to start.

    :ivar written: The names of options as they were written, by their usual names.
    """

    def __init__(self, values: Mapping[str, str | bool | list[str] | None], written: dict[str, str]) -> None:
        super().__init__(values)
        self.written = written
        self._replaced: dict[str, str | bool | list[str] | None] = {}  # values by options with one of the environment

    def set_default(self, option: str, value: str | bool, variable: str) -> None:  # noqa: FBT001 (of either type)
        """Set an option to a default from the environment."""
        self._replaced[option] = self[option]
        self[option] = value
        self.written[option] = variable

    def drop_default(self, option: str) -> bool:
        """Reset an option set from the environment; return whether it was."""
        if option not in self._replaced:
            return False
        self[option] = self._replaced.pop(option)
        del self.written[option]
        return True

    def name(self, option: str) -> str:
        """Return the option's name as written; its usual name for a letter, or if it was not given."""
        written = self.written.get(option, option)
        return option if len(written) == len('-o') else written

    def error_of(self, error: ParameterError, option_of: Mapping[str, str]) -> ParameterError:
        """Return the error of a parameter with the option's name and value as written.

        :param option_of: Options by the names of their parameters.
        """
        option = option_of.get(error.parameter, error.parameter)
        given = self.get(option)
        parts = [part.strip() for part in given.split(',')] if isinstance(given, str) else []
        is_one_of_several = len(parts) > 1 and error.value in parts
        value = given if parts and not is_one_of_several else error.value
        return ParameterError(self.name(option), value, error.accepted, error.advice)


def parse(text: str, arguments: Sequence[str], command: str = '') -> Values | str:
    """Read ``arguments`` by the help ``text``: return the values by name, or the text that -h or -v prints.

    docopt gets each option by its usual name and with its value behind =, because it accepts abbreviations.

    :param command: The word in front of the arguments. Without one, variables of the environment are defaults.
    :raises UsageError: An argument does not fit.
    :raises ParameterError: A variable does not fit.
    """
    blocks = blocks_of(text)
    options = options_of(blocks)
    usage = '\n'.join(dict(blocks)['Usage'])
    rest = list(reversed(arguments))
    own, written = _read_own(usage, options, rest)
    if '--help' in written:
        return f'{text.strip()}\n'
    if '--version' in written:
        return f'gpu-tracker {__version__}\n'
    program = _program(rest, written) if '<command>' in usage else None
    words = rest[::-1] if program is None else ['--', 'program']
    lines = (f'  {" ".join(option.names)}{"=<x>" if option.value else ""}  {option.text}' for option in options)
    short_text = f'Usage:\n{usage}\n\nOptions:\n' + '\n'.join(line.replace('\n', ' ') for line in lines)
    try:
        values = docopt(short_text, [command, *own, *words][not command :], default_help=False)
    except DocoptExit:
        raise UsageError(f'{_problem(usage, own, words)}. Usage:\n{usage}') from None
    found = Values(values if program is None else values | {'<command>': program}, written)
    if not command:
        _set_defaults(found, options, os.environ)
    return found


def _problem(usage: str, own: Sequence[str], words: Sequence[str]) -> str:
    """Return why valid arguments do not fit together. Only a missing one is named."""
    given = {word.partition('=')[0] for word in own if word.startswith('--')}
    has_words = any(not word.startswith('-') for word in (*own, *words))
    if '-e <command>' in usage and not has_words and not given & {'--execute', '--pid'}:
        return 'the command is missing'
    if '\n' not in usage:
        for option, word in re.findall(r'(--[a-z-]+)=<\w+>|(<\w+>)', re.sub(r'\[[^]]*]', '', usage)):
            if (option and option not in given) or (word and not has_words):
                return f'{option or word} is missing'
    return 'these arguments do not fit'


def _read_own(usage: str, options: Sequence[HelpOption], rest: list[str]) -> tuple[list[str], dict[str, str]]:
    """Take the arguments in front of a program from ``rest``, whose first word is the last one.

    :return: The arguments as docopt gets them, and the names of options as they were written by their usual names.
    """
    own: list[str] = []
    written: dict[str, str] = {}
    while rest and rest[-1] != '--':
        if not rest[-1].startswith('-') or rest[-1] == '-':
            if '[--] <command>' in usage:
                break
            own.append(rest.pop())
            continue
        for name, usual, value in _options_in(rest.pop(), options, rest):
            argument = usual if value is None else f'{usual}={value}'
            first = written.get(usual)
            if first is None or f'[{usual}=' in usage:
                own.append(argument)
            elif first == name:
                raise UsageError(f'{name} was given twice')
            elif argument not in own:
                raise UsageError(f'{first} and {name} do not go together')
            written[usual] = name
            if usual in {'--help', '--version'}:
                return own, written
    return own, written


_WITHOUT_VARIABLE = {'--execute', '--pid', '--output', '--job', '--json'}
"""GPU_TRACKER_JOB is the name of a job."""


def _set_defaults(values: Values, options: Sequence[HelpOption], environment: Mapping[str, str]) -> None:
    """Set missing options from environment variables.

    :raises ParameterError: A variable of a switch is neither 1 nor 0.
    """
    for option in options:
        usual = option.names[-1]
        if usual in values.written or usual in _WITHOUT_VARIABLE:
            continue
        plain = next(name for name in option.names if name.startswith('--'))
        variable = f'GPU_TRACKER_{plain[2:].replace("-", "_").upper()}'
        given = environment.get(variable, '')
        if given and not option.value and given not in {'0', '1'}:
            raise ParameterError(variable, given, '1 or 0')
        if given and (option.value or given == '1'):
            values.set_default(usual, given if option.value else True, variable)


_GUESSES = {
    '--timeout': '--time-limit',
    '--max-memory': '--memory-limit',
    '--summary': '--format=summary',
    '--csv': '--format=csv',
    '--html': '--record=run.db, and then gpu-tracker report run.db',
    '--units': '--ram-unit, --gpu-ram-unit or --time-unit',
}
"""Options of a run by their names in other programs."""


def _options_in(word: str, options: Sequence[HelpOption], rest: list[str]) -> Iterator[tuple[str, str, str | None]]:
    """Yield the options in a word, such as ``--st=1`` or ``-vf``: the name as written, the usual name and the value.

    :param rest: The words behind it, the next one last; a value is taken from there.
    :raises UsageError: An option is unknown, has a value too much, or lacks one.
    """
    known = {name: option for option in options for name in option.names}
    while word:
        is_long = word.startswith('--')
        name, equals, value = word.partition('=') if is_long else (word[:2], '', word[2:])
        if name not in known:
            guess = _GUESSES.get(name) if '--record' in known else None
            hint = f': did you mean {guess}?' if guess else did_you_mean(name, known)
            raise UsageError(f'unknown option {name}{hint}')
        usual = known[name].names[-1]
        word = ''
        if known[name].value:
            if not equals and not value:
                if not rest or rest[-1] == '--' or rest[-1].partition('=')[0] in known:
                    raise UsageError(f'{name} needs a value')
                value = rest.pop()
            yield name, usual, value
        elif equals:
            raise UsageError(f'{name} takes no value')
        elif usual == '--json' and '--format' in known:
            yield name, '--format', 'json'
        else:
            yield name, usual, None
            word = f'-{value}' if value else ''


def _program(rest: list[str], written: Mapping[str, str]) -> list[str] | None:
    """Return the words of the program that ``rest`` holds from its end on; None: there is no program.

    :param written: The options in front of it by their usual names.
    """
    if not rest:
        return None
    words = rest[::-1]
    if words[0] == '--':
        del words[0]
    if not words or not words[0]:
        raise UsageError('the command is empty')
    execute = written.get('--execute')
    if execute is not None:
        hint = f'put the whole command in quotes, or leave out {execute}'
        raise UsageError(f'unexpected argument {words[0]!r} after {execute}: {hint}')
    return words


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return the end of a message with the ``known`` words nearest to ``given``; empty if none is near."""
    from difflib import get_close_matches  # noqa: PLC0415 (only if something is mistyped)

    names = sorted(known)
    begun = [name for name in names if name.startswith(given) and given != '-']
    close = begun or get_close_matches(given, names, n=2, cutoff=0.7)
    return f': did you mean {" or ".join(close)}?' if close else ''


def number(option: str, kind: type[Number], given: str, accepted: str) -> Number:
    """Return the number ``given`` to ``option``; raise ParameterError if it is not a number."""
    try:
        return kind(given.replace('_', '?'))  # Python allows underscores between digits, users of other programs do not
    except ValueError:
        raise ParameterError(option, given, accepted) from None


FORMATS = ('text', 'json', 'summary')


def chosen_format(values: Values, formats: Sequence[str]) -> str:
    """Return the value of ``--format``; raise ParameterError if it is not in ``formats``."""
    given = str(values['--format'])
    if given not in formats:
        accepted = formats[0] if len(formats) == 1 else f'{", ".join(formats[:-1])} or {formats[-1]}'
        raise ParameterError('--format', given, accepted)
    return given


LAST_RUN = 'last'
"""Means the run that ended last, instead of a recording."""


def recording(values: Values) -> str:
    """Return the recording that ``values`` name, by default the last run."""
    return str(values['<file>'] or LAST_RUN)


def output_path(values: Values) -> str | None:
    """Return the path of ``--output``; None for standard output."""
    given = values['--output']
    return None if given in {None, '-'} else os.path.expanduser(str(given))


def time(option: str, given: str, accepted: str) -> float:
    """Return the seconds of the time that was ``given`` to ``option``: a number of them, or a time with its units.

    :raises ParameterError: if it is neither.
    """
    found = parse_time(given)
    return number(option, float, given, accepted) if found is None else found


def of_option(error: ParameterError, option: str, given: object) -> ParameterError:
    """Return an error of a parameter as one of ``option``; None as ``given``: the value that the error has."""
    return ParameterError(option, error.value if given is None else given, error.accepted, error.advice)


_LAST_PORT = 65535


def host(given: str) -> str:
    """Return the value of ``--host``. It is resolved later."""
    if not given:
        raise ParameterError('--host', given, 'a host name or an IP address of this machine')
    return given


def port(given: str) -> int:
    """Return the value of ``--port``: a TCP port, or 0 for any free port."""
    accepted = f'a number from 0 to {_LAST_PORT}'
    found = number('--port', int, given, accepted)
    if not 0 <= found <= _LAST_PORT:
        raise ParameterError('--port', given, accepted)
    return found


def seconds(option: str, given: str, limits: tuple[float, float]) -> float:
    """Return an option's time in seconds, which must be within ``limits``."""
    shortest, longest = limits
    accepted = f'a number of seconds from {shortest:g} to {longest:g}'
    found = time(option, given, accepted)
    if not shortest <= found <= longest:
        raise ParameterError(option, given, accepted)
    return found
