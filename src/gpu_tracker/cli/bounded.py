"""Values of options that several commands have, with the same bounds and words."""

from __future__ import annotations

from gpu_tracker.cli import options
from gpu_tracker.errors import ParameterError

_LAST_PORT = 65535


def host(given: str) -> str:
    """Return what ``--host`` has; whether it is this machine's is seen when it is looked up."""
    if not given:
        raise ParameterError('--host', given, "a name or an address of this machine's")
    return given


def port(given: str) -> int:
    """Return what ``--port`` has: a TCP port, or 0 for any that is free."""
    accepted = f'a number from 0 to {_LAST_PORT}'
    number = options.number('--port', int, given, accepted)
    if not 0 <= number <= _LAST_PORT:
        raise ParameterError('--port', given, accepted)
    return number


def seconds(option: str, given: str, limits: tuple[float, float]) -> float:
    """Return what an option has that takes seconds, from the first to the second of ``limits``."""
    shortest, longest = limits
    accepted = f'a number of seconds from {shortest:g} to {longest:g}'
    number = options.number(option, float, given, accepted)
    if not shortest <= number <= longest:
        raise ParameterError(option, given, accepted)
    return number
