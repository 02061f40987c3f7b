"""A network, and terminals, of a test's own: the port of atopgpud and the names of abstract sockets are free in it.

Both belong to a network namespace, network_namespaces(7), so tests in networks of their own meet neither each other nor
a daemon of the machine. There is no system log either, so that a daemon's messages come on standard error and not among
the machine's. Making one needs root.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Self

import pytest

from support.programs import need_program
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from collections.abc import Sequence

TOOLS = ('unshare', 'nsenter', 'mount')

_WITHOUT_LOG = 'if [ -e /dev/log ]; then mount --bind /dev/null /dev/log; fi; exec "$@"'

# Lives in the network as long as somebody holds the other end of its standard input, which is a socket: for each byte
# that comes, the number of a family, it passes back a new socket. A socket stays in the network that it was made in,
# whoever uses it. A new network has its loopback interface down.
_KEEPER = """
import fcntl, socket, struct
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
with socket.socket() as any_socket:
    fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack('16sH14x', b'lo', IFF_UP))
asker = socket.socket(fileno=0)
asker.send(b'!')
while family := asker.recv(1):
    with socket.socket(family[0]) as made:
        socket.send_fds(asker, [b'!'], [made.fileno()])
"""

_MOUNT = ('mount', '-t', 'devpts', '-o', 'newinstance,ptmxmode=0666,gid=0,mode=0600', 'devpts', '/dev/pts')

# Makes a terminal, gives it to a user, tells its name, and then obeys: "type" makes its user active, "rest" long idle.
# The kernel notes a time only where it is 8 s later than the one before.
_TERMINAL = """
import os, sys
keyboard, screen = os.openpty()
os.chown(os.ttyname(screen), int(sys.argv[1]), -1)
os.utime(screen, (0, 0))
print(os.ttyname(screen).removeprefix('/dev/'), flush=True)
for order in sys.stdin:
    os.utime(screen, (0, 0))
    if order == 'type\\n':
        os.write(keyboard, b'x\\n')
        os.read(screen, 10)
    print('done', flush=True)
"""


class OwnNetwork:
    """A network that has a loopback interface and nothing else; at its end all that runs in it is killed."""

    def __init__(self) -> None:
        need_program(*TOOLS)
        self._asker, keeper = socket.socketpair()
        self._asker.settimeout(TIMEOUT)
        words = ['unshare', '--net', '--mount', 'sh', '-c', _WITHOUT_LOG, 'sh', sys.executable, '-ISc', _KEEPER]
        with keeper:
            self._keeper = subprocess.Popen(words, stdin=keeper)
        if not self._asker.recv(1):
            self._asker.close()
            self._keeper.wait()
            pytest.skip('needs root, or the right to make namespaces')
        self._inode = os.stat(f'/proc/{self._keeper.pid}/ns/net').st_ino
        self._started: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._started:
            process.kill()  # it may not have got into the network yet
        eventually(self._nobody_lives)
        for process in self._started:
            process.__exit__(None, None, None)  # waits for its end and closes its pipes
        self._asker.close()
        self._keeper.wait(TIMEOUT)

    def words(self, *words: str) -> list[str]:
        """Return the words that run a program in the network, in the root folder; the process ID is the program's."""
        return ['nsenter', f'--target={self._keeper.pid}', '--net', '--mount', *words]

    def start(self, *words: str, **options: Any) -> subprocess.Popen[str]:
        """Start a program in the network; ``options`` are those of subprocess.Popen."""
        settings: dict[str, Any] = {'stdin': subprocess.DEVNULL, 'text': True}
        self._started.append(subprocess.Popen(self.words(*words), **(settings | options)))
        return self._started[-1]

    def socket(self, family: socket.AddressFamily) -> socket.socket:
        """Return a new stream socket in the network."""
        self._asker.send(bytes([family]))
        _, (descriptor,), *_ = socket.recv_fds(self._asker, 1, 1)
        return socket.socket(fileno=descriptor)

    def processes(self) -> Sequence[int]:
        """Return what runs in the network, without what keeps it."""
        found = []
        for name in filter(str.isdigit, os.listdir('/proc')):
            with contextlib.suppress(OSError):  # it has ended meanwhile, or is a zombie
                if os.stat(f'/proc/{name}/ns/net').st_ino == self._inode and int(name) != self._keeper.pid:
                    found.append(int(name))
        return found

    def _nobody_lives(self) -> bool:
        """Kill what lives; return whether nothing did."""
        lived = self.processes()
        for process_id in lived:
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(process_id, signal.SIGKILL)
        return not lived


class OwnTerminals(OwnNetwork):
    """Where a monitor sees no terminals but a test's, and no other monitor. Making it needs root."""

    def __init__(self) -> None:
        super().__init__()
        assert self.start(*_MOUNT).wait(TIMEOUT) == 0


class OwnTerminal:
    """A terminal with a user who types when told to.

    :param terminals: Where it is.
    :param user_id: Whose it is.
    """

    def __init__(self, terminals: OwnTerminals, user_id: int) -> None:
        words = (sys.executable, '-c', _TERMINAL, str(user_id))
        self._process = terminals.start(*words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.name = self._answer()

    def type(self) -> None:
        """Have its user press keys."""
        self._tell('type')

    def rest(self) -> None:
        """Have its user do nothing for years."""
        self._tell('rest')

    def _tell(self, order: str) -> None:
        self._process.stdin.write(f'{order}\n')
        self._process.stdin.flush()
        assert self._answer() == 'done'

    def _answer(self) -> str:
        return self._process.stdout.readline().strip()
