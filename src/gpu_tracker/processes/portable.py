"""The process tree read through psutil, on any system."""

from __future__ import annotations

import os
import sys
import time

import psutil

from gpu_tracker.processes import SAMPLER_MARK, SAMPLER_NAME
from gpu_tracker.processes.process import Process

_MARK = SAMPLER_MARK.encode()
_GONE = (psutil.NoSuchProcess, psutil.ZombieProcess)


class PortableProcessTree:
    """See :class:`~gpu_tracker.processes.ProcessTree`.

    psutil checks pid and start time of what it holds, so a reused pid is no danger. The time of children that end
    between two samples is not known but on Linux (``children_user`` of :meth:`psutil.Process.cpu_times`).

    :param launcher: A process that adopts the root's orphans: its new children belong to the tree.
    :param held: The root is still a copy of its launcher and will become the program that is to be tracked.
    :raises ProcessLookupError: if there is no such root.
    """

    def __init__(self, root_pid: int, *, launcher: int | None = None, held: bool = False, own_pid: int) -> None:
        self._own_pid = own_pid
        self._launcher = launcher
        self._handles: dict[int, psutil.Process] = {}
        try:
            handle = psutil.Process(root_pid)
        except psutil.NoSuchProcess:
            raise ProcessLookupError(root_pid) from None
        self.root = Process(root_pid)
        self.root_gone = False
        self.members: dict[int, Process] = {root_pid: self.root}
        self._handles[root_pid] = handle
        self.gone: list[Process] = []
        self.foreign_cpu = 0.0
        self.samplers: dict[int, Process] = {}
        self.listings = 0
        self.may_miss_orphans = self.root_is_copy = False
        self.counts_reaped_faults = False
        self.counts_reaped_time = sys.platform == 'linux'  # elsewhere psutil has 0.0
        self.changes = 0
        self.begun = time.monotonic()
        self.root.shares_memory = held
        try:
            self._name(self.root)
        except psutil.Error:
            pass  # another user's, or it has ended
        self._held = self.root.command_line if held else b''
        self._read(self.root)
        self._admit_new()
        self.changed_members = float('-inf')

    def refresh(self) -> None:
        """Read every member again and take in those that are new."""
        self.begun = time.monotonic()
        self.changes += 1  # comparing would cost as much as reading on
        self.gone = []
        for process in list(self.members.values()):
            self._read(process)
        for process in self.gone:
            process.ended = True
            process.resident = process.threads = 0
            if process is self.root:
                self.root_gone = True
            del self.members[process.pid], self._handles[process.pid]
        self._admit_new()

    def refresh_root(self) -> None:
        """Read the root alone again."""
        if not self.root_gone:
            self._read(self.root)
            self.gone = []

    def ignores_children(self, process: Process) -> bool:
        """Return False: only Linux shows it."""
        del process
        return False

    def _read(self, process: Process) -> None:
        handle = self._handles[process.pid]
        try:
            if not handle.is_running():
                self.gone.append(process)
                return
            with handle.oneshot():
                process.ended = handle.status() == psutil.STATUS_ZOMBIE
                process.start = handle.create_time()
                process.parent = handle.ppid()
                times = handle.cpu_times()
                process.own_cpu = times.user + times.system
                process.reaped_cpu = getattr(times, 'children_user', 0.0) + getattr(times, 'children_system', 0.0)
                memory = handle.memory_info()
                process.resident = 0 if process.ended else memory.rss
                process.faults += 1  # not known portably: every sample may bring new pages
                process.threads = 0 if process.ended else handle.num_threads()
                if process.shares_memory:
                    self._name(process)
                    process.shares_memory = process.command_line == self._held
        except psutil.ZombieProcess:
            process.ended = True
            process.resident = process.threads = 0
        except psutil.NoSuchProcess:
            self.gone.append(process)
        except psutil.AccessDenied:
            pass  # another user's: what could be read stands

    def _name(self, process: Process) -> None:
        handle = self._handles[process.pid]
        process.name = handle.name().encode(errors='replace')
        process.command_line = ''.join(f'{word}\0' for word in handle.cmdline()).encode(errors='replace')

    def _admit_new(self) -> None:
        parents = {pid: parent for pid, parent in _parents().items() if pid not in self.members}
        growing = True
        while growing:
            growing = False
            for pid, parent in list(parents.items()):
                if parent in self.members or (parent == self._launcher and self._launcher is not None):
                    del parents[pid]
                    growing = self._admit(pid) or growing

    def _admit(self, pid: int) -> bool:
        if pid == self._own_pid:
            return False
        process = Process(pid)
        try:
            self._handles[pid] = psutil.Process(pid)
            self._name(process)
        except psutil.AccessDenied:
            pass  # another user's, so no sampler of ours
        except _GONE:
            self._handles.pop(pid, None)
            return False
        if process.name == SAMPLER_NAME or _MARK in process.command_line:
            del self._handles[pid]
            return False
        self._read(process)
        if process in self.gone:
            self.gone.remove(process)
            del self._handles[pid]
            return False
        parent = self.members.get(process.parent)
        if parent is not None and process.start < parent.start:
            del self._handles[pid]
            return False  # its parent has ended, and this is another process with the same ID (Windows)
        self.members[pid] = process
        self.changed_members = self.begun
        return True


def _parents() -> dict[int, int]:
    """Return the parent of every process of the machine, from psutil's own table where it has one."""
    parents: dict[int, int] = {}
    for process in psutil.process_iter(['ppid']):
        parent = process.info['ppid']
        if process.pid != os.getpid() and parent is not None:
            parents[process.pid] = parent
    return parents
