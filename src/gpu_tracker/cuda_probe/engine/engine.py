"""The probe in the kernel: opened, attached to files, read, closed."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.engine import kernel_layout
from gpu_tracker.cuda_probe.engine.attaching import (
    KINDS,
    MULTI,
    PERF,
    SESSION,
    AttachedFiles,
    MultiAttacher,
    PerfAttacher,
    SessionAttacher,
)
from gpu_tracker.cuda_probe.engine.graph_launches import GraphLaunches
from gpu_tracker.cuda_probe.engine.kernel_layout import forget, read_notices, read_totals
from gpu_tracker.cuda_probe.engine.libbpf import open_libbpf
from gpu_tracker.cuda_probe.engine.loading import LoadedObject, explain, read_object
from gpu_tracker.cuda_probe.kernel_data import KernelTotals

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from gpu_tracker.cuda_probe.engine.attaching import Attacher
    from gpu_tracker.cuda_probe.engine.kernel_layout import Notice
    from gpu_tracker.cuda_probe.kernel_data import Totals
    from gpu_tracker.cuda_probe.libraries import CodeFile
    from gpu_tracker.cuda_probe.limits import Limits

_UNSUPPORTED = {errno.EINVAL, errno.EOPNOTSUPP}


class Engine:
    """The loaded probe.

    :param first: Files to begin with, on which it is seen how the kernel can attach: one has a probed function.
    :param kind: ``uprobe.session``, ``uprobe.multi`` or ``perf``; None: the first that this kernel has.
    :raises gpu_tracker.errors.ProbeUnavailableError: What is missing, in one sentence.
    """

    def __init__(self, limits: Limits, first: Iterable[CodeFile], kind: str | None = None) -> None:
        self._next = 1
        library, contents = open_libbpf(), read_object()
        first = list(first)
        for chosen in KINDS if kind is None else (kind,):
            self.kind = chosen
            try:
                self._open(LoadedObject(library, contents, limits, chosen), first)
            except OSError as error:
                if chosen == SESSION and kind is None:
                    continue  # whatever it is: the others say it better
                if chosen == PERF or error.errno not in _UNSUPPORTED:
                    raise explain(error, chosen) from error
            else:
                return
        raise explain(OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP)), MULTI)

    def _open(self, loaded: LoadedObject, first: Iterable[CodeFile]) -> None:
        with contextlib.ExitStack() as undoing:
            undoing.callback(loaded.close)
            self._loaded, self.files = loaded, AttachedFiles(self._attacher(loaded))
            self._graphs = GraphLaunches(loaded.maps)
            undoing.callback(self.files.close)
            loaded.trace()
            self.refused = self.files.attach_all(first)
            undoing.pop_all()

    def _attacher(self, loaded: LoadedObject) -> Attacher:
        if self.kind == SESSION:
            return SessionAttacher(loaded.program('either'))
        make = MultiAttacher if self.kind == MULTI else PerfAttacher
        return make(loaded.program('enter'), loaded.program('leave'))

    def follow(self, pid: int, *, has_begun: bool = False) -> int | None:
        """Follow a process and all that it starts from now on; return its number, None where it is followed already.

        :param has_begun: Whether it may have called CUDA before. Then it is not known which devices its threads have
            chosen, until they choose again, or it becomes another program.

        :raises OSError: There is no room for more.
        """
        number = kernel_layout.FOLLOWED.pack(self._next, 0, int(has_begun), 0)
        if not self._loaded.maps['followed'].put(kernel_layout.FOLLOWED_KEY.pack(pid), number, only_new=True):
            return None
        self._next += 1
        return self._next - 1

    def missed_calls(self, pid: int, process: int) -> None:
        """Record that a followed process may have chosen devices unseen."""
        followed, key = self._loaded.maps['followed'], kernel_layout.FOLLOWED_KEY.pack(pid)
        found = followed.get(key)
        if found is not None:
            number, parent, _, suspected = kernel_layout.FOLLOWED.unpack(found)
            if number == process:
                followed.put(key, kernel_layout.FOLLOWED.pack(number, parent, 1, suspected))
                self._loaded.check_threads()

    def unfollow(self, pid: int) -> None:
        """Follow a process no more."""
        self._loaded.maps['followed'].remove(kernel_layout.FOLLOWED_KEY.pack(pid))

    def followed_pids(self) -> list[int]:
        """Return the processes that are followed now."""
        return [int(kernel_layout.FOLLOWED_KEY.unpack(key)[0]) for key, _ in self._loaded.maps['followed'].items()]

    def take_events(self) -> Iterator[tuple[int, ...]]:
        """Return the events since the last call, as plain tuples with the fields of ``Event``."""
        return kernel_layout.EVENT.iter_unpack(self._loaded.events.take())

    def take_notices(self) -> Iterator[Notice]:
        """Return the notices since the last call."""
        return read_notices(self._loaded.notices.take())

    def handles(self) -> tuple[int, int]:
        """Return the descriptors that become readable when events, and when notices are there."""
        return self._loaded.handle('events'), self._loaded.handle('notices')

    def totals(self) -> Totals:
        """Read what the kernel has added up."""
        totals = read_totals(self._loaded.maps)
        by_graphs = self._graphs.by_kernel()
        kernels = []
        for kernel in totals.kernels:
            more = by_graphs.pop((kernel.process, kernel.address), (0, 0))
            kernels.append(kernel._replace(launches=kernel.launches + more[0], threads=kernel.threads + more[1]))
        living = {process.process for process in totals.processes}
        kernels += (KernelTotals(*key, *launches) for key, launches in by_graphs.items() if key[0] in living)
        return totals._replace(kernels=tuple(kernels))

    def free_graphs(self) -> None:
        """Give back the room of CUDA graphs that were destroyed."""
        self._graphs.free()

    def ended(self) -> int:
        """Return how many program runs that have ended still take room in the kernel."""
        return sum(kernel_layout.PROCESS.unpack(value)[1] != 0 for _, value in self._loaded.maps['processes'].items())

    def forget(self, processes: Collection[int]) -> None:
        """Give back the room of program runs that have ended."""
        self._graphs.forget(processes)
        forget(self._loaded.maps, processes)

    def close(self) -> None:
        """Detach everything and take it out of the kernel."""
        self.files.close()
        self._loaded.close()
