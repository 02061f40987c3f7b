"""The options that limit a command: read and checked before it starts."""

from __future__ import annotations

from gpu_tracker import limits
from gpu_tracker.cli import options
from gpu_tracker.limits import RunLimits

_KILL_AFTER = '--kill-after'


def read(values: options.Values) -> RunLimits:
    """Return the limits that the options set, of which one at least was given.

    :param values: What docopt has read.
    :raises ParameterError: where one is no time, or no size.
    :raises UsageError: where there is nothing that could be limited.
    """
    texts = {reason: values[limits.option_of(reason)] for reason in limits.REASONS}
    found = tuple(limits.parse(reason, text) for reason, text in texts.items() if isinstance(text, str))
    if not found:
        every = ', '.join(map(limits.option_of, limits.REASONS[:-1]))
        raise options.UsageError(f'{_KILL_AFTER} needs a limit: {every} or {limits.option_of(limits.REASONS[-1])}')
    if values['--pid'] is not None:
        option = limits.option_of(found[0].reason)
        raise options.UsageError(
            f'{option} and --pid do not go together: only what gpu-tracker has started itself is ended by a limit'
        )
    grace = values[_KILL_AFTER]
    return RunLimits(found, limits.parse_grace(grace)) if isinstance(grace, str) else RunLimits(found)
