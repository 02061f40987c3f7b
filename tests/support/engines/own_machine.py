"""A machine of a test's own, as far as processes, mounts, network and host name go: namespaces(7) of this one.

Programs that become daemons and outlive who started them are gone with it: the end of a PID namespace's first process
ends all others, pid_namespaces(7). Making one needs root.
"""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Self

import pytest

from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

ADDRESS = '10.73.0.1'
"""The machine's address, beside 127.0.0.1: the C library resolves no name to an address where loopback ones are all."""

_TOOLS = ('unshare', 'nsenter', 'mount')

# The first process of the namespace. It lives as long as somebody holds the other end of its standard input, and reaps
# all orphans: children of one that ignores SIGCHLD leave no zombies.
_FIRST = f"""
import fcntl, signal, socket, struct, subprocess, sys
name, *mounts = sys.argv[1:]
SIOCSIFFLAGS, SIOCSIFADDR, IFF_UP = 0x8914, 0x8916, 1
with socket.socket(type=socket.SOCK_DGRAM) as any_socket:
    fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack('16sH14x', b'lo', IFF_UP))
    address = socket.inet_aton('{ADDRESS}')
    fcntl.ioctl(any_socket, SIOCSIFADDR, struct.pack('16sHH4s8x', b'lo:0', socket.AF_INET, 0, address))
socket.sethostname(name)
for source, target in zip(mounts[::2], mounts[1::2]):
    subprocess.run(['mount', '--bind', source, target], check=True)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
asker = socket.socket(fileno=0)
asker.send(b'!')
asker.recv(1)
"""


def need(tools: Iterable[str], package: str) -> None:
    """Skip the test where a tool is missing, naming it.

    :param package: Where they come from, for who reads that.
    """
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f'needs {tool}, from {package}')


class OwnMachine:
    """A machine whose processes see each other and no others, and which ends with all of them.

    :param folder: Where it may write; it is the same inside.
    :param name: Its host name.
    :param hosts: Other names of it.
    :param mounts: What its programs find at some paths that are there: files and folders of this machine.
    """

    def __init__(
        self, folder: Path, name: str, hosts: Iterable[str] = (), mounts: Iterable[tuple[Path, str]] = ()
    ) -> None:
        need(_TOOLS, 'util-linux')
        names = folder / 'hosts'
        names.write_text(f'127.0.0.1 localhost\n{ADDRESS} {" ".join([name, *hosts])}\n')
        pairs = [str(path) for mount in [(names, '/etc/hosts'), *mounts] for path in mount]
        words = ['unshare', '--pid', '--fork', '--mount-proc', '--net', '--uts', sys.executable, '-ISc', _FIRST, name]
        self._holder, first = socket.socketpair()
        self._holder.settimeout(TIMEOUT)
        with first:
            self._unshare = subprocess.Popen([*words, *pairs], stdin=first)
        if not self._holder.recv(1):
            self.close()
            pytest.skip('needs root, or the right to make namespaces')

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the machine and all that runs on it."""
        self._holder.close()
        self._unshare.wait(TIMEOUT)

    def words(self, *words: str, folder: Path | str = '/') -> list[str]:
        """Return the words that run a program on the machine, in a folder."""
        target = self._unshare.pid
        spaces = ['--mount', '--net', '--uts', f'--pid=/proc/{target}/ns/pid_for_children']
        return ['nsenter', f'--target={target}', *spaces, 'env', f'--chdir={folder}', *words]

    def run(self, *words: str, folder: Path | str = '/', **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a program there to its end; ``options`` are those of subprocess.run."""
        settings: dict[str, Any] = {
            'stdin': subprocess.DEVNULL,
            'capture_output': True,
            'text': True,
            'timeout': TIMEOUT,
        }
        return subprocess.run(self.words(*words, folder=folder), check=False, **(settings | options))

    def start(self, *words: str, folder: Path | str = '/', **options: Any) -> subprocess.Popen[str]:
        """Start a program there; ``options`` are those of subprocess.Popen. A signal to it ends nsenter alone."""
        settings: dict[str, Any] = {'stdin': subprocess.DEVNULL, 'text': True}
        return subprocess.Popen(self.words(*words, folder=folder), **(settings | options))

    def kill(self, process_id: int, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to a process by the number that it has there."""
        assert self.run('kill', f'-{number.value}', str(process_id)).returncode == 0
