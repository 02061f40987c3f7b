"""CPU time of processes and of all that they start from now on, from the kernel's task clocks. Linux only.

A task clock is an event of perf_event_open(2), PERF_COUNT_SW_TASK_CLOCK, that counts the nanoseconds for which one
thread runs. With the attribute ``inherit`` it is copied to every thread and every process that the thread starts, and
reading it gives the sum over all of them, whether they still run, have ended, and whoever has waited for them. An
ordinary user may open it for processes of the same user where ``perf_event_paranoid`` is 2 or less, as the event is
asked for user space only; the task clock counts kernel time all the same.

It counts a little less than the kernel charges: not the switch from one thread to another, and (on Linux 6.18) not the
end of a process, in which its memory is given back. It also counts what is not charged: interrupts, and the time for
which the host of a virtual machine has stopped it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import struct
import sys

from gpu_tracker.processes.linux import cpu_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Protocol

    class Kernel(Protocol):
        """Opens and reads task clocks."""

        def open(self, thread: int, *, threads_only: bool) -> int:
            """Return the handle of a clock of ``thread`` and of what it starts, other processes included or not.

            :raises OSError: where that is refused.
            """

        def read(self, handle: int) -> float:
            """Return its CPU seconds."""

        def close(self, handle: int) -> None:
            """Let go of it."""

    class Samplers(Protocol):
        """Samplers that processes with clocks have started, which do not count."""

        def seconds(self) -> float:
            """Return the CPU seconds that they have used so far."""


_NUMBERS = {'x86_64': 298, 'aarch64': 241}
"""Machine -> the number of perf_event_open(2)."""
_SOFTWARE, _TASK_CLOCK = 1, 1
"""PERF_TYPE_SOFTWARE and PERF_COUNT_SW_TASK_CLOCK in linux/perf_event.h, as all that follows."""
_INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HV, _INHERIT_THREAD = 1 << 1, 1 << 5, 1 << 6, 1 << 35
"""Bits of struct perf_event_attr; the last one is refused by kernels before 5.13."""
_ATTRIBUTES = '<IIQQQQQIIQ'
"""Its first version: type, size, config, sample_period, sample_type, read_format, bits, and what is not used here."""
_CLOSE_ON_EXEC = 8
_ANY_CPU = _NO_GROUP = -1
_NANOSECOND = 1e-9

_MOST = 4096
"""Clocks that are opened at most: reading one takes 1 µs."""
_SHARE_OF_DESCRIPTORS = 4
"""One in so many of those that this process may have is for clocks at most."""
_ATTEMPTS = 5
_OF_OTHERS = (errno.EACCES, errno.EPERM)


class PerfEvents:
    """Task clocks of this kernel.

    :raises OSError: where there are none.
    """

    def __init__(self) -> None:
        number = _NUMBERS.get(platform.machine())
        if number is None or sys.byteorder != 'little' or ctypes.sizeof(ctypes.c_void_p) != struct.calcsize('<Q'):
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        self._number = number
        self._call = ctypes.CDLL(None, use_errno=True).syscall

    def open(self, thread: int, *, threads_only: bool) -> int:
        """See :class:`Kernel`."""
        bits = _INHERIT | _EXCLUDE_KERNEL | _EXCLUDE_HV | (_INHERIT_THREAD if threads_only else 0)
        size = struct.calcsize(_ATTRIBUTES)
        attributes = ctypes.c_char_p(struct.pack(_ATTRIBUTES, _SOFTWARE, size, _TASK_CLOCK, 0, 0, 0, bits, 0, 0, 0))
        handle: int = self._call(self._number, attributes, thread, _ANY_CPU, _NO_GROUP, ctypes.c_ulong(_CLOSE_ON_EXEC))
        if handle < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return handle

    def read(self, handle: int) -> float:
        """See :class:`Kernel`."""
        return int.from_bytes(os.read(handle, 8), sys.byteorder) * _NANOSECOND

    def close(self, handle: int) -> None:
        """See :class:`Kernel`."""
        os.close(handle)


class TaskClocks:
    """Clocks of a root process, of its descendants, and of all that any of them start later.

    :param kernel: Opens and reads them.
    :param root: The process whose own time is told apart.
    :param others: Its descendants, as far as they are known.
    :param strangers: Processes that do not count, though a descendant may have started them, and are there already.
    :param samplers: Those that come later.
    :param root_may_vanish: The root may be waited for by its parent at any time, and its own time is to be known then:
        it gets clocks of its own, which costs it more at each switch to another process.
    :param clock: Returns the CPU seconds of a process that is there.
    :raises OSError: where they are refused, or were more than can be had.
    """

    def __init__(
        self,
        kernel: Kernel,
        root: int,
        others: Iterable[int] = (),
        strangers: Iterable[int] = (),
        *,
        samplers: Samplers,
        root_may_vanish: bool,
        proc: str = '/proc',
        clock: Callable[[int], float] = cpu_clock,
    ) -> None:
        self._kernel = kernel
        self._root = root
        self._samplers = samplers
        self._has_own = root_may_vanish
        self._proc = proc
        self._clock = clock
        self._most = min(_MOST, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _SHARE_OF_DESCRIPTORS)
        self._of_root = 0.0
        self._handles: list[int] = []
        self._own_handles: list[int] = []
        self.is_complete = True
        """None of the descendants was refused."""
        try:
            self._cover([root, *others], set(strangers))
        except BaseException:
            self.close()
            raise

    @property
    def count(self) -> int:
        """How many have to be read."""
        return len(self._handles) + len(self._own_handles)

    def total(self) -> float:
        """Return the CPU seconds of all that is covered, but for samplers."""
        read = self._kernel.read
        return sum([read(handle) for handle in self._handles]) - self._samplers.seconds()

    def of_root(self) -> float:
        """Return those of the root's own threads, on a scale of its own.

        The last value stands where the root is gone, has no clocks of its own, and so does not report any more.
        """
        if self._has_own:
            read = self._kernel.read
            return sum([read(handle) for handle in self._own_handles])
        try:
            self._of_root = self._clock(self._root)
        except OSError:
            pass  # it is gone
        return self._of_root

    def close(self) -> None:
        """Let go of all clocks."""
        for handle in (*self._handles, *self._own_handles):
            self._kernel.close(handle)
        self._handles.clear()
        self._own_handles.clear()

    def _cover(self, waiting: list[int], known: set[int]) -> None:
        """Open clocks for all threads of processes, and of those children that are not known yet.

        What is started by a thread that has its clock already inherits it. Twice counted it would be worse than not at
        all, so that a clock is opened only for what was there before its starter had one.
        """
        known.update(waiting)
        while waiting:
            for child in self._cover_process(waiting.pop()):
                if child not in known:
                    known.add(child)
                    waiting.append(child)

    def _cover_process(self, pid: int) -> set[int]:
        """Open clocks for all threads of a process; return the children that it had before."""
        clocks, own_clocks = len(self._handles), len(self._own_handles)
        found = self._started_by(pid)
        for left in reversed(range(_ATTEMPTS)):
            threads, children = found
            try:
                for thread in threads:
                    self._open(pid, thread)
            except OSError as error:
                if error.errno not in _OF_OTHERS or pid == self._root:
                    raise
                self.is_complete = False  # another user's, as one that sudo has started
            found = self._started_by(pid)
            if found[0] <= threads and found[1] <= children:
                break
            # Something was started meanwhile, by a thread that had its clock already or by one that had none yet. Where
            # that goes on and on, what is new is left out.
            if left:
                self._let_go(self._handles, clocks)
                self._let_go(self._own_handles, own_clocks)
        return children

    def _open(self, pid: int, thread: int) -> None:
        try:
            self._handles.append(self._kernel.open(thread, threads_only=False))
            if pid == self._root and self._has_own:
                self._own_handles.append(self._kernel.open(thread, threads_only=True))
        except ProcessLookupError:
            return  # it has just ended
        if self.count > self._most:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    def _let_go(self, handles: list[int], first: int) -> None:
        for handle in handles[first:]:
            self._kernel.close(handle)
        del handles[first:]

    def _started_by(self, pid: int) -> tuple[set[int], set[int]]:
        """Return the threads and the children of a process; nothing where it has ended."""
        folder = f'{self._proc}/{pid}/task'
        children: set[int] = set()
        try:
            threads = os.listdir(folder)
        except OSError:
            return set(), children
        for thread in threads:
            try:
                with open(f'{folder}/{thread}/children', 'rb') as file:
                    children.update(map(int, file.read().split()))
            except OSError:
                pass  # that thread has just ended, or the kernel does not report children (CONFIG_PROC_CHILDREN)
        return set(map(int, threads)), children
