"""Names that keep a second monitor away from the same GPUs, whoever's it is.

A name of the kernel's own, which is no file: unix(7). It is free again as soon as its monitor has ended, however that
was. Such names belong to a network namespace, network_namespaces(7): a monitor in a container that has a network of
its own does not see those of the others.
"""

from __future__ import annotations

import errno
import os
import socket
import time
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.errors import GpuTrackerError
from gpu_tracker.sockets import peer_of
from gpu_tracker.users import user_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gpu_tracker.sockets import Peer

PREFIX = 'gpu-tracker-idle/'
_BACKLOG = 128
_BELIEVED = 10.0
"""Seconds for which it is not asked again who has a name, as long as somebody has it."""


class Taken(NamedTuple):
    """What another process has."""

    identity: str
    holder: Peer | None = None
    """None where it cannot be told."""

    def in_words(self, name_of: Callable[[int], str] = user_name) -> str:
        """Return who has it, as it stands in a message: ``another idle monitor (pid 17, alice)``.

        :param name_of: Tells the name of the user with an ID.
        """
        return (
            'another idle monitor' if self.holder is None else f'another idle monitor ({self.holder.in_words(name_of)})'
        )


class WatchNames:
    """The names that this monitor has.

    :param prefix: What each begins with.
    :param monotonic: Tells the time.
    """

    def __init__(self, prefix: str = PREFIX, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._prefix = prefix
        self._monotonic = monotonic
        self._held: dict[str, socket.socket] = {}
        self._answers: dict[str, _Answer] = {}
        """Who has the names of others, by the identities."""

    @property
    def held(self) -> frozenset[str]:
        """The identities whose names this monitor has."""
        return frozenset(self._held)

    def claim(self, identities: Iterable[str]) -> tuple[Taken, ...]:
        """Take the names of GPUs, and return those that others have; the rest is held, as what was held before.

        :param identities: What a GPU is known by for all users, such as ``char 195:0``; of each, up to 80 bytes.
        :raises GpuTrackerError: The system gives no such names.
        """
        taken = []
        for identity in dict.fromkeys(identities):
            if identity in self._held:
                _send_away(self._held[identity])
                continue
            found = self._take(identity)
            if isinstance(found, Taken):
                taken.append(found)
            else:
                self._held[identity] = found
                self._answers.pop(identity, None)
        return tuple(taken)

    def release(self, identities: Iterable[str]) -> None:
        """Give names back; those that are not held stay as they are."""
        for identity in identities:
            if identity in self._held:
                self._held.pop(identity).close()

    def close(self) -> None:
        """Give all names back."""
        self.release(self.held)

    def _take(self, identity: str) -> socket.socket | Taken:
        name = b'\0' + os.fsencode(self._prefix + identity)
        for _ in range(2):
            listener = _bound(name)
            if listener is not None:
                return listener
            answer = self._answers.get(identity)
            if answer is not None and self._monotonic() < answer.outdated_at:
                return Taken(identity, answer.holder)
            try:
                holder = _holder(name)
            except ConnectionRefusedError:
                continue  # it has just ended, or does not listen yet
            if holder is not None:
                self._answers[identity] = _Answer(holder, self._monotonic() + _BELIEVED)
            return Taken(identity, holder)
        return Taken(identity)


class _Answer(NamedTuple):
    holder: Peer
    outdated_at: float


def _bound(name: bytes) -> socket.socket | None:
    """Return a listening socket of that name, None where another has it."""
    listener = _socket(name)
    try:
        listener.settimeout(0)
        listener.bind(name)
        listener.listen(_BACKLOG)  # so that others can ask whose it is
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            return None
        raise _not_had(name, error) from None
    except BaseException:
        listener.close()
        raise
    return listener


def _holder(name: bytes) -> Peer | None:
    """Return who listens at the name.

    :raises ConnectionRefusedError: Nobody does.
    """
    with _socket(name) as asker:
        asker.settimeout(0)
        try:
            asker.connect(name)
            return peer_of(asker)
        except ConnectionRefusedError:
            raise
        except OSError:
            return None  # too many have asked before, or the system does not tell


def _socket(name: bytes) -> socket.socket:
    try:
        return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    except OSError as error:
        raise _not_had(name, error) from None


def _not_had(name: bytes, error: OSError) -> GpuTrackerError:
    label = os.fsdecode(name[1:])
    reason = (error.strerror or str(error)).lower()
    return GpuTrackerError(f'the name @{label}, which keeps other monitors away, cannot be had: {reason}')


def _send_away(listener: socket.socket) -> None:
    """Take those who have asked out of the queue, so that the next ones find room."""
    try:
        for _ in range(_BACKLOG):
            listener.accept()[0].close()
    except OSError:
        pass  # nobody is left, or this process has too many open files
