"""Notices of processes that are forked, from the kernel's process connector. Linux only.

Each has its time and the process IDs of a parent and its child (linux/cn_proc.h), as seen in the first PID namespace,
where alone there are notices. They tell which of the processes that end belong to a tree, whatever came of their
parents.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
import time

from gpu_tracker.processes.netlink import HEADER, RECEIVE_BUFFER, KernelSocket

TYPE_CHECKING = False
if TYPE_CHECKING:
    Fork = tuple[int, int, int]
    """Nanoseconds of CLOCK_MONOTONIC, the parent and the child."""

_CONNECTOR = 11
"""NETLINK_CONNECTOR."""
_GROUP = 1
"""CN_IDX_PROC and CN_VAL_PROC in linux/connector.h, and the bit of their multicast group."""
_DONE = 3
"""NLMSG_DONE, the kind of all messages of connectors."""
_CONNECTOR_HEADER = struct.Struct('=IIIIHH')
_LISTEN = 1
"""PROC_CN_MCAST_LISTEN in linux/cn_proc.h, as what follows."""
_FORK = 1
"""PROC_EVENT_FORK."""
_EVENT = HEADER + _CONNECTOR_HEADER.size
_WHAT, _CHILD_THREAD, _CHILD = _EVENT, _EVENT + 24, _EVENT + 28
_NOTICE = struct.Struct(f'={_EVENT}x8xQ4xI4xI')
"""When it has happened, the parent process, and the process that is its child."""
_WHEN = struct.Struct(f'={_EVENT}x8xQ')
"""Of these the time alone."""
_NANOSECONDS = 1_000_000_000

_LOAD, _STORE, _LOAD_INDEX = 0x20, 0x02, 0x61
_IF_EQUAL, _IF_EQUAL_INDEX, _RETURN = 0x15, 0x1D, 0x06
"""Instructions of linux/filter.h for words of a message, which are big-endian there."""
_ALL = 0xFFFFFFFF


class ForkNotices:
    """Listens for notices.

    :param receive_buffer: Bytes that may wait to be read.
    :raises OSError: where there are none.
    """

    def __init__(self, receive_buffer: int = RECEIVE_BUFFER) -> None:
        self._socket = KernelSocket(_CONNECTOR, _NOTICE.size, _listen, groups=_GROUP, receive_buffer=receive_buffer)
        self.close = self._socket.close

    @property
    def has_lost(self) -> bool:
        """More processes were forked than there was room for."""
        return self._socket.has_lost

    def take(self) -> list[Fork]:
        """Return each fork since the last time, in their order.

        :raises OSError: where listening has failed.
        """
        return parsed(self._socket.take())


def parsed(messages: list[bytes]) -> list[Fork]:
    """Return what is in messages that are notices of forks, all else being filtered out."""
    if messages and min(map(len, messages)) < _NOTICE.size:
        messages = [message for message in messages if len(message) >= _NOTICE.size]  # no kernel sends such
    return list(map(_NOTICE.unpack_from, messages))


def _listen(socket: KernelSocket) -> None:
    _send(socket, struct.pack('=I', _LISTEN))
    answers = socket.take()  # the kernel has answered in the call: in another namespace it does not
    if not answers or not _has_own_clock(answers):
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
    # Kernels from 6.6 on can be asked for forks alone, which costs less than the filter; others ignore it.
    _send(socket, struct.pack('=II', _LISTEN, _FORK))
    socket.attach_filter(_only_processes())
    socket.take()


def _send(socket: KernelSocket, request: bytes) -> None:
    header = _CONNECTOR_HEADER.pack(_GROUP, _GROUP, 0, 0, len(request), 0)
    socket.send(_DONE, header + request)


def _has_own_clock(answers: list[bytes]) -> bool:
    """Return whether the times in notices are those of the clock here: in a time namespace they are not."""
    now = time.monotonic_ns()
    whens = [_WHEN.unpack_from(answer)[0] for answer in answers if len(answer) >= _WHEN.size]
    return any(abs(now - when) < _NANOSECONDS for when in whens)


def _only_processes() -> list[tuple[int, int, int, int]]:
    """Return the filter that accepts forks of processes, and neither threads nor anything else."""
    fork = int.from_bytes(_FORK.to_bytes(4, sys.byteorder), 'big')
    return [
        (_LOAD, 0, 0, _WHAT),
        (_IF_EQUAL, 0, 6, fork),
        (_LOAD, 0, 0, _CHILD_THREAD),
        (_STORE, 0, 0, 0),
        (_LOAD_INDEX, 0, 0, 0),
        (_LOAD, 0, 0, _CHILD),
        (_IF_EQUAL_INDEX, 0, 1, 0),
        (_RETURN, 0, 0, _ALL),
        (_RETURN, 0, 0, 0),
    ]
