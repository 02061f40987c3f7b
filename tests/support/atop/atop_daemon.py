"""atopgpud as a program on a machine with a simulated driver."""

from __future__ import annotations

import os
import re
import socket
import uuid
from typing import TYPE_CHECKING

import psutil

from support.atop.atop_client import connected
from support.cli_program import PROGRAM
from support.serving_program import ServingProgram

if TYPE_CHECKING:
    from support.atop.atop_client import AtopClient
    from support.gpus.gpu_machine import Machine
    from support.own_network import OwnNetwork

INTERVAL = 0.05
SOCKET = 'atopgpud_nvidia'

_SERVES = re.compile(r'serving \d+ GPUs? on \S+:(\d+) ')


class AtopDaemon(ServingProgram):
    """A daemon that serves; its messages come on standard error where there is no system log.

    :param machine: What it runs on.
    :param options: What it is started with, beside interval and addresses.
    :param network: Where it runs, at the addresses that atop knows; None: here, at addresses that nobody else has.
    :param interval: Seconds from one look at the GPUs to the next.
    """

    def __init__(
        self, machine: Machine, *options: str, network: OwnNetwork | None = None, interval: float = INTERVAL
    ) -> None:
        self.machine = machine
        self._network = network
        self._name = SOCKET if network else f'test-{uuid.uuid4()}'
        words = [*PROGRAM, 'atopgpud', f'--interval={interval}', *options]
        if network:
            words = network.words(*words)
        else:
            words += ['--port=0', f'--socket={self._name}']
        super().__init__(words, machine.environment())
        self.pid = self.process.pid

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

    def finds_place(self) -> bool:
        if self._network or not os.path.exists('/dev/log'):
            found = _SERVES.search(self.log)
            self.port = int(found[1]) if found else 0
        else:  # its messages are in the system log: only the port itself tells
            ports = (one.laddr.port for one in psutil.net_connections('tcp') if one.pid == self.pid)
            self.port = next(ports, 0)
        return self.port != 0

    def _socket(self, family: socket.AddressFamily) -> socket.socket:
        return self._network.socket(family) if self._network else socket.socket(family)
