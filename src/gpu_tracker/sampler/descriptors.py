"""Descriptors of the tracker and the sampler: which numbers they have, and those that stand for processes."""

from __future__ import annotations

import errno
import select
import sys

from gpu_tracker.real import os

if sys.platform != 'win32':
    from gpu_tracker.real import fcntl

STATUS, STORE, CONTROL, EXEC, RECORDING = 1, 3, 4, 5, 6
"""The sampler's descriptors on Linux: standard output and error go to the tracker too until it is ready."""
FIRST_FOREIGN = 7
"""From here on a sampler has inherited only what the program has left open for its own children."""
_STANDARD = 3
"""The descriptors below are standard input, output and error, whatever is open there."""


def pipe() -> tuple[int, int]:
    """Return the reading and the writing end of a new pipe, neither of them standard input, output or error."""
    reading, writing = os.pipe()
    try:
        reading = above_standard(reading)
        return reading, above_standard(writing)
    except BaseException:
        os.close(reading)
        os.close(writing)
        raise


def above_standard(handle: int) -> int:
    """Return ``handle``, or a copy in its place where it has the number of standard input, output or error.

    A program that has closed these may still print there.
    """
    if handle >= _STANDARD or sys.platform == 'win32':
        return handle
    copy = copy_from(handle, _STANDARD)
    os.close(handle)
    return copy


def copy_from(handle: int, lowest: int) -> int:
    """Return a copy of ``handle`` whose number is ``lowest`` at least; no started program inherits it. POSIX only."""
    if sys.platform != 'win32':
        try:
            return fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, lowest)
        except OSError as error:
            if error.errno == errno.EINVAL:  # no number as high as that is allowed here
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE)) from None
            raise
    raise NotImplementedError


def open_process(pid: int) -> int | None:
    """Return a descriptor that stands for the process ``pid``, whoever gets its number later.

    It becomes readable when the process ends. None where the system has no such thing, or the process has ended.
    """
    if sys.platform != 'linux' or not hasattr(os, 'pidfd_open'):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def is_readable(handle: int, seconds: float) -> bool:
    """Wait until ``handle`` can be read, ``seconds`` at most, and return whether it can."""
    if sys.platform == 'win32':
        from gpu_tracker.sampler import windows_pipe  # noqa: PLC0415 - on Windows only

        return windows_pipe.is_readable(handle, seconds)
    if not hasattr(select, 'poll'):  # eventlet takes it away, and lets others go on while its select waits
        return bool(select.select((handle,), (), (), seconds)[0])
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
