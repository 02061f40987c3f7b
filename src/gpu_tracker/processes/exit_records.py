"""Records of threads and processes that end, from the kernel's taskstats. Linux only, with CAP_NET_ADMIN.

A listener gets struct taskstats (linux/taskstats.h) of each thread of the machine that ends, made before the thread
gives back its memory. The record of the last thread of a process says so. Records are sent in the first network
namespace and have process IDs of the first PID namespace, so elsewhere none arrive.

CPU time in a record is that until the last switch to or from the thread, or the last clock tick, so that of a thread of
1 ms nothing may be in it. What follows is known by how long the thread has lived, less what it has waited for a core,
where it has never slept.
"""

from __future__ import annotations

import _thread
import errno
import os
import struct

from gpu_tracker.processes.netlink import ACKNOWLEDGE, HEADER, RECEIVE_BUFFER, KernelSocket, attribute, attributes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    # fmt: off
    Fields = tuple[
        int,  # what the message is
        int,  # the ID of the thread
        int,  # the version of the statistics
        int,  # bits, see FORKED and LAST_OF_PROCESS
        int,  # nanoseconds that it has waited for a core
        int,  # nanoseconds that it has run, as known at the last switch or tick
        bytes,  # the name of its program
        int,  # its ID once more
        int,  # the process that was to wait for its process
        int,  # microseconds that it has lived
        int, int,  # minor and major page faults
        int,  # the high-water mark of its process in KiB
        int, int,  # bytes that calls have read and written, in whole KiB as those that follow
        int, int, int,  # bytes read from and written to storage, and those of them that it never got
        int,  # how often it has given up its core by itself
        int,  # the ID of its process
    ]
    # fmt: on
    """What is read of one thread that has ended."""

_GENERIC = 16
"""NETLINK_GENERIC, the protocol of families that have a name."""
_CONTROLLER, _GET_FAMILY, _FAMILY_NAME, _FAMILY_ID = 16, 3, 2, 1
"""GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME and CTRL_ATTR_FAMILY_ID in linux/genetlink.h."""
_NAME = b'TASKSTATS\0'
_COMMAND_GET, _REGISTER = 1, 3
"""TASKSTATS_CMD_GET and TASKSTATS_CMD_ATTR_REGISTER_CPUMASK in linux/taskstats.h, as all that follows."""
_GENERIC_HEADER = struct.Struct('=BBH')
_ATTRIBUTES = HEADER + _GENERIC_HEADER.size
_ERROR = 2
"""NLMSG_ERROR, the kind of an answer that has an error number, or 0."""
_OF_THREAD, _PID, _STATISTICS = 4, 1, 3
"""TASKSTATS_TYPE_AGGR_PID, TASKSTATS_TYPE_PID and TASKSTATS_TYPE_STATS."""
_FIRST_VERSION = 12
"""Of Linux 5.19: older records do not say of which process a thread was."""
FORKED, LAST_OF_PROCESS = 1, 0x20
"""AFORK and AGROUP in linux/acct.h: it has never called execve(2); no thread of its process is left."""
_FIELDS = 'H6xB15xQ40xQ16s32xII8xQ16xQQ16xQ8xQQ16xQQQQ88xI'
_PLAIN = struct.Struct(f'={_ATTRIBUTES + 2}xH4xI4x{_FIELDS}')
"""A record from the start of its message: the attribute of the thread, its ID, and its statistics."""
_PADDED = struct.Struct(f'={_ATTRIBUTES + 2}xH4xI8x{_FIELDS}')
"""The same where the kernel keeps statistics at multiples of eight bytes."""
_PROCESS = struct.Struct('=I')
"""The last of these fields."""
_CORES = '/sys/devices/system/cpu/possible'

_MANY_TICKS = 0.04
"""CPU seconds from which on what came after the last tick matters little: ticks are 1 to 10 ms apart."""
_NANOSECOND, _MICROSECOND = 1e-9, 1e-6


