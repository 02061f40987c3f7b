"""atopgpud as a program on a machine with a simulated driver."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import tempfile
import uuid
from typing import TYPE_CHECKING, Self

import psutil

from atop_client import connected
from cli_program import PATIENCE, PROGRAM, eventually

if TYPE_CHECKING:
    from atop_client import AtopClient
    from gpu_machine import Machine
    from own_network import OwnNetwork

INTERVAL = 0.05
PORT = 59123
SOCKET = 'atopgpud_nvidia'

_SERVES = re.compile(r'serving \d+ GPUs? on \S+:\d+ ')


class AtopDaemon:
    """A daemon that serves; it is killed at the end of the block.

    :param machine: What it runs on.
    :param options: What it is started with, beside interval and addresses.
    :param network: Where it runs, at the addresses that atop knows; None: here, at addresses that nobody else has.
    :param interval: Seconds from one look at the GPUs to the next.
    """

    def __init__(
        self, machine: Machine, *options: str, network: OwnNetwork | None = None, interval: float = INTERVAL
    ) -> None:
        self._network = network
        self._name = SOCKET if network else f'test-{uuid.uuid4()}'
        self._errors = tempfile.TemporaryFile('a+')  # noqa: SIM115 - it is closed with the daemon
        words = [*PROGRAM, 'atopgpud', f'--interval={interval}', *options]
        if network:
            words = network.words(*words)
        else:
            words += ['--port=0', f'--socket={self._name}']
        self.process = subprocess.Popen(
            words, env=machine.environment(), stdin=subprocess.DEVNULL, stderr=self._errors, text=True
        )
        self.pid = self.process.pid

    def __enter__(self) -> Self:
        try:
            self.port = eventually(self._served_port)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self._errors.close()

    @property
    def log(self) -> str:
        """What it has said on standard error, where its messages go if there is no system log."""
        self._errors.seek(0)
        return self._errors.read()

    @property
    def resident_bytes(self) -> int:
        """How much memory it has."""
        return psutil.Process(self.pid).memory_info().rss

    def over_tcp(self, version: int = 1) -> AtopClient:
        """Return a client that has connected to its port."""
        return connected(self._socket(socket.AF_INET), ('127.0.0.1', self.port), version)

    def over_socket(self, version: int = 2) -> AtopClient:
        """Return a client that has connected to its abstract socket."""
        return connected(self._socket(socket.AF_UNIX), f'\0{self._name}', version)

    def end(self, by: signal.Signals = signal.SIGTERM) -> int:
        """End it by a signal, and return its exit code."""
        self.process.send_signal(by)
        return self.process.wait(PATIENCE)

    def _served_port(self) -> int | None:
        assert self.process.poll() is None, f'it ended with {self.process.returncode}: {self.log}'
        if self._network:
            return PORT if _SERVES.search(self.log) else None
        # Where there is a system log, only the port itself tells.
        return next((one.laddr.port for one in psutil.net_connections('tcp') if one.pid == self.pid), None)

    def _socket(self, family: socket.AddressFamily) -> socket.socket:
        return self._network.socket(family) if self._network else socket.socket(family)
