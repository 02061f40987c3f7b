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
    from collections.abc import Callable

    # fmt: off
    Fields = tuple[
        int,  # the length of the message
        int,  # bits, see FORKED and LAST_OF_PROCESS
        int,  # nanoseconds that it has waited for a core
        int,  # nanoseconds that it has run, as known at the last switch or tick
        bytes,  # the name of its program
        int,  # the process that was to wait for its process
        int,  # microseconds that it has lived
        int, int,  # minor and major page faults
        int,  # the high-water mark of its process in KiB
        int,  # how often it has given up its core by itself
        int,  # the ID of its process
        int,  # microseconds that its process has lived
    ]
    # fmt: on
    """What is read of one thread that has ended."""
    Amounts = tuple[int, int, int, int, int]
    """Bytes that calls have read and written; bytes read from and written to storage, and those of them that it never
    got. All are in whole KiB."""

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
_PLAIN, _PADDED = 16, 20
"""Bytes between the header of a message and the statistics: what kind it is, the thread's ID, and on kernels that keep
statistics at multiples of eight bytes four of padding."""
_LENGTH = struct.Struct('=I')


class Layout:
    """Where fields are in a message of a kernel, each read with the least that is asked for."""

    def __init__(self, before: int) -> None:
        begin = _ATTRIBUTES + before
        record = struct.Struct(f'=I{begin - 4}x8xB15xQ40xQ16s36xI8xQ16xQQ16xQ64xQ88xI4xQ')
        self.size = record.size
        self.single_length = 0
        """Of messages about one thread; that of the last one of several also has what all of them have used."""
        self.fields: Callable[[bytes], Fields] = record.unpack_from
        self.process: Callable[[bytes], tuple[int]] = struct.Struct(f'={begin}x368xI').unpack_from
        self.amounts: Callable[[bytes], Amounts] = struct.Struct(f'={begin}x216xQQ16xQQQ').unpack_from
        self.check = struct.Struct(f'={_ATTRIBUTES + 2}xH4xI{before - 12}xH126xI236xI').unpack_from
        """What the message is, the ID of the thread, the version of the statistics, this ID again, and its process."""


_LAYOUTS = (Layout(_PLAIN), Layout(_PADDED))
_CORES = '/sys/devices/system/cpu/possible'

_MANY_TICKS = 40_000_000
"""Nanoseconds of CPU time from which on what came after the last tick matters little: ticks are 1 to 10 ms apart."""


class ExitRecords:
    """Listens for records.

    :param receive_buffer: Bytes that may wait to be read.
    :raises OSError: where they are refused.
    :raises RuntimeError: where no thread can be started.
    """

    def __init__(self, receive_buffer: int = RECEIVE_BUFFER) -> None:
        self._socket = KernelSocket(_GENERIC, _LAYOUTS[-1].size, _register, receive_buffer=receive_buffer)
        self.close = self._socket.close
        self._messages: list[bytes] = []
        self.layout: Layout | None = None
        """How messages are read; None: none has arrived here yet."""
        _thread.start_new_thread(_end_at_once, ())  # whose record shows that they arrive here

    @property
    def has_lost(self) -> bool:
        """More processes have ended than there was room for."""
        return self._socket.has_lost

    def take(self) -> list[bytes] | None:
        """Return the records that have come; None: they wait until it is known that they arrive here, and how.

        :raises OSError: where listening has failed.
        """
        messages = self._messages + self._socket.take()
        if self.layout is None:
            self._find_layout(messages)
        layout = self.layout
        if layout is None:
            self._messages = messages
            return None
        self._messages = []
        if messages and min(map(len, messages)) < layout.size:
            messages = [message for message in messages if len(message) >= layout.size]  # no kernel sends such
        return messages

    def _find_layout(self, messages: list[bytes]) -> None:
        own = os.getpid()
        for message in messages:
            for layout in _LAYOUTS:
                if process_of(message, layout) == own:
                    self.layout = layout
                    layout.single_length = layout.fields(message)[0]
                    return


def _register(socket: KernelSocket) -> None:
    socket.send(_CONTROLLER, _GENERIC_HEADER.pack(_GET_FAMILY, 1, 0) + attribute(_FAMILY_NAME, _NAME))
    family = family_of(_answer(socket))
    with open(_CORES, 'rb') as file:
        cores = file.read().strip() + b'\0'
    request = _GENERIC_HEADER.pack(_COMMAND_GET, 1, 0) + attribute(_REGISTER, cores)
    socket.send(family, request, ACKNOWLEDGE)
    raise_error_in(_answer(socket))


def _answer(socket: KernelSocket) -> bytes:
    """Return the answer to a question; the kernel has sent it in the same call.

    Records may come before, for one who had the same address and has closed it.
    """
    for message in socket.take():
        if struct.unpack_from('=H', message, 4)[0] in (_CONTROLLER, _ERROR):
            return message
    raise OSError(errno.ENOMSG, os.strerror(errno.ENOMSG))


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


def process_of(message: bytes, layout: Layout) -> int | None:
    """Return the process of the thread in a record; None where ``message`` is none of that layout.

    The ID of the thread stands in it twice, which shows that the fields are where they are expected.
    """
    if len(message) < layout.size:
        return None
    kind, thread, version, again, process = layout.check(message)
    return process if thread == again and version >= _FIRST_VERSION and kind == _OF_THREAD else None


def nanoseconds_of(ran: int, lived: int, waited: int, sleeps: int) -> int:
    """Return the CPU time of a thread in nanoseconds, until it began to give back its memory, or less.

    Where it has run for many ticks what was known at the last one stands. A shorter one that has never slept has run as
    long as it has not waited for a core. What one that has slept has run since its last switch or tick is not known.

    :param ran: Nanoseconds that it had run at the last switch or tick.
    :param lived: Microseconds.
    :param waited: Nanoseconds in which it could have run and had no core.
    :param sleeps: How often it has given up its core by itself.
    """
    if sleeps or ran >= _MANY_TICKS:
        return ran
    most = lived * 1000 - waited
    return most if most > ran else ran  # noqa: FURB136 - max() takes as long as all the rest
