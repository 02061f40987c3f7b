"""atopgpud as a program that a test starts itself: on a socket of the test's own, and what it says."""

from __future__ import annotations

import contextlib
import socket
import uuid
from typing import TYPE_CHECKING

from support.atop.atop_client import connected
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator

    from support.atop.atop_client import AtopClient

NO_LOG = 'atopgpud: no system log at /dev/log '


def said(errors: str) -> list[str]:
    """Return the lines on standard error, without the remark that there is no system log."""
    return [line for line in errors.splitlines() if not line.startswith(NO_LOG)]


def taken(what: str) -> str:
    """Return what is said where another program listens."""
    return f'atopgpud: error: {what} is in use by another program ("ss -lp" shows which program)'


def has_handler(process_id: int, number: signal.Signals) -> bool:
    """Return whether a process has a handler for the signal."""
    return _is_in(process_id, 'SigCgt', number)


def is_pending(process_id: int, number: signal.Signals) -> bool:
    """Return whether a signal that was sent to a process has not been delivered yet."""
    return _is_in(process_id, 'ShdPnd', number)


def _is_in(process_id: int, field: str, number: signal.Signals) -> bool:
    """Return whether a set of signals in ``/proc/PID/status`` has this one."""
    with open(f'/proc/{process_id}/status') as status:
        numbers = next(line.split()[1] for line in status if line.startswith(f'{field}:'))
    return bool(int(numbers, 16) >> (number - 1) & 1)


class OwnSocket:
    """The name of an abstract socket that nobody else has."""

    def __init__(self) -> None:
        self.name = f'test-{uuid.uuid4()}'
        self.options = ['--port=0', f'--socket={self.name}', '--interval=0.05']
        """Those with which atopgpud serves there."""

    @contextlib.contextmanager
    def client(self) -> Iterator[AtopClient]:
        """Connect, and give the client."""
        with socket.socket(socket.AF_UNIX) as connection:
            yield connected(connection, f'\0{self.name}', 2)

    def is_served(self) -> bool:
        """Return whether a client is answered."""
        try:
            with self.client() as client:
                return bool(client.types())
        except ConnectionRefusedError:
            return False


class Manager:
    """Takes what a service tells its manager, sd_notify(3)."""

    def __init__(self) -> None:
        name = f'test-{uuid.uuid4()}'
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(f'\0{name}')
        self._socket.settimeout(TIMEOUT)
        self.environment = {'NOTIFY_SOCKET': f'@{name}'}

    def state(self) -> str:
        """Return the next state that is told."""
        return self._socket.recv(4096).decode()

    def close(self) -> None:
        """Take no more."""
        self._socket.close()
