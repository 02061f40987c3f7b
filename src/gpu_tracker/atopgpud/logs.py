"""The daemon's log: messages go to the system log, and to standard error where that takes none.

Not with ``logging.handlers.SysLogHandler``: it waits for a system log that does not read, and prints tracebacks.
"""

from __future__ import annotations

import errno
import logging
import os
import select
import socket
import sys
import syslog
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_NAME = 'atopgpud'
_PRIORITIES = {
    logging.DEBUG: syslog.LOG_DEBUG,
    logging.INFO: syslog.LOG_INFO,
    logging.WARNING: syslog.LOG_WARNING,
    logging.ERROR: syslog.LOG_ERR,
    logging.CRITICAL: syslog.LOG_CRIT,
}
_LONGEST = 4000
"""Bytes of a message: a pipe that takes anything takes this much, so writing to it does not wait."""


def open_log(
    *, verbose: bool, to_background: bool = False, address: str = '/dev/log', handle: int | None = None
) -> logging.Logger:
    """Return the daemon's log, after saying on standard error why there is no system log, where there is none.

    A message that the system log does not take at once goes to standard error, and the next one tries it again. Errors,
    and on a terminal all messages, are shown there as well.

    :param verbose: Whether it takes debug messages.
    :param to_background: Whether standard error will be let go of.
    :param address: The Unix socket of the system log.
    :param handle: The descriptor that stands for standard error; None: that of ``sys.stderr``, where there is one.
    """
    log = logging.getLogger(_NAME)
    log.propagate = False
    log.setLevel(logging.DEBUG if verbose else logging.INFO)
    handler = _SystemLogHandler(address, handle)
    log.handlers = [handler]  # and no former one
    handler.say_where_messages_go(' until clients are answered, and then nowhere' if to_background else '')
    return log


def one_line(text: str) -> str:
    """Return the text with everything that does not print, line breaks and undecodable bytes included, as an escape."""
    shown = (
        character if character.isprintable() else character.encode('unicode_escape').decode('ascii')
        for character in text[:_LONGEST]
    )
    return ''.join(shown).encode()[:_LONGEST].decode(errors='ignore')


class Throttle:
    """Says only so much in a period, then how much it has left out: clients that send nonsense must fill no disk.

    :param say: Takes what is let through.
    :param limit: Messages in a period.
    :param period: Seconds.
    :param clock: Returns monotonic seconds.
    """

    def __init__(
        self,
        say: Callable[[str], object],
        limit: int = 10,
        period: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._say = say
        self._limit = limit
        self._period = period
        self._clock = clock
        self._end = clock()
        self._count = 0

    def __call__(self, text: str) -> None:
        """Say it, or count it."""
        self.report_left_out()
        self._count += 1
        if self._count <= self._limit:
            self._say(text)

    def report_left_out(self) -> None:
        """Say what the last period has left out as soon as it is over, also where no message follows."""
        now = self._clock()
        if now < self._end:
            return
        if self._count > self._limit:
            self._say(f'{self._count - self._limit} more messages like these were left out')
        self._count = 0
        self._end = now + self._period


class _SystemLogHandler(logging.Handler):
    """Sends to the system log as syslog(3) does, but never waits, and keeps no connection that could be stale."""

    def __init__(self, address: str, handle: int | None) -> None:
        super().__init__()
        self._address = address
        self._handle = handle

    def say_where_messages_go(self, limit: str) -> None:
        """Say on standard error that messages come there, if the system log cannot be reached."""
        try:
            _connected(self._address).close()
        except OSError as error:
            reason = error.strerror or error
            self._show(f'no system log at {self._address} ({reason}): messages go to standard error{limit}')

    def emit(self, record: logging.LogRecord) -> None:
        """Send the message to the system log, standard error, or both."""
        text = one_line(self.format(record))
        # Both are asked for each message: detaching makes another process, and takes the terminal away.
        taken = self._send(f'<{_priority(record.levelno)}>{_NAME}[{os.getpid()}]: {text}'.encode())
        if not taken or record.levelno >= logging.ERROR or self._is_terminal():
            self._show(f'{record.levelname.lower()}: {text}')

    def _send(self, message: bytes) -> bool:
        """Return whether the system log has taken the message."""
        try:
            with _connected(self._address) as channel:
                if channel.type == socket.SOCK_STREAM:
                    message += b'\0'  # the end of a message in a stream, as in syslog(3)
                return channel.send(message) == len(message)
        except OSError:
            return False  # not there, or full; the message itself goes to standard error

    def _show(self, line: str) -> None:
        handle = self._standard_error()
        try:
            # A pipe that nobody empties and a terminal that is held must not stop the daemon.
            if handle is not None and select.select([], [handle], [], 0)[1]:
                os.write(handle, f'{_NAME}: {line}\n'.encode())
        except (OSError, ValueError):
            pass  # standard error is closed or broken, and there is nothing else

    def _is_terminal(self) -> bool:
        handle = self._standard_error()
        return handle is not None and os.isatty(handle)

    def _standard_error(self) -> int | None:
        if self._handle is not None:
            return self._handle
        try:
            # Not simply 2: where that was closed at the start, it may be a client's connection by now.
            return sys.stderr.fileno()
        except (AttributeError, OSError, ValueError):
            return None  # closed, or something that is no file


def _priority(level: int) -> int:
    return syslog.LOG_DAEMON | _PRIORITIES.get(level, syslog.LOG_WARNING)


def _connected(address: str, kind: socket.SocketKind = socket.SOCK_DGRAM) -> socket.socket:
    """Return a socket that leads to the system log, of the kind that this one has.

    :raises OSError: where nobody listens.
    """
    channel = socket.socket(socket.AF_UNIX, kind)
    try:
        channel.settimeout(0)  # also before connecting, which waits in the queue of a stream
        channel.connect(address)
    except OSError as error:
        channel.close()
        if kind == socket.SOCK_DGRAM and error.errno == errno.EPROTOTYPE:
            return _connected(address, socket.SOCK_STREAM)
        raise
    return channel
