"""What samplers announce of their own CPU time to samplers around them. Linux only.

A program that is tracked may use trackers itself. Their samplers belong to no tree, and no counter of a member has
their time; but a task clock goes on counting in everything that a member starts, a sampler included, and nothing takes
that back. So whoever has task clocks listens at an address that is made of its root's pid, and every sampler says there
that it runs, and when it ends what it has used, to whoever tracks its program or an ancestor of that. Where nobody
listens, which is nearly always so, this costs less than a millisecond.
"""

from __future__ import annotations

import _socket  # the module socket costs ten times as much
import _thread
import os
import struct
import sys

from gpu_tracker.processes.linux import cpu_clock

_ADDRESS = '\0gpu-tracker-clocks-{}-{}-{}'
"""An abstract one, see unix(7): it is gone with whoever listens there. Containers may share these addresses, so the
namespace that the pid is of is a part of it."""
_LISTENERS = 4
"""So many may track the same process with task clocks at a time and still hear of samplers."""
_RUNS = b'runs'
_LONGEST_WAIT = 100_000
"""Microseconds that a sampler waits for one who listens."""
_LONGEST = 32
_CREDENTIALS = 12
"""Bytes of struct ucred, which the kernel fills in: the sender's pid, user and group."""
_INIT = 1


def announce(owner: int, seconds: float | None = None) -> None:
    """Say to all who track ``owner``, or an ancestor of it, with task clocks that this process is a sampler.

    :param owner: The process that has started it.
    :param seconds: What it has used, when it ends; None while it runs.
    """
    message = _RUNS if seconds is None else b'%.9f' % seconds
    try:
        sending = _open_socket()
    except OSError:
        return  # there are no such sockets here: then nobody has one to listen
    # Whoever listens may have no room for a moment. Not settimeout(), with which Python would try again and again.
    sending.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDTIMEO, struct.pack('ll', 0, _LONGEST_WAIT))
    namespace = _pid_namespace()
    for pid in _line_of(owner):
        for number in range(_LISTENERS):
            try:
                sending.sendto(message, _ADDRESS.format(namespace, pid, number))
            except OSError:
                pass  # nobody listens there
    sending.close()


class AnnouncedSamplers:
    """The samplers that processes of a tree have started since this was made.

    :param root: The root of the tree.
    """

    def __init__(self, root: int) -> None:
        self._users = {0, os.geteuid(), _user_of(root)}
        self._lock = _thread.allocate_lock()
        self._running: dict[int, float] = {}
        self._ended = 0.0
        self._socket: _socket.socket | None = None
        self._has_thread = True
        try:
            listening = _open_socket()
        except OSError:
            return  # there are none to hear of, or they count
        listening.setsockopt(_socket.SOL_SOCKET, _socket.SO_PASSCRED, 1)
        namespace = _pid_namespace()
        for number in range(_LISTENERS):
            try:
                listening.bind(_ADDRESS.format(namespace, root, number))
            except OSError:
                continue  # somebody else listens there
            self._socket = listening
            try:
                # The kernel keeps ten messages, by default, and drops all that come then.
                _thread.start_new_thread(self._listen_to_the_end, (listening,))
            except RuntimeError:
                self._has_thread = False  # there may be no more threads: ten messages between two readings have to do
            return
        listening.close()

    def seconds(self) -> float:
        """Return the CPU seconds that they have used so far."""
        if self._socket is not None:
            self._listen(self._socket, _socket.MSG_DONTWAIT)
        with self._lock:
            for pid in self._running:
                try:
                    self._running[pid] = cpu_clock(pid)
                except OSError:
                    pass  # it was killed: the last value stands
            return self._ended + sum(self._running.values())

    def close(self) -> None:
        """Listen no more."""
        listening, self._socket = self._socket, None
        if listening is not None:
            listening.shutdown(_socket.SHUT_RD)  # which wakes the thread
            if not self._has_thread:
                listening.close()

    def _listen_to_the_end(self, listening: _socket.socket) -> None:
        self._listen(listening, 0)
        listening.close()

    def _listen(self, listening: _socket.socket, how: int) -> None:
        """Take what comes, until there is nothing more."""
        room = _socket.CMSG_SPACE(_CREDENTIALS)
        while True:
            try:
                message, ancillary, _, _ = listening.recvmsg(_LONGEST, room, how)
            except OSError:
                return
            if self._socket is None:
                return  # it was shut
            for _, kind, content in ancillary:
                if kind == _socket.SCM_CREDENTIALS:
                    pid, user = (int.from_bytes(content[at : at + 4], sys.byteorder) for at in (0, 4))
                    self._take(pid, user, message)

    def _take(self, pid: int, user: int, message: bytes) -> None:
        if user not in self._users or pid in (0, os.getpid()):
            return  # it may claim anything, or is to be seen nowhere here, or is this process, which no clock counts
        with self._lock:
            if message == _RUNS:
                self._running[pid] = 0.0
            elif pid in self._running:
                try:
                    self._ended += max(0.0, float(message))
                except ValueError:
                    return  # it is none of ours
                del self._running[pid]


def _open_socket() -> _socket.socket:
    return _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM | _socket.SOCK_CLOEXEC)


def _pid_namespace() -> int:
    try:
        return os.stat('/proc/self/ns/pid').st_ino
    except OSError:
        return 0  # this kernel has none


def _line_of(pid: int) -> list[int]:
    """Return a process and its ancestors, as far as they are to be seen."""
    found = []
    while pid > _INIT:
        found.append(pid)
        try:
            with open(f'/proc/{pid}/stat', 'rb') as file:
                line = file.read()
        except OSError:
            break
        pid = int(line[line.rindex(b')') + 2 :].split(b' ', 2)[1])
    return found


def _user_of(pid: int) -> int:
    try:
        return os.stat(f'/proc/{pid}').st_uid
    except OSError:
        return os.geteuid()  # it has just ended
