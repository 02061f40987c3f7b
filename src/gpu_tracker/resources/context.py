"""What resources are opened with: the configuration of a run, its process tree, and the machine that it runs on."""

from __future__ import annotations

import os
import time

from gpu_tracker.resources.budget import Budget, OverheadLimit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from gpu_tracker.processes import ProcessTree
    from gpu_tracker.totals import Configuration

    class System(Protocol):
        """Reads the machine."""

        ram_capacity: int | None
        """Bytes of RAM of the machine."""
        cores: int | None
        """Logical cores of the machine."""

        def ram(self) -> int | None:
            """Return the bytes in use."""

        def cpu(self) -> float | None:
            """Return the CPU seconds that all cores together have been busy since some fixed moment."""


class Context:
    """One run, in the sampler.

    The tree is opened where it is first needed: a resource that does not need it, and whose opening takes its time in
    a thread of its own, comes before those that do.

    :param config: The sampler's configuration, see :class:`gpu_tracker.totals.Configuration`.
    """

    def __init__(self, config: Configuration) -> None:
        self.config = config
        self.limit = None if config['overhead'] is None else OverheadLimit(config['overhead'], time.process_time)
        """What bounds the CPU time of the sampler, where the user has set that."""
        self.budget: Budget | OverheadLimit = self.limit or Budget(time.monotonic())
        """What optional readings are paid from."""
        # Some resources have threads that may be busy: what a reading costs is then told by the loop's own clock.
        self.cpu_time: Callable[[], float] = time.thread_time if config['sections'] else time.process_time
        """The CPU seconds that the loop has used."""
        self._tree: ProcessTree | None = None
        self._machine: System | None = None

    @property
    def tree(self) -> ProcessTree:
        """The tracked processes.

        :raises ProcessLookupError: if there is no such process.
        """
        if self._tree is None:
            config = self.config
            launcher = config['launcher']
            self._tree = open_process_tree(
                config['reader'], config['target'], launcher=launcher, held=launcher is not None
            )
        return self._tree

    @property
    def machine(self) -> System:
        """What the whole machine uses."""
        if self._machine is None:
            self._machine = open_system(self.config['reader'])
        return self._machine


class PortableSystem:
    """Reads the machine through psutil."""

    def __init__(self) -> None:
        import psutil  # noqa: PLC0415 - only where it is used: on Linux nothing needs it

        self._psutil = psutil
        self.ram_capacity: int | None = psutil.virtual_memory().total
        self.cores: int | None = psutil.cpu_count()

    def ram(self) -> int | None:
        """Return the bytes in use."""
        return int(self._psutil.virtual_memory().used)

    def cpu(self) -> float | None:
        """Return the CPU seconds that all cores together have been busy since some fixed moment."""
        times = self._psutil.cpu_times()
        idle = times.idle + getattr(times, 'iowait', 0.0)
        guest = getattr(times, 'guest', 0.0) + getattr(times, 'guest_nice', 0.0)
        return float(sum(times) - idle - guest - getattr(times, 'steal', 0.0))


def open_system(reader: str) -> System:
    """Return the machine, read in the way that ``reader`` names, as :func:`.open_process_tree` does."""
    if reader == 'proc':
        from gpu_tracker.resources.linux_system import LinuxSystem  # noqa: PLC0415 - read where it is needed

        return LinuxSystem()
    return PortableSystem()


def open_process_tree(
    reader: str, root_pid: int, *, launcher: int | None = None, held: bool = False, own_pid: int | None = None
) -> ProcessTree:
    """Return the tree of ``root_pid``, read in the way that ``reader`` names.

    :param reader: ``'proc'`` for Linux's own interface, ``'psutil'`` for any system.
    :param launcher: The pid of the program that started the root and adopts its orphans.
    :param held: The root is still a copy of its launcher: its memory does not count until it has called execve(2).
    :param own_pid: The pid of the sampler, this process where not given.
    :raises ProcessLookupError: if there is no such process.
    """
    if own_pid is None:
        own_pid = os.getpid()
    if reader == 'proc':
        from gpu_tracker.processes.linux import LinuxProcessTree  # noqa: PLC0415 - read where it is needed

        return LinuxProcessTree(root_pid, launcher=launcher, held=held, own_pid=own_pid)
    from gpu_tracker.processes.portable import PortableProcessTree  # noqa: PLC0415 - imports psutil

    return PortableProcessTree(root_pid, launcher=launcher, held=held, own_pid=own_pid)
