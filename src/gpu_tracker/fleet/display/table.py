"""The table of a machine's GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.fleet.display.lines import table_lines
from gpu_tracker.fleet.display.plain import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpu_tracker.fleet.gpu import Gpu


def table_text(
    gpus: Sequence[Gpu], *, width: int | None, now: float, user_name: Callable[[int], str], color: bool = False
) -> str:
    """Return the table, without a line break at its end.

    The text is the same with and without colours, and with and without rich.

    :param width: The columns of the terminal; None: a line may be as long as it is.
    :param now: Seconds since 1970.
    :param user_name: Tells the name of the user with an ID.
    :param color: Whether to colour it, where rich is installed.
    """
    lines = table_lines(gpus, width=width, now=now, user_name=user_name)
    if color:
        try:
            from gpu_tracker.fleet.display.colored import colored  # noqa: PLC0415 - rich costs 20 ms
        except ImportError:
            pass  # rich is an extra
        else:
            return colored(lines)
    return plain(lines)
