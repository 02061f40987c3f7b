"""Which processes count: a root process, all that it started, and how they were last seen."""

from __future__ import annotations

import sys

from gpu_tracker.errors import see
from gpu_tracker.real import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from gpu_tracker.processes.process import Process

    class ProcessTree(Protocol):
        """A root process and its descendants.

        Once a process is known as a descendant it stays one, also when its parent ends and it is handed to another.
        Samplers, this one's and any other's, never belong to a tree.
        """

        root: Process
        """The root as it was last seen, also after its end."""
        root_gone: bool
        """The root has ended and was reaped (while it is a zombie it is still there)."""
        members: dict[int, Process]
        """The root and its descendants by pid, parents before their children; without those that are gone."""
        gone: list[Process]
        """The members that have disappeared since the previous refresh, as they were last read."""
        begun: float
        """When the last refresh began."""
        foreign_cpu: float
        """CPU seconds of samplers that members have reaped and that are therefore in those members' times."""
        counts_reaped_faults: bool
        """``Process.reaped_faults`` grows with each child that a process has reaped."""
        counts_reaped_time: bool
        """``Process.reaped_cpu`` grows with each child that a process has reaped."""
        listings: int
        """Grows if something may have been started."""
        changes: int
        """Grows if a refresh has found anything changed."""
        changed_members: float
        """When a refresh has last found that a process has started or ended, after the tree was opened."""

        @property
        def samplers(self) -> dict[int, Process]:
            """The samplers that members have started and that still run, by pid."""

        @property
        def may_miss_orphans(self) -> bool:
            """Whether a process was seen that may be an orphan of the tree, and may as well be another program's."""

        @property
        def root_is_copy(self) -> bool:
            """Whether the root has the program image of its parent: pages of both may be the same."""

        def refresh(self) -> None:
            """Read every member again, and take in new ones."""

        def refresh_root(self) -> None:
            """Read the root alone again."""

        def ignores_children(self, process: Process) -> bool:
            """Return whether the kernel adds nothing to ``process`` when a child of it ends: it ignores them."""


SAMPLER_MARK = 'gpu-tracker-sampler'
"""Stands in the command line of every sampler, by which trackers know each other's."""
SAMPLER_NAME = b'gput-sampler'
"""How every sampler is called by ps and top, also when it has ended and its command line is gone."""


def proc_fault(proc: str = '/proc') -> str | None:
    """Return why processes cannot be found in ``proc`` by their pids, as a sentence for users; None where they can.

    In a PID namespace under an older ``/proc`` each of its folders is another process than the one with that pid here.
    Linux only.
    """
    own = os.getpid()
    try:
        found = os.readlink(f'{proc}/self')
    except OSError:
        if not os.path.lexists(f'{proc}/self'):
            return (
                f'{proc} is not mounted, so no process can be measured. Mount it: mount -t proc proc {proc}. '
                f'{see("proc")}'
            )
        found = ''  # this process is in none of the namespaces that it shows
    if found != str(own):
        known = f'it has this process, {own}, as {found}' if found else f'it does not have this process, {own}'
        return (
            f'{proc} is that of another PID namespace: {known}. '
            f'Mount one of this namespace over it, as unshare --mount-proc does: mount -t proc proc {proc}. '
            f'{see("proc")}'
        )
    try:
        outside = os.readlink(f'{proc}/self/ns/pid_for_children') != os.readlink(f'{proc}/self/ns/pid')
    except FileNotFoundError:
        # A namespace in which no process has been started yet has no name. Before Linux 4.12 there is no such link.
        outside = os.path.lexists(f'{proc}/self/ns/pid_for_children')
    except OSError:
        outside = False  # not permitted; the sampler checks it too
    if outside:
        return (
            f'What this process, {own}, starts gets into another PID namespace, so nothing that it starts can measure '
            f'it. Start it inside that namespace, as unshare --fork does. {see("proc")}'
        )
    return None


def default_reader() -> str:
    """Return ``'proc'`` on Linux and ``'psutil'`` elsewhere."""
    return 'proc' if sys.platform == 'linux' else 'psutil'


def process_exists(pid: int) -> bool:
    """Return whether there is a process of this ID, of whatever user, be it a zombie."""
    if os.name != 'posix':
        import psutil  # noqa: PLC0415 - kept out of the measured process where the system itself knows

        return bool(psutil.pid_exists(pid))
    try:
        os.kill(pid, 0)  # sends nothing, kill(2)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
