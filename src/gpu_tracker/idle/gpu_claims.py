"""Claims on GPUs: names that keep other monitors away from the GPUs of this one, and this one from theirs.

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
from gpu_tracker.system.sockets import peer_of
from gpu_tracker.system.users import user_name

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Iterable, Mapping

    from gpu_tracker.idle.config.idle_settings import GpuId
    from gpu_tracker.idle.state import Observation
    from gpu_tracker.system.sockets import Peer

PREFIX = 'gpu-tracker-idle/'
_BACKLOG = 128
_CACHED = 10.0
"""Seconds for which it is not asked again who has a name, as long as somebody has it."""


class Taken(NamedTuple):
    """What another process has."""

    identity: str
    holder: Peer | None = None
    """None where it is not known."""

    def in_words(self, name_of: Callable[[int], str] = user_name) -> str:
        """Return who has it, as it stands in a message: ``another idle monitor (pid 17, alice)``.

        :param name_of: Returns the name of the user with an ID.
        """
        return (
            'another idle monitor' if self.holder is None else f'another idle monitor ({self.holder.in_words(name_of)})'
        )


class WatchNames:
    """The names that this monitor has.

    :param prefix: What each begins with.
    :param monotonic: Returns the time.
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
                self._answers[identity] = _Answer(holder, self._monotonic() + _CACHED)
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
            return None  # too many have asked before, or the system does not say


def _socket(name: bytes) -> socket.socket:
    try:
        return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    except OSError as error:
        raise _not_had(name, error) from None


def _not_had(name: bytes, error: OSError) -> GpuTrackerError:
    label = os.fsdecode(name[1:])
    reason = (error.strerror or str(error)).lower()
    return GpuTrackerError(
        f'cannot reserve the socket name @{label}: {reason}. The name prevents a second monitor on the same GPU'
    )


def _send_away(listener: socket.socket) -> None:
    """Take those who have asked out of the queue, so that the next ones find room."""
    try:
        for _ in range(_BACKLOG):
            listener.accept()[0].close()
    except OSError:
        pass  # nobody is left, or this process has too many open files


class GpuClaims:
    """Which of the GPUs belong to this monitor.

    :param names: Nobody else's.
    :param is_root: Whether this monitor is root's: then it gives way to no other user, who could keep it from starting.
    :param name_of: Returns the name of the user with an ID.
    """

    def __init__(
        self, log: logging.Logger, names: WatchNames, *, is_root: bool, name_of: Callable[[int], str] = user_name
    ) -> None:
        self._log = log
        self._name_of = name_of
        self._names = names
        self._is_root = is_root
        self._gpus: dict[str, GpuId] = {}
        """Which GPUs were claimed, by what they were known by."""
        self._reported: set[GpuId] = set()

    def make(self, identities: Mapping[GpuId, str]) -> None:
        """Claim all GPUs that are there when the monitor starts.

        :param identities: What each is known by for all monitors.
        :raises GpuTrackerError: Another monitor watches one of them.
        """
        taken = self._taken(identities)
        if taken:
            who = '; '.join(f'GPU {gpu} is already watched by {self._who(one)}' for gpu, one in taken.items())
            raise GpuTrackerError(f'{who}. List the GPUs to watch in a [gpu-NAME] section of the configuration.')

    def without_taken(self, observation: Observation, identities: Mapping[GpuId, str]) -> Observation:
        """Claim GPUs that have appeared, and return what is seen without those that another monitor was quicker to."""
        taken = self._taken(identities)
        for gpu, one in taken.items():
            self._warn_once(gpu, one, ', and left alone')
        if not taken:
            return observation
        return observation._replace(gpus=tuple(seen for seen in observation.gpus if seen.gpu not in taken))

    def keep(self, is_needed: Callable[[GpuId], bool]) -> None:
        """Leave to others those GPUs that are not needed any more; one that is only absent is."""
        given_up = [identity for identity, gpu in self._gpus.items() if not is_needed(gpu)]
        self._names.release(given_up)
        for identity in given_up:
            del self._gpus[identity]

    def close(self) -> None:
        """Leave all GPUs to others."""
        self._names.close()

    def _taken(self, identities: Mapping[GpuId, str]) -> dict[GpuId, Taken]:
        """Claim GPUs, and return those that another has who is not to be passed over."""
        self._gpus.update((identity, gpu) for gpu, identity in identities.items())
        found = {taken.identity: taken for taken in self._names.claim(identities.values())}
        of_others = {gpu: found[identity] for gpu, identity in identities.items() if identity in found}
        self._reported &= set(of_others)
        passed_over = {gpu for gpu, taken in of_others.items() if self._is_passed_over(taken)}
        for gpu in passed_over:
            self._warn_once(gpu, of_others[gpu], ' too, to whom root does not give way')
        return {gpu: taken for gpu, taken in of_others.items() if gpu not in passed_over}

    def _is_passed_over(self, taken: Taken) -> bool:
        # One whose holder is not known was taken without waiting for who asks, or too many ask: anybody can do that.
        return self._is_root and (taken.holder is None or taken.holder.user_id != 0)

    def _warn_once(self, gpu: GpuId, taken: Taken, rest: str) -> None:
        """Warn once of who has a GPU, as long as somebody has it."""
        if gpu not in self._reported:
            self._reported.add(gpu)
            self._log.warning('GPU %s is already watched by %s%s', gpu, self._who(taken), rest)

    def _who(self, taken: Taken) -> str:
        return taken.in_words(self._name_of)
