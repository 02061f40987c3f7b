"""Sockets on which the kernel reports what processes do, see netlink(7). Linux only."""

from __future__ import annotations

import _socket  # the module socket costs ten times as much
import errno
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HEADER = 16
"""Bytes of struct nlmsghdr, which each message begins with."""
_HEADER = '=IHHII'
_ATTRIBUTE = struct.Struct('=HH')
_TYPE_OF_ATTRIBUTE = 0x3FFF
_REQUEST = 1
ACKNOWLEDGE = 4
RECEIVE_BUFFER = 1 << 24
"""Bytes that may wait: the kernel doubles this, and counts 2,304 for each record and 768 for each notice: some 14,000
processes that end between two samples."""
_SO_RCVBUFFORCE = 33


class KernelSocket:
    """A socket that is read without waiting.

    :param protocol: One of the kernel's, in linux/netlink.h.
    :param largest: Bytes of a message that are of interest; the rest is dropped.
    :param subscribe: Asks the kernel, through this socket, for what is to arrive.
    :param groups: Bits of the multicast groups to join.
    :param receive_buffer: Bytes that may wait to be read.
    :raises OSError: where that is refused.
    """

    def __init__(
        self,
        protocol: int,
        largest: int,
        subscribe: Callable[[KernelSocket], None],
        *,
        groups: int = 0,
        receive_buffer: int = RECEIVE_BUFFER,
    ) -> None:
        self._largest = largest
        self._socket = _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW | _socket.SOCK_CLOEXEC, protocol)
        self.has_lost = False
        """The kernel had more to report than there was room for."""
        try:
            try:
                self._socket.setsockopt(_socket.SOL_SOCKET, _SO_RCVBUFFORCE, receive_buffer)
            except OSError:  # not permitted: as much as everybody may have
                self._socket.setsockopt(_socket.SOL_SOCKET, _socket.SO_RCVBUF, receive_buffer)
            self._socket.bind((0, groups))
            self._socket.settimeout(0)  # it never waits
            subscribe(self)
        except OSError:
            self.close()
            raise

    def send(self, kind: int, payload: bytes, flags: int = _REQUEST) -> None:
        """Send a message of a ``kind``, which the kernel answers at once, if at all."""
        header = struct.pack(_HEADER, HEADER + len(payload), kind, flags | _REQUEST, 1, 0)
        self._socket.send(header + payload)

    def take(self) -> list[bytes]:
        """Return what has come; where something was dropped, ``has_lost`` is set.

        :raises OSError: where the socket fails.
        """
        receive, largest = self._socket.recv, self._largest
        messages: list[bytes] = []
        while True:
            try:
                messages.append(receive(largest))
            except BlockingIOError:
                return messages
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                self.has_lost = True

    def attach_filter(self, instructions: list[tuple[int, int, int, int]]) -> None:
        """Have the kernel drop the messages that a program of socket(7)'s SO_ATTACH_FILTER does not accept."""
        from array import array  # noqa: PLC0415 - tells where it lies in memory, which the kernel asks for

        program = array('B', b''.join(struct.pack('=HBBI', *instruction) for instruction in instructions))
        place = struct.pack('@HP', len(instructions), program.buffer_info()[0])
        self._socket.setsockopt(_socket.SOL_SOCKET, _SO_ATTACH_FILTER, place)

    def close(self) -> None:
        """Listen no more."""
        self._socket.close()


_SO_ATTACH_FILTER = 26


def attribute(kind: int, value: bytes) -> bytes:
    """Return struct nlattr with its value, filled up to four bytes."""
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value + bytes(-len(value) % 4)


def attributes(message: bytes, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the kind of each attribute between two places of a message, and where its value begins and ends."""
    while begin + _ATTRIBUTE.size <= end:
        length, kind = _ATTRIBUTE.unpack_from(message, begin)
        if length < _ATTRIBUTE.size or begin + length > end:
            return
        yield kind & _TYPE_OF_ATTRIBUTE, begin + _ATTRIBUTE.size, begin + length
        begin += (length + 3) & ~3
