"""A process that gpu-tracker did not start: waits for its end, or for a signal that ends the tracking."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from gpu_tracker.errors import GpuTrackerError, ParameterError, see

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_ENDING = ('SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT')
_LOOK_AGAIN = 0.1  # seconds, if the system does not report the end of a process
_ACCEPTED = 'the ID of a running process'


def open_process(process_id: int, *, may_be_of_others: bool = False) -> int | None:
    """Return a descriptor that is readable when the process ends; None if the system has none.

    Raises ParameterError if there is no such process, or if it must not be another user's and is.
    """
    if sys.platform == 'win32':
        return None  # Tracker checks it; signal 0 ends a process there
    try:
        os.kill(process_id, 0)
    except (ProcessLookupError, OverflowError):
        raise no_process(process_id) from None
    except PermissionError:
        if not may_be_of_others:
            advice = f'Run gpu-tracker as the user of that process, or as root. {see("not-permitted")}'
            accepted = f'{_ACCEPTED} of your own (not permitted)'
            raise ParameterError('--pid', str(process_id), accepted, advice) from None
    if sys.platform != 'linux' or not hasattr(os, 'pidfd_open'):
        return None
    try:
        return os.pidfd_open(process_id)
    except ProcessLookupError:
        raise no_process(process_id) from None
    except OSError:
        # A thread answers to signal 0 as well, but it is not among the processes.
        if str(process_id) not in os.listdir('/proc'):
            raise no_process(process_id) from None
        return None  # before Linux 5.3, or forbidden by a container


def no_process(process_id: int) -> ParameterError:
    """Return the error for a process that does not exist."""
    thread_of = _status(process_id).get('Tgid', str(process_id))
    if thread_of == str(process_id):
        why = 'It has ended, or it is in a container and has another ID there.'
    else:
        why = f'It is a thread of process {thread_of}.'
    return ParameterError('--pid', str(process_id), _ACCEPTED, f'{why} {see("no-such-process")}')


def end_of(process_id: int) -> str | None:
    """Return the message for a process that ended and has not been reaped; None if it runs.

    Only Linux shows this. A process whose first thread ended still runs if it has other threads.
    """
    fields = _status(process_id)
    if not fields.get('State', '').startswith('Z') or fields.get('Threads') != '1':
        return None
    return (
        f'process {process_id} has ended, and its parent, {fields.get("PPid")}, has not waited for it. Nothing can be '
        f'measured. {see("no-such-process")}'
    )


def _status(process_id: int) -> dict[str, str]:
    """Return the fields of proc_pid_status(5), also of a thread; none if there is no such file."""
    try:
        with open(f'/proc/{process_id}/status', errors='replace') as file:
            return {name: value.strip() for name, _, value in (line.partition(':') for line in file)}
    except OSError:
        return {}


def hidden_process(process_id: int) -> GpuTrackerError | None:
    """Return the error for a process hidden by /proc; None if there is no such process."""
    try:
        os.kill(process_id, 0)
    except PermissionError:
        return GpuTrackerError(
            f"Process {process_id} is another user's, and /proc is mounted with hidepid. Run gpu-tracker as root, with "
            f"CAP_SYS_PTRACE, or in the group of /proc's mount option gid. {see('not-permitted')}"
        )
    except (ProcessLookupError, OverflowError):
        return None
    return None  # our own, which has just ended


class Waiting:
    """Waits for the end of a process. Once it is made, a signal ends the waiting instead of this process.

    :param process_id: The process.
    :param handle: What ``open_process`` has returned for it.
    """

    def __init__(self, process_id: int, handle: int | None) -> None:
        self._process_id = process_id
        self._handle = handle
        self._received: list[int] = []
        self._wake_reader = -1
        if sys.platform != 'win32':  # where nothing waits for a descriptor
            self._wake_reader, writer = os.pipe()
            os.set_blocking(writer, False)
            # A handler that raised would do so anywhere, also after the wait; this one only wakes the wait.
            signal.set_wakeup_fd(writer)
        for name in _ENDING:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) != signal.SIG_IGN:  # under nohup, SIGHUP
                signal.signal(number, lambda number, _: self._received.append(number))

    def wait(self, also: Mapping[int, Callable[[], bool]] | None = None) -> None:
        """Return when the process has ended, or a signal has asked this one to end.

        :param also: By descriptors, what to ask when there is something to read: whether the waiting ends as well.
        """
        watched = {} if also is None else dict(also)
        if self._handle is None:
            self._look_repeatedly(watched)
            return
        watched |= {self._handle: _ends, self._wake_reader: _ends}
        while not _ended_by(watched, None):
            pass

    def _look_repeatedly(self, watched: Mapping[int, Callable[[], bool]]) -> None:
        """Wait as ``wait`` does, by polling the process."""
        import psutil  # noqa: PLC0415

        try:
            process = psutil.Process(self._process_id)
            while not self._received and not (watched and _ended_by(watched, 0)):
                try:
                    process.wait(timeout=_LOOK_AGAIN)
                except psutil.TimeoutExpired:
                    continue
                return
        except psutil.NoSuchProcess:
            return  # it has ended before the first look


def _ends() -> bool:
    return True


def _ended_by(watched: Mapping[int, Callable[[], bool]], timeout: float | None) -> bool:
    """Wait for something to read, and return whether that ends the waiting. POSIX only."""
    if sys.platform == 'win32':
        raise NotImplementedError
    import select  # noqa: PLC0415

    poll = select.poll()
    for descriptor in watched:
        poll.register(descriptor, select.POLLIN)
    return any(watched[descriptor]() for descriptor, _ in poll.poll(timeout))
