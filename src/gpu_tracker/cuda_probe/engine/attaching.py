"""The probe's programs on functions of files: by one link for all where the kernel has it, by perf events otherwise."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gpu_tracker.cuda_probe.calls import What
from gpu_tracker.cuda_probe.engine import system_calls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.cuda_probe.calls import Function

MULTI = 'uprobe.multi'
PERF = 'perf'
_UPROBES = '/sys/bus/event_source/devices/uprobe'
_AT_ENTRY_ONLY = {What.CHANGE_LIBRARIES}


class Place(NamedTuple):
    """Where a function begins in a file."""

    offset: int
    """Bytes from the file's begin."""
    function: Function


class Attacher(Protocol):
    """Attaches the two programs, and detaches them again."""

    def attach(self, path: str, places: Sequence[Place]) -> None:
        """Attach to functions of a file, in every process that uses it, from now on and later.

        :raises OSError: The kernel has refused it.
        """

    def close(self) -> None:
        """Detach everything."""


class MultiAttacher:
    """One link for all entries of a file and one for all returns: CAP_BPF and CAP_PERFMON do, from Linux 6.6 on."""

    def __init__(self, enter: int, leave: int) -> None:
        self._programs = enter, leave
        self._links: list[int] = []

    def attach(self, path: str, places: Sequence[Place]) -> None:
        """See :class:`Attacher`. Returns come first: a call is counted when both its ends were seen."""
        enter, leave = self._programs
        for program, chosen in ((leave, _returning(places)), (enter, places)):
            if chosen:
                offsets, cookies = [place.offset for place in chosen], [place.function.cookie for place in chosen]
                link = system_calls.link_functions(program, path, offsets, cookies, at_return=program == leave)
                self._links.append(link)

    def close(self) -> None:
        """See :class:`Attacher`."""
        _close(self._links)


class PerfAttacher:
    """A perf event for each entry and each return, on kernels before that; since 6.16 these take CAP_SYS_ADMIN.

    The kernel detaches them one by one, and waits each time until no processor runs the program: 0.1 s a function.

    :raises OSError: The kernel has no uprobes.
    """

    def __init__(self, enter: int, leave: int) -> None:
        self._programs = enter, leave
        self._kind = int(_read(f'{_UPROBES}/type'))
        self._return_bit = int(_read(f'{_UPROBES}/format/retprobe').rpartition(':')[2])
        self._open: list[int] = []

    def attach(self, path: str, places: Sequence[Place]) -> None:
        """See :class:`Attacher`."""
        enter, leave = self._programs
        for program, chosen in ((leave, _returning(places)), (enter, places)):
            for place in chosen:
                self._attach(program, path, place, at_return=program == leave)

    def close(self) -> None:
        """See :class:`Attacher`."""
        _close(self._open)

    def _attach(self, program: int, path: str, place: Place, *, at_return: bool) -> None:
        event = system_calls.open_uprobe(
            self._kind, path, place.offset, at_return=at_return, return_bit=self._return_bit
        )
        self._open.append(event)
        self._open.append(system_calls.link_perf_event(program, event, place.function.cookie))
        system_calls.enable_perf_event(event)


def _returning(places: Sequence[Place]) -> list[Place]:
    return [place for place in places if place.function.what not in _AT_ENTRY_ONLY]


def _close(handles: list[int]) -> None:
    while handles:
        os.close(handles.pop())


def _read(path: str) -> str:
    with open(path, encoding='ascii') as file:
        return file.read().strip()
