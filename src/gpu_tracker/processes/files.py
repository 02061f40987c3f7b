"""The files of ``/proc/PID``, kept open where there are descriptors enough, and kcmp(2). Linux only."""

from __future__ import annotations

import _thread
import os
import resource

from gpu_tracker.processes import SAMPLER_MARK, SAMPLER_NAME, stat
from gpu_tracker.processes.process import Process

_MOST_BYTES = 2048
_SPARE_HANDLES = 64
"""Descriptors that are left for all else; processes past that are opened anew for each reading."""
_USUAL_LIMIT = 1024
_SIGCHLD_BIT = 1 << 16
_MARK = SAMPLER_MARK.encode()


def limit_of_handles() -> int:
    """Return how many descriptors this process may have."""
    try:
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    except OSError:
        return _USUAL_LIMIT  # some containers forbid the question


class ProcessFiles:
    """Reads processes from the folder ``proc``.

    ``pread`` of a file that is open costs a third of opening it anew, and cannot be fooled by a reused pid, since the
    file of a process that is gone answers ESRCH.
    """

    def __init__(self, proc: str) -> None:
        self._proc = proc
        self._most_handles = limit_of_handles() - _SPARE_HANDLES
        self._newest: int | None = None
        if self._link('self') == str(os.getpid()):
            self._open_newest()

    def _open_newest(self) -> None:
        try:
            self._newest = os.open(f'{self._proc}/loadavg', os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return  # mount option subset=pid of proc(5), or no descriptor left
        before = self.newest()
        try:
            _thread.start_new_thread(int, ())
        except RuntimeError:
            pass  # a limit on processes: whether it changes is not found out then, and it is not used
        if self.newest() == before or os.fstat(self._newest).st_dev != os.stat(f'{self._proc}/self').st_dev:
            # Not the kernel's own: container software has put another file in its place, or none that changes.
            os.close(self._newest)
            self._newest = None

    def names(self) -> set[str]:
        """Return the names of all files, those of processes among them."""
        return set(os.listdir(self._proc))

    def newest(self) -> int | None:
        """Return the pid that a process or thread was given last, in loadavg, see proc_loadavg(5).

        It is that of the reader's own pid namespace; None where the folder is that of another one.
        """
        if self._newest is None:
            return None
        return int(os.pread(self._newest, _MOST_BYTES, 0).rpartition(b' ')[2])

    def open(self, pid: int) -> Process | None:
        """Return the process with that pid, or None where it is gone or hidden (mount option hidepid of proc(5))."""
        try:
            handle = os.open(f'{self._proc}/{pid}/stat', os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return None
        process = Process(pid)
        process.handle = handle
        process.user = os.fstat(handle).st_uid
        try:
            stat.update(process, os.pread(handle, _MOST_BYTES, 0))
        except ProcessLookupError:
            os.close(handle)
            return None
        if handle >= self._most_handles:
            self.close(process)
        return process

    def parent(self, pid: int) -> int | None:
        """Return the parent of a process of which nothing else is known; None where it is gone or hidden."""
        try:
            handle = os.open(f'{self._proc}/{pid}/stat', os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return None
        try:
            line = os.pread(handle, _MOST_BYTES, 0)
        except ProcessLookupError:
            return None
        finally:
            os.close(handle)
        return stat.parent(line)

    def open_memory(self, process: Process) -> None:
        """Keep the memory file of ``process`` open as well."""
        if process.handle is not None:
            try:
                process.memory_handle = os.open(f'{self._proc}/{process.pid}/statm', os.O_RDONLY | os.O_CLOEXEC)
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                pass  # it has ended: its stat file tells at the next sample; or it is another user's, and hidden

    def line(self, process: Process) -> bytes:
        """Return what the stat file of ``process`` says now.

        :raises ProcessLookupError: if it is gone.
        """
        if process.handle is not None:
            return os.pread(process.handle, _MOST_BYTES, 0)
        try:
            line = self._read(process, 'stat')
        except FileNotFoundError:
            raise ProcessLookupError(process.pid) from None
        if stat.start(line) != process.start:
            raise ProcessLookupError(process.pid)  # another process has got the pid
        return line

    def memory(self, process: Process) -> bytes:
        """Return what the statm file of ``process`` says now; nothing where it has ended or is hidden."""
        try:
            if process.memory_handle is not None:
                memory = os.pread(process.memory_handle, _MOST_BYTES, 0)
            else:
                memory = self._read(process, 'statm')
            if memory.startswith(b'0 '):
                memory = self._memory_of_a_thread(process) or memory
        except (ProcessLookupError, FileNotFoundError, PermissionError):
            return b''
        return memory

    def waits_uninterruptibly(self, process: Process) -> bool:
        """Return whether a thread of ``process`` waits for something that no signal interrupts, as vfork(2) does."""
        folder = f'{self._proc}/{process.pid}/task'
        try:
            for thread in os.listdir(folder):
                with open(f'{folder}/{thread}/stat', 'rb') as file:
                    if stat.state(file.read()) == b'D':
                        return True
        except OSError:
            pass  # it has ended, or that thread has
        return False

    def close(self, process: Process) -> None:
        """Close all files of ``process``."""
        for handle in (process.handle, process.memory_handle):
            if handle is not None:
                os.close(handle)
        process.handle = process.memory_handle = None

    def is_sampler(self, process: Process) -> bool | None:
        """Return whether ``process`` is some tracker's sampler or its stub; None while it has no command line.

        That is so for a moment in the middle of execve(2): the name is new, the command line is not there yet; and from
        the moment when it gives up its memory until it has ended. One that is found gone altogether is marked as ended.
        """
        if process.name == SAMPLER_NAME:
            return True
        try:
            words = process.command_line = self._read(process, 'cmdline')
        except (FileNotFoundError, ProcessLookupError):
            process.ended, process.threads = True, 0  # since its stat file was read
            return None
        except OSError:
            process.command_line = b''
            return False  # another user's
        return _MARK in words if words or process.ended else None

    def ignores_children(self, process: Process) -> bool:
        """Return whether SIGCHLD is ignored by ``process`` (SigIgn in ``/proc/PID/status``)."""
        try:
            with open(f'{self._proc}/{process.pid}/status', 'rb') as status:
                for line in status:
                    if line.startswith(b'SigIgn:'):
                        return bool(int(line[7:], 16) & _SIGCHLD_BIT)
        except OSError:
            pass  # it has ended: what it ignored does not matter any more
        return False

    def _memory_of_a_thread(self, process: Process) -> bytes | None:
        """Return what another thread's statm file says: that of a first thread which has ended knows no memory."""
        for thread in os.listdir(f'{self._proc}/{process.pid}/task'):
            if int(thread) != process.pid:
                with open(f'{self._proc}/{process.pid}/task/{thread}/statm', 'rb') as memory:
                    return memory.read()
        return None

    def _read(self, process: Process, name: str) -> bytes:
        handle = os.open(f'{self._proc}/{process.pid}/{name}', os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(handle, _MOST_BYTES, 0)
        finally:
            os.close(handle)

    def _link(self, name: str) -> str | None:
        try:
            return os.readlink(f'{self._proc}/{name}')
        except OSError:
            return None  # no /proc of this machine, as in tests


_NUMBERS = {'x86_64': 312, 'aarch64': 272, 'riscv64': 272, 'ppc64le': 354, 's390x': 343}
"""Of the system call, by machine, see the kernel's tables of system calls."""
_KCMP_VM = 1


def has_same_memory(pid: int, other: int) -> bool | None:
    """Return whether two processes share their whole address space; None where the kernel does not say.

    It does so only for processes that may be traced, and a container may forbid the call.
    """
    number = _NUMBERS.get(os.uname().machine)
    if number is None:
        return None
    try:
        import ctypes  # noqa: PLC0415 - costs 6 ms, and few trees have two processes that look so much alike
    except ImportError:
        return None  # this interpreter has none, or no more files may be opened

    found = ctypes.CDLL(None, use_errno=True).syscall(number, pid, other, _KCMP_VM, 0, 0)
    return None if found < 0 else found == 0
