"""Whether the processes that a GPU driver lists are the ones that this program knows by the same process IDs."""

from __future__ import annotations

import os
import sys

from gpu_tracker.errors import see

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Set as AbstractSet

    from gpu_tracker.gpus.model import GpuProcess

_INITIAL_PID_NAMESPACE = 0xEFFFFFFC
"""PROC_PID_INIT_INO in Linux' include/linux/proc_ns.h: the inode of the machine's own PID namespace."""

_MUCH = 100_000_000
"""Bytes in use that no listed process accounts for; an idle driver's own are fewer, a CUDA context's more."""

_LOOKED_AT = 32
"""How many processes of a tree are checked, at each reading, for whether they compute on a GPU: about 50 µs each."""

IDLE_GUARDIAN = b'gput-guardian'
"""The name of the process that keeps a program of an idle monitor; what that starts is a descendant of this process."""

UNKNOWN_ATTRIBUTION = (
    'The GPU driver does not tell which process of this container uses how much GPU memory, so the GPU memory of the '
    "processes is unknown. A container that shares the machine's process IDs would know it: docker run --pid=host, or "
    f'hostPID: true in a pod of Kubernetes. {see("container-gpu-memory")}'
)


def in_initial_pid_namespace() -> bool:
    """Return whether this process has the machine's own process IDs, which are those that the driver knows."""
    try:
        return os.stat('/proc/self/ns/pid').st_ino == _INITIAL_PID_NAMESPACE
    except OSError:  # only Linux has PID namespaces; there, a sandbox may hide them
        return sys.platform != 'linux'


def has_open(pid: int, files: AbstractSet[str]) -> bool:
    """Return whether a process has one of these files open, such as those of ``GpuBackend.compute_files``."""
    folder = f'/proc/{pid}/fd'
    try:
        return any(os.readlink(f'{folder}/{name}') in files for name in os.listdir(folder))
    except OSError:  # it has ended, is another user's, or closed a file meanwhile: the next reading looks again
        return False


def pid_exists(pid: int) -> bool:
    """Return whether there is a process of this ID, of whatever user."""
    return os.path.exists(f'/proc/{pid}')


class Attribution:
    """Decides, in a container, whether the driver's process IDs are the container's.

    In a PID namespace of its own a container may be shown the machine's process IDs, none, or its own with a memory of
    0. A listed process of the tree that has memory shows that the IDs are the container's.

    :param exists: Returns whether there is a process of an ID.
    :param uses: Returns whether the process of an ID computes on a GPU.
    :param is_certain: Whether this process is in the machine's own PID namespace.
    """

    def __init__(
        self, exists: Callable[[int], bool], uses: Callable[[int], bool] = lambda _: False, *, is_certain: bool
    ) -> None:
        self._exists = exists
        self._uses = uses
        self._is_trusted = is_certain
        self._is_doubted = False

    @property
    def is_unknown(self) -> bool:
        """Whether the memory of a process cannot be known."""
        return self._is_doubted and not self._is_trusted

    def check(
        self,
        processes: Sequence[GpuProcess],
        used: int | None,
        ours: frozenset[int],
        look_again: Callable[[], Sequence[GpuProcess] | None],
    ) -> None:
        """Check one GPU's list; a process that had just ended is no longer there at a second reading."""
        if self._is_trusted or not ours:  # without a process of the tree there is nothing to be doubted
            return
        if any(process.memory and process.pid in ours for process in processes):
            self._is_trusted = True
            return
        if self._is_doubted:
            return
        strangers = self._strangers(processes)
        if strangers and strangers & self._strangers(look_again() or []):
            self._is_doubted = True
        unexplained = (used or 0) - sum(process.memory or 0 for process in processes)
        if unexplained > _MUCH and (
            any(process.memory == 0 for process in processes) or self._one_is_missing(processes, ours)
        ):
            self._is_doubted = True

    def _one_is_missing(self, processes: Sequence[GpuProcess], ours: frozenset[int]) -> bool:
        """Return whether a process of the tree computes on a GPU and none is listed."""
        if any(process.pid in ours for process in processes):
            return False
        return any(self._uses(pid) for pid in sorted(ours)[:_LOOKED_AT])

    def _strangers(self, processes: Sequence[GpuProcess]) -> set[int]:
        return {process.pid for process in processes if not self._exists(process.pid)}
