"""What a run used in twelve lines at most: the figures by which people decide, each in the unit that suits it."""

from __future__ import annotations

from gpu_tracker.figures import AT_LEAST, IN_ASCII, SHORT, SHORT_OF_GPUS, fill, has_gpus, lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpu_tracker.result.usage import ResourceUsage

_WIDTH = 12
_MOST = 12
_LEFT_OUT_FIRST = ('Threads', 'Machine')


def as_summary(usage: ResourceUsage) -> str:
    """Return the lines. Figures of GPUs are left out where there are none, and ``N/A`` stands for what is unknown."""
    found = list(lines(usage))
    for title in _LEFT_OUT_FIRST:
        if len(found) > _MOST:
            found = [line for line in found if line[0] != title]
    return '\n'.join(f'{title:<{_WIDTH}}{text}' for title, text in found)


def as_line(usage: ResourceUsage) -> str:
    """Return the first figures of :func:`as_summary` in one line; those of GPUs where there are any."""
    return fill(SHORT + SHORT_OF_GPUS if has_gpus(usage) else SHORT, usage).replace(AT_LEAST, IN_ASCII)
