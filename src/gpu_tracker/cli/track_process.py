"""Watches a process that runs already, until it ends or a signal ends the watching."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from gpu_tracker.cli import FAILURE, output, tracking
from gpu_tracker.errors import ParameterError

if TYPE_CHECKING:
    from gpu_tracker.cli.request import Request

_ENDING = ('SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT')
_LOOK_AGAIN = 0.1  # seconds, where the system cannot tell at once that a process has ended


def track(request: Request, process_id: int) -> int:
    """Watch ``process_id``, write the report, and return the exit code."""
    from gpu_tracker.command_tracker import ReportingTracker  # noqa: PLC0415

    tracking.check_format(request)
    handle = _open_process(process_id)
    try:
        tracker = ReportingTracker(
            process_id=process_id,
            report_file=request.destination.replaceable,
            report_format=request.format,
            warn=output.complain,
            **request.parameters,
        )
        tracker.start()
    except ParameterError as error:
        raise request.error_of_option(error) from error
    _wait(process_id, handle)
    measured = tracking.stop(tracker)
    output.say(tracking.COMPLETE)
    return 0 if measured and tracking.deliver(tracker, request) else FAILURE


def _open_process(process_id: int) -> int | None:
    """Return a descriptor that tells when the process ends, or None where the system has none.

    Raises ParameterError where there is no such process, or none that this user may look at.
    """
    accepted = 'the ID of a running process'
    if os.name != 'posix':
        return None  # Tracker checks it; signal 0 ends a process on Windows
    try:
        os.kill(process_id, 0)
    except (ProcessLookupError, OverflowError):
        raise ParameterError('--pid', str(process_id), accepted) from None
    except PermissionError:
        raise ParameterError('--pid', str(process_id), f'{accepted} of your own (not permitted)') from None
    if not hasattr(os, 'pidfd_open'):
        return None
    try:
        return os.pidfd_open(process_id)
    except ProcessLookupError:
        raise ParameterError('--pid', str(process_id), accepted) from None
    except OSError:
        # A thread answers to signal 0 as well, but it is not among the processes.
        if sys.platform.startswith('linux') and str(process_id) not in os.listdir('/proc'):
            raise ParameterError('--pid', str(process_id), accepted) from None
        return None  # before Linux 5.3, or forbidden by a container


def _wait(process_id: int, handle: int | None) -> None:
    """Return when the process has ended, or a signal has asked this one to end."""
    received: list[int] = []
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    # A handler that raised would do so anywhere, also after the wait; this one only wakes the wait.
    signal.set_wakeup_fd(writer)
    for name in _ENDING:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:  # under nohup, SIGHUP
            signal.signal(number, lambda number, _: received.append(number))
    if handle is None:
        _look_repeatedly(process_id, received)
        return
    import select  # noqa: PLC0415

    poll = select.poll()
    poll.register(handle, select.POLLIN)
    poll.register(reader, select.POLLIN)
    poll.poll()


def _look_repeatedly(process_id: int, received: list[int]) -> None:
    """Return as ``_wait`` does, where the process has to be looked at from time to time."""
    import psutil  # noqa: PLC0415

    try:
        process = psutil.Process(process_id)
        while not received:
            try:
                process.wait(timeout=_LOOK_AGAIN)
            except psutil.TimeoutExpired:
                continue
            return
    except psutil.NoSuchProcess:
        return  # it has ended before the first look
