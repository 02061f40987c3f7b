"""Attachment of the probe's programs to functions of files: by one link for all, or by perf events on older kernels."""

from __future__ import annotations

import contextlib
import os
import subprocess
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gpu_tracker.cuda_probe.calls import What
from gpu_tracker.cuda_probe.engine import system_calls

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpu_tracker.cuda_probe.calls import Function

MULTI = 'uprobe.multi'
PERF = 'perf'
_UPROBES = '/sys/bus/event_source/devices/uprobe'
_AT_ENTRY_ONLY = {What.CHANGE_LIBRARIES}


class ProbePoint(NamedTuple):
    """Where a function begins in a file."""

    offset: int
    """Bytes from the file's begin."""
    function: Function


class Attacher(Protocol):
    """Attaches the two programs, and detaches them again."""

    def attach(self, path: str, points: Sequence[ProbePoint]) -> list[int]:
        """Attach to functions of a file, in every process that uses it, from now on and later.

        Return the descriptors by which it is attached: each has to be given to :meth:`detach`.

        :raises OSError: The kernel has refused it.
        """

    def detach(self, handles: list[int]) -> None:
        """Detach what has these descriptors."""


class MultiAttacher:
    """One link for all entries of a file and one for all returns: CAP_BPF and CAP_PERFMON do, from Linux 6.6 on."""

    def __init__(self, enter: int, leave: int) -> None:
        self._programs = enter, leave

    def attach(self, path: str, points: Sequence[ProbePoint]) -> list[int]:
        """See :class:`Attacher`. Returns come first: a call is counted when both its ends were seen."""
        enter, leave = self._programs
        with _undoing() as links:
            for program, chosen in ((leave, _returning(points)), (enter, points)):
                if chosen:
                    offsets, cookies = [point.offset for point in chosen], [point.function.cookie for point in chosen]
                    link = system_calls.link_functions(program, path, offsets, cookies, at_return=program == leave)
                    links.append(link)
        return links

    def detach(self, handles: list[int]) -> None:
        """See :class:`Attacher`. The kernel waits until no processor runs the programs: 0.1 s a link at most."""
        _close(handles)


class PerfAttacher:
    """A perf event for each entry and each return, on kernels before that; since 6.16 these take CAP_SYS_ADMIN.

    :raises OSError: The kernel has no uprobes.
    """

    def __init__(self, enter: int, leave: int) -> None:
        self._programs = enter, leave
        self._kind = int(_read(f'{_UPROBES}/type'))
        self._return_bit = int(_read(f'{_UPROBES}/format/retprobe').rpartition(':')[2])

    def attach(self, path: str, points: Sequence[ProbePoint]) -> list[int]:
        """See :class:`Attacher`."""
        enter, leave = self._programs
        with _undoing() as handles:
            for program, chosen in ((leave, _returning(points)), (enter, points)):
                for point in chosen:
                    bit = self._return_bit
                    event = system_calls.open_uprobe(
                        self._kind, path, point.offset, at_return=program == leave, return_bit=bit
                    )
                    handles.append(event)
                    handles.append(system_calls.link_perf_event(program, event, point.function.cookie))
                    system_calls.enable_perf_event(event)
        return handles

    def detach(self, handles: list[int]) -> None:
        """See :class:`Attacher`.

        The kernel detaches events one by one, and waits each time until no processor runs the program: 0.1 s for each
        of a hundred. So a process that does nothing else holds them too, and the waiting is left to its end.
        """
        reader, writer = os.pipe()
        try:
            subprocess.run(
                ['/bin/sh', '-c', '{ cat <&3 >/dev/null 2>&1 & } 3<&0'],
                stdin=reader,
                pass_fds=handles,
                start_new_session=True,
                check=False,
            )
        except OSError:
            pass  # no process can be started: then it takes its time here
        os.close(reader)
        _close(handles)
        os.close(writer)


def _returning(points: Sequence[ProbePoint]) -> list[ProbePoint]:
    return [point for point in points if point.function.what not in _AT_ENTRY_ONLY]


@contextlib.contextmanager
def _undoing() -> Iterator[list[int]]:
    """Give a list for what is opened inside, and close that where not all of it could be."""
    handles: list[int] = []
    try:
        yield handles
    except OSError:
        _close(handles)
        raise


def _close(handles: list[int]) -> None:
    while handles:
        os.close(handles.pop())


def _read(path: str) -> str:
    with open(path, encoding='ascii') as file:
        return file.read().strip()
