"""The server of web_program as a process, and clients that speak to it byte by byte."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Self

from support.programs import need_program
from support.serving_program import ServingProgram
from support.tracked_program import PACKAGE_PARENT, environment
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

    from support.own_network import OwnNetwork

PROGRAM = [sys.executable, str(Path(__file__).with_name('web_program.py'))]
PATHS = f'{PACKAGE_PARENT}:{Path(__file__).parents[2]}'


class WebServer(ServingProgram):
    """A server that serves.

    :param options: Of its command line, beside the port.
    :param port: 0: any that is free.
    :param limits: Those that are not as usual.
    :param network: Where it runs; None: here.
    :param before: Words of a program that runs the server.
    """

    def __init__(
        self,
        *options: str,
        port: int = 0,
        limits: dict[str, float] | None = None,
        network: OwnNetwork | None = None,
        changes: dict[str, str] | None = None,
        before: Sequence[str] = (),
    ) -> None:
        words = [*before, *PROGRAM, f'--port={port}', f'--limits={json.dumps(limits or {})}', *options]
        self._network = network
        super().__init__(
            network.words(*words) if network else words, environment({'PYTHONPATH': PATHS, **(changes or {})})
        )

    def finds_place(self) -> bool:
        found = re.search(r'^gpu-tracker: serving (.*)\n', self.log, re.MULTILINE)
        if found:
            self.urls = found[1].split()
            self.url = self.urls[0]
            self.port = int(self.url.rpartition(':')[2])
        return found is not None

    def client(self, host: str = '127.0.0.1', *, tls: ssl.SSLContext | None = None) -> Client:
        """Return a client that has connected."""
        family = socket.AF_INET6 if ':' in host else socket.AF_INET
        made = self._network.socket(family) if self._network else socket.socket(family)
        made.settimeout(TIMEOUT)
        try:
            made.connect((host, self.port))
            return Client(tls.wrap_socket(made, server_hostname='localhost') if tls else made)
        except BaseException:
            made.close()
            raise


def curl(*arguments: str) -> str:
    """Return what curl prints."""
    need_program('curl')
    words = ['curl', '--silent', '--noproxy', '*', '--max-time', str(TIMEOUT), *arguments]
    return subprocess.run(words, check=False, capture_output=True, text=True).stdout


class Client:
    """One end of a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, text: str | bytes) -> None:
        """Send something; a connection that the server has closed already may refuse it."""
        try:
            self.socket.sendall(text.encode() if isinstance(text, str) else text)
        except (BrokenPipeError, ConnectionResetError):
            pass  # what it has answered before can still be read

    def get(self, path: str = '/', *headers: str) -> None:
        """Ask for a path."""
        self.send('\r\n'.join([f'GET {path} HTTP/1.1', 'Host: localhost', *headers, '', '']))

    def until(self, end: bytes) -> bytes:
        """Return what comes, up to an end."""
        found = b''
        while end not in found:
            more = self.socket.recv(65536)
            assert more, f'it closed after {found!r}'
            found += more
        return found

    def rest(self) -> bytes:
        """Return all that comes until the server closes the connection."""
        found = []
        try:
            while more := self.socket.recv(65536):
                found.append(more)
        except ConnectionResetError:
            pass  # closed all the same
        return b''.join(found)
