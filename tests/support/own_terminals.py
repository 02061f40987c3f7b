"""A machine's own terminals: none but those that a test makes."""

from __future__ import annotations

import subprocess
import sys

from support.own_network import OwnNetwork
from support.waiting import TIMEOUT

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