class ExitRecords:
    """Listens for records.

    :param receive_buffer: Bytes that may wait to be read.
    :raises OSError: where they are refused.
    """

    def __init__(self, receive_buffer: int = RECEIVE_BUFFER) -> None:
        self._socket = KernelSocket(_GENERIC, _PADDED.size, 0, receive_buffer)
        self._layout: struct.Struct | None = None
        self._place = 0
        """Where a message has the ID of the process."""
        self._messages: list[bytes] = []
        try:
            self._register()
        except OSError:
            self._socket.close()
            raise

    @property
    def has_lost(self) -> bool:
        """More processes have ended than there was room for."""
        return self._socket.has_lost

    @property
    def is_confirmed(self) -> bool:
        """Records arrive here, in a layout that is known."""
        return self._layout is not None

    def receive(self) -> None:
        """Receive what there is, without looking at it.

        :raises OSError: where listening has failed.
        """
        self._messages = self._socket.take()
        if self._layout is None and self._messages:
            self._find_layout()

    def of(self, processes: Container[int]) -> Iterator[Fields]:
        """Yield those records of what was received that are of threads of ``processes``, which may change meanwhile."""
        layout, place = self._layout, self._place
        messages, self._messages = self._messages, []
        if layout is None:
            return
        read, read_all, size = _PROCESS.unpack_from, layout.unpack_from, layout.size
        for message in messages:
            if len(message) >= size and read(message, place)[0] in processes:
                fields: Fields = read_all(message)
                if fields[1] == fields[7]:
                    yield fields

    def close(self) -> None:
        """Listen no more."""
        self._socket.close()

    def _register(self) -> None:
        self._socket.send(_CONTROLLER, _GENERIC_HEADER.pack(_GET_FAMILY, 1, 0) + attribute(_FAMILY_NAME, _NAME))
        family = family_of(self._answer())
        with open(_CORES, 'rb') as file:
            cores = file.read().strip() + b'\0'
        request = _GENERIC_HEADER.pack(_COMMAND_GET, 1, 0) + attribute(_REGISTER, cores)
        self._socket.send(family, request, ACKNOWLEDGE)
        raise_error_in(self._answer())
        _thread.start_new_thread(_end_at_once, ())  # whose record shows that they arrive here

    def _answer(self) -> bytes:
        """Return the answer to a question; the kernel has sent it in the same call.

        Records may come before, for one who had the same address and has closed it.
        """
        for message in self._socket.take():
            if struct.unpack_from('=H', message, 4)[0] in (_CONTROLLER, _ERROR):
                return message
        raise OSError(errno.ENOMSG, os.strerror(errno.ENOMSG))

    def _find_layout(self) -> None:
        own = os.getpid()
        for message in self._messages:
            for layout in (_PLAIN, _PADDED):
                fields = parsed(message, layout)
                if fields is not None and fields[-1] == own:
                    self._layout, self._place = layout, layout.size - _PROCESS.size
                    return


def _end_at_once() -> None:
    """End the thread that runs this."""


def family_of(answer: bytes) -> int:
    """Return the number of the family of taskstats.

    :raises OSError: where the kernel has answered that there is none, or something else.
    """
    raise_error_in(answer)
    for kind, begin, end in attributes(answer, _ATTRIBUTES, len(answer)):
        if kind == _FAMILY_ID and end - begin >= 2:  # noqa: PLR2004 - a number of 16 bits
            number: int = struct.unpack_from('=H', answer, begin)[0]
            return number
    raise OSError(errno.EBADMSG, os.strerror(errno.EBADMSG))


def raise_error_in(answer: bytes) -> None:
    """Raise OSError where ``answer`` is an error, or too short to be any answer."""
    if len(answer) < HEADER + 4:
        raise OSError(errno.EBADMSG, os.strerror(errno.EBADMSG))
    if struct.unpack_from('=H', answer, 4)[0] == _ERROR:
        number = -struct.unpack_from('=i', answer, HEADER)[0]
        if number:
            raise OSError(number, os.strerror(number) if number > 0 else 'unknown')


def parsed(message: bytes, layout: struct.Struct) -> Fields | None:
    """Return the fields of the record in a message of the kernel; None where there is none of that layout.

    The ID of the thread stands in it twice, which shows that the fields are where they are expected.
    """
    if len(message) < layout.size:
        return None
    fields: Fields = layout.unpack_from(message)
    if fields[1] != fields[7] or fields[2] < _FIRST_VERSION or fields[0] != _OF_THREAD:
        return None
    return fields


def seconds_of(ran: int, lived: int, waited: int, sleeps: int) -> float:
    """Return the CPU seconds of a thread, until it began to give back its memory, or less.

    Where it has run for many ticks what was known at the last one stands. A shorter one that has never slept has run as
    long as it has not waited for a core. What one that has slept has run since its last switch or tick is not known.

    :param ran: Nanoseconds that it had run at the last switch or tick.
    :param lived: Microseconds.
    :param waited: Nanoseconds in which it could have run and had no core.
    :param sleeps: How often it has given up its core by itself.
    """
    known = ran * _NANOSECOND
    if sleeps or known >= _MANY_TICKS:
        return known
    return max(known, lived * _MICROSECOND - waited * _NANOSECOND)
