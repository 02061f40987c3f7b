"""Being there when a command starts: many commands live for less than a millisecond."""

from __future__ import annotations

import contextlib
import os
import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_REALTIME_PRIORITY = 1


def wait_for_exec(handle: int, seconds: float) -> None:
    """Sleep until the held command has called execve(2), or could not.

    :param handle: The reading end of a pipe whose other end is closed by exec. What it may say is for the launcher.
    """
    select.select((handle,), (), (), seconds)


@contextlib.contextmanager
def realtime_priority() -> Iterator[None]:
    """Run before all ordinary programs, where that is permitted: for a few milliseconds, mostly asleep."""
    try:
        before = os.sched_getscheduler(0)
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(_REALTIME_PRIORITY))
    except (OSError, AttributeError):
        yield  # not permitted, or not on this system: on a busy machine a very short command may then be missed
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, before, os.sched_param(0))
