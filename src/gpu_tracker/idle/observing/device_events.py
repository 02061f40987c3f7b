"""Events of device files, by inotify(7), without root: a GPU that is opened or closed, a node or terminal that appears.

Only the nodes that are watched make events. An open through another node of the same device, such as a container's
own, makes none (fanotify(7) would need root): that is found at the next poll.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import struct
import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gpu_tracker.idle.observing.device_files import device_number

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Collection, Iterable, Iterator

    class Changed(Protocol):
        """Called when something has happened to a device file."""

        def __call__(self, *, opened: bool) -> None:
            """Take note of it; ``opened``: somebody may use a GPU, or work at a terminal, from now on."""


# From inotify(7) and sys/inotify.h.
_ATTRIBUTES = 0x4
_CLOSE = 0x8 | 0x10
_MOVED = 0x40 | 0x80
_OPEN = 0x20
_CREATE = 0x100
_DELETE = 0x200
_OVERFLOW = 0x4000
_IGNORED = 0x8000
_ONLY_FOLDER = 0x01000000
_IN_FOLDER = _CREATE | _DELETE | _MOVED | _ATTRIBUTES | _ONLY_FOLDER
_HEAD = struct.Struct('iIII')
_QUEUE_BYTES = 1 << 16
_MOST_READS = 4
"""As many as a full queue takes (fs.inotify.max_queued_events): who opens all the time could be read without end."""

_REASONS = {
    errno.EMFILE: "too many of this user's programs watch files (fs.inotify.max_user_instances), or too many are open",
    errno.ENFILE: 'too many files are open on this machine',
    errno.ENOSPC: 'too many files are watched by this user (fs.inotify.max_user_watches)',
}


class DeviceChanges(NamedTuple):
    """What has happened since it was asked last; false where nothing has."""

    opened: frozenset[int] = frozenset()
    """GPUs whose nodes were opened, by number; all that are watched where more has happened than could be noted."""
    closed: frozenset[int] = frozenset()
    """GPUs whose nodes were closed."""
    folder: bool = False
    """Nodes have come, gone or changed, or more has happened than could be noted: list the devices again."""
    terminal: bool = False
    """A pseudo-terminal has come, or more has happened than could be noted."""

    def __bool__(self) -> bool:
        """Return whether anything has happened."""
        return bool(self.opened or self.closed or self.folder or self.terminal)


class DeviceEvents:
    """Notes what happens to the nodes ``nvidiaN`` in a folder.

    :param folder: Where the nodes are.
    :raises OSError: with a reason for people, where there is no inotify or its limits are reached.
    """

    def __init__(self, folder: str = '/dev') -> None:
        self._folder = folder
        self._library = _library()
        self._handle: int = self._library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._handle < 0:
            raise _failure('inotify cannot be used')
        self._numbers: dict[int, int] = {}
        self._terminals: int | None = None
        """The watch of the folder of pseudo-terminals."""
        try:
            self._folder_watch = self._add(folder, _IN_FOLDER)
        except OSError:
            self.close()
            raise

    def fileno(self) -> int:
        """Return the descriptor, which is readable when something has happened."""
        return self._handle

    def watch(self, numbers: Iterable[int]) -> str | None:
        """Watch the nodes of these GPUs and no others, and return why one of them cannot be watched.

        :return: The reason in words, None where all is well. A node that is gone is no reason: its folder reports that.
        """
        problem = None
        before, self._numbers = self._numbers, {}
        for number in numbers:
            try:
                # Of a node that is watched already the same number comes back.
                self._numbers[self._add(f'{self._folder}/nvidia{number}', _OPEN | _CLOSE)] = number
            except FileNotFoundError:
                continue
            except OSError as error:
                problem = error.strerror
        for watch in before.keys() - self._numbers.keys():
            self._library.inotify_rm_watch(self._handle, watch)  # fails where the node is gone, and the watch with it
        return problem

    def watch_terminals(self, *, wanted: bool) -> str | None:
        """Watch for new pseudo-terminals, or no longer; return why that cannot be done, None where all is well.

        Somebody who works at one makes no event: the kernel tells of its use in its times alone.
        """
        if wanted and self._terminals is None:
            try:
                self._terminals = self._add(f'{self._folder}/pts', _CREATE | _MOVED | _ONLY_FOLDER)
            except FileNotFoundError:
                return None  # there are no pseudo-terminals
            except OSError as error:
                return error.strerror
        elif not wanted and self._terminals is not None:
            self._library.inotify_rm_watch(self._handle, self._terminals)
            self._terminals = None
        return None

    def drain(self) -> DeviceChanges:
        """Return what has happened since it was called last, without waiting; of very much only the first part."""
        opened: set[int] = set()
        closed: set[int] = set()
        folder = terminal = False
        for watch, mask, name in self._events():
            if mask & _OVERFLOW:
                folder = True
                terminal = self._terminals is not None
                opened.update(self._numbers.values())
            elif watch == self._folder_watch:
                folder |= device_number(name) is not None or bool(mask & _IGNORED)
            elif watch == self._terminals:
                terminal = True
                if mask & _IGNORED:  # the folder has gone; another one is found at the next poll
                    self._terminals = None
            elif watch in self._numbers:
                if mask & _OPEN:
                    opened.add(self._numbers[watch])
                if mask & _CLOSE:
                    closed.add(self._numbers[watch])
        return DeviceChanges(frozenset(opened), frozenset(closed), folder, terminal)

    def _events(self) -> Iterator[tuple[int, int, str]]:
        """Yield for each event the number of its watch, its mask, and the name of a file in a folder."""
        for _ in range(_MOST_READS):
            events = self._read()
            position = 0
            while position < len(events):
                watch, mask, _, length = _HEAD.unpack_from(events, position)
                position += _HEAD.size + length
                yield watch, mask, os.fsdecode(events[position - length : position].rstrip(b'\0'))
            if not events:
                return

    def close(self) -> None:
        """Let go of the descriptor; may be called twice."""
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = -1

    def _read(self) -> bytes:
        try:
            return os.read(self._handle, _QUEUE_BYTES)
        except BlockingIOError:
            return b''

    def _add(self, path: str, mask: int) -> int:
        watch: int = self._library.inotify_add_watch(self._handle, os.fsencode(path), ctypes.c_uint32(mask))
        if watch < 0:
            raise _failure(f'{path} cannot be watched')
        return watch


def open_device_events(folder: str = '/dev') -> tuple[DeviceEvents | None, str | None]:
    """Return what notes changes in ``folder``, or None and the reason, in words, why there is nothing that could."""
    try:
        return DeviceEvents(folder), None
    except OSError as error:
        return None, error.strerror


def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, 'inotify_init1'):
        raise OSError(errno.ENOSYS, 'this system has no inotify')
    return library


def _failure(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f'{what}: {_REASONS.get(number) or os.strerror(number)}')


_REST = 20
"""For how many times the processor time that listening has taken it rests."""
_SHORTEST_REST, _LONGEST_REST = 0.02, 1.0
"""Seconds; what would be a shorter rest counts for the next one."""


class DeviceListener:
    """Listens to what happens to device files; where that cannot be had it says so once, and stays silent.

    Who opens one all the time does not keep the monitor busy: it listens for a twentieth of the time at most.

    :param folder: Of the device files.
    :param open_events: Returns the events of changes there, or why there is no such thing.
    :param thread_time: Returns the processor time of this thread.
    """

    def __init__(
        self,
        folder: str,
        log: logging.Logger,
        *,
        open_events: Callable[[str], tuple[DeviceEvents | None, str | None]] = open_device_events,
        thread_time: Callable[[], float] = time.thread_time,
    ) -> None:
        self._log = log
        self._thread_time = thread_time
        self._rest = 0.0
        """Seconds that are still to be rested, at the time :attr:`_heard`."""
        self._heard = 0.0
        self._resting: asyncio.TimerHandle | None = None
        self._wake, self._problem = open_events(folder)
        self._warn(self._problem)

    def listen(self, changed: Changed) -> None:
        """Report changes from now on."""
        if self._wake is not None:
            asyncio.get_running_loop().add_reader(self._wake.fileno(), self._take, changed)

    def watch(self, nodes: Collection[int], *, terminals: bool) -> None:
        """Listen to these device files and no others.

        :param terminals: Listen to new pseudo-terminals as well: somebody may work there from then on.
        """
        if self._wake is not None:
            problem = self._wake.watch(nodes) or self._wake.watch_terminals(wanted=terminals)
            if problem != self._problem:
                self._warn(problem)
            self._problem = problem

    def close(self) -> None:
        """Listen no more."""
        if self._resting is not None:
            self._resting.cancel()
        if self._wake is not None:
            asyncio.get_running_loop().remove_reader(self._wake.fileno())
            self._wake.close()

    def _take(self, changed: Changed) -> None:
        if self._wake is not None:
            begun = self._thread_time()
            happened = self._wake.drain()
            if happened:
                changed(opened=bool(happened.opened) or happened.terminal)
            self._pause(self._thread_time() - begun, changed)

    def _pause(self, cost: float, changed: Changed) -> None:
        """Rest before listening again where much has happened lately."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._rest = min(max(0.0, self._rest - (now - self._heard)) + _REST * cost, _LONGEST_REST)
        self._heard = now
        if self._wake is not None and self._rest > _SHORTEST_REST:
            loop.remove_reader(self._wake.fileno())
            self._resting = loop.call_later(self._rest, self.listen, changed)

    def _warn(self, problem: str | None) -> None:
        if problem is not None:
            self._log.warning('%s: a program that opens a GPU is noticed only at the next check', problem)
