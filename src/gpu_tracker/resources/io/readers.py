"""What Linux says of the I/O of one process: ``/proc/PID/io``, see proc_pid_io(5)."""

from __future__ import annotations

import os

from gpu_tracker.processes import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.processes.process import Process

    Counters = tuple[int, ...]
    """The values of :data:`BYTES` of one process."""

BYTES = ('read', 'written', 'cancelled', 'read_by_calls', 'written_by_calls')
"""Bytes from and to storage, those among the latter that never got there since the file was removed or cut before, and
bytes that went through calls such as read(2) and write(2), also where memory, a pipe or a terminal has served them."""
_FIELDS = (b'\nread_bytes: ', b'\nwrite_bytes: ', b'\ncancelled_write_bytes: ', b'rchar: ', b'\nwchar: ')
NONE = (0,) * len(BYTES)
_MOST_BYTES = 512
_SPARE_HANDLES = 128
"""Descriptors that are left for all else; files past that are opened anew for each reading."""


class IoFiles:
    """Reads ``/proc/PID/io``, kept open: a process that has ended tells its final figures to who has it open only.

    :param most_handles: Files with numbers from here on are closed again.
    """

    def __init__(self, proc: str = '/proc', most_handles: int | None = None) -> None:
        self._proc = proc
        self._most_handles = _limit_of_handles() if most_handles is None else most_handles
        self._handles: dict[Process, int] = {}
        self._threads: dict[int, int] = {}
        """The open files of the root's threads."""
        self._of_threads: dict[int, Counters] = {}
        """What each of those had when it was last read."""
        self._of_ended = NONE
        """What threads had that have ended."""

    def own(self, process: Process) -> Counters:
        """Return the counters of the threads of ``process``, which is always the same one."""
        threads = [process.pid]
        if process.threads > 1:
            try:
                threads = [int(name) for name in os.listdir(f'{self._proc}/{process.pid}/task')]
            except (FileNotFoundError, ProcessLookupError):
                pass  # it has just ended
        for thread in self._of_threads.keys() - set(threads):
            self._end_thread(thread)
        for thread in threads:
            self._read_thread(process, thread)
        return summed([self._of_ended, *self._of_threads.values()])

    def has_waited(self, process: Process, faults: int) -> bool:
        """Return whether ``process`` has waited for a child since the page faults of those were ``faults``.

        Asked after its counters were read: a child that it has waited for since the tree was refreshed is in these.
        """
        line = self._stat(process)
        return process.reaped_faults != faults if line is None else sum(stat.all_faults(line)[1]) != faults

    def read(self, process: Process) -> Counters | None:
        """Return the counters of ``process``; None where it is gone, or has ended before it was first read.

        :raises PermissionError: where they may not be read.
        """
        try:
            handle = self._handles.get(process)
            if handle is None:
                handle = os.open(f'{self._proc}/{process.pid}/io', os.O_RDONLY | os.O_CLOEXEC)
                self._handles[process] = handle
            content = os.pread(handle, _MOST_BYTES, 0)
        except (FileNotFoundError, ProcessLookupError):
            return None
        except PermissionError:
            line = self._stat(process)
            if line is None or stat.is_ending(line):
                return None  # nobody may open the file of a process that has ended
            raise
        if handle >= self._most_handles:
            self.forget(process)
        return parsed(content)

    def forget(self, process: Process) -> None:
        """Close the file of ``process``."""
        handle = self._handles.pop(process, None)
        if handle is not None:
            os.close(handle)

    def _read_thread(self, process: Process, thread: int) -> None:
        handle = self._threads.get(thread)
        try:
            if handle is None:
                path = f'{self._proc}/{process.pid}/task/{thread}/io'
                handle = self._threads[thread] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self._of_threads[thread] = parsed(os.pread(handle, _MOST_BYTES, 0))
        except (FileNotFoundError, ProcessLookupError, PermissionError):  # it has just ended, or is ending
            self._end_thread(thread)
            return
        if handle >= self._most_handles:
            os.close(self._threads.pop(thread))

    def _end_thread(self, thread: int) -> None:
        """Close the file of a thread that has ended; another one may get its ID."""
        self._of_ended = summed([self._of_ended, self._of_threads.pop(thread, NONE)])
        handle = self._threads.pop(thread, None)
        if handle is not None:
            os.close(handle)

    def _stat(self, process: Process) -> bytes | None:
        try:
            with open(f'{self._proc}/{process.pid}/stat', 'rb') as file:
                return file.read()
        except OSError:
            return None  # it is gone


def _limit_of_handles() -> int:
    import resource  # noqa: PLC0415 - not on every system

    try:
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _SPARE_HANDLES
    except OSError:
        return 0  # some containers forbid the question


def parsed(content: bytes) -> Counters:
    """Return the counters that a file has.

    :raises ValueError: where it has others.
    """
    return tuple([_number(content, field) for field in _FIELDS])


def _number(content: bytes, field: bytes) -> int:
    at = content.index(field) + len(field)
    return int(content[at : content.index(b'\n', at)])


def summed(several: Sequence[Counters]) -> Counters:
    """Add up counters of the same kinds."""
    return tuple(map(sum, zip(*several, strict=True)))
