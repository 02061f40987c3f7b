"""A virtual machine with a whole hierarchy of control groups of version 2, for tests: Linux and Python, and no more.

    with VirtualMachine(tmp_path, kernel) as machine:
        done = machine.run(['gpu-tracker', '--cgroup', '--', 'true'])

QEMU boots the kernel, which unpacks its root file system from memory (initrd.py): this Python, its standard library,
the installed package and what that needs. The first process in it (guest.py) mounts what there is to mount, and does
from then on what comes over the machine's second serial port. The processor is emulated, since not every host can do
more; a command takes some seconds. Its clock counts instructions: a host that does something else meanwhile would make
the CPU time of what runs in the machine longer.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from support.vm import initrd

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

GROUPS = '/sys/fs/cgroup'
"""Where the hierarchy is mounted in the machine."""
ORDINARY_USER = 1000
"""The number of a user without any rights."""

_TIMEOUT = 300
"""Seconds that pass only where something is broken: without KVM, on a busy host, a command takes up to ten."""
_INSTRUCTION = 1
"""Binary logarithm of the nanoseconds that one takes."""
_MEMORY = 640
"""Megabytes: ten times what the programs of the tests need."""
_DISK = 64 * 2**20
_PIECE = 65536


@dataclass(frozen=True)
class Completed:
    """A command that has run in the machine."""

    code: int
    output: str
    errors: str


class VirtualMachine:
    """A machine that runs until the ``with`` ends.

    :param folder: Where its files are kept.
    :param kernel: The path of the kernel.
    :param programs: The paths of more programs that it is to have.
    """

    def __init__(self, folder: Path, kernel: Path, programs: Sequence[str] = ()) -> None:
        self._folder = folder
        self._kernel = kernel
        self._programs = programs
        self._received = b''
        self._first_lines: list[bytes] = []

    def __enter__(self) -> Self:
        image = self._folder / 'initrd'
        initrd.write(image, self._programs)
        disk = self._folder / 'disk'
        disk.touch()
        os.truncate(disk, _DISK)
        self._console = self._folder / 'console'
        self._qemu = subprocess.Popen(
            [
                *('qemu-system-x86_64', '-accel', 'tcg', '-icount', f'shift={_INSTRUCTION}'),
                *('-cpu', 'max', '-m', str(_MEMORY)),
                *('-kernel', self._kernel, '-initrd', image),
                *('-append', 'console=ttyS0 quiet panic=-1 random.trust_cpu=on'),
                *('-no-reboot', '-nodefaults', '-display', 'none', '-monitor', 'none'),
                *('-drive', f'file={disk},if=none,id=disk,format=raw', '-device', 'nvme,drive=disk,serial=disk'),
                *('-serial', f'file:{self._console}', '-chardev', 'stdio,id=orders,signal=off'),
                *('-serial', 'chardev:orders'),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        try:
            while (line := self._line()) != b'ready':
                self._first_lines.append(line)  # of QEMU itself: that there is no KVM
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._qemu.kill()
        self._qemu.communicate()

    def run(
        self,
        words: Sequence[str],
        *,
        user: int = 0,
        group: str | None = None,
        environment: dict[str, str] | None = None,
    ) -> Completed:
        """Run a command to its end.

        ``python`` and ``gpu-tracker`` are those of these tests.

        :param user: Whose it is.
        :param group: The folder of the control group that it starts in; None: the root of the hierarchy.
        """
        known = {'python': [initrd.PYTHON], 'gpu-tracker': [initrd.PYTHON, '-m', 'gpu_tracker']}
        whole = [found for word in words for found in known.get(word, [word])]
        return Completed(
            **self._order(
                'run',
                words=whole,
                user=user,
                group=group,
                environment={'PYTHONPATH': initrd.PACKAGES, **(environment or {})},
            )
        )

    def read(self, path: str) -> str:
        """Return the text of a file."""
        return self._order('read', path=path)

    def write(self, path: str, text: str) -> None:
        """Write into a file with one call, as the files of control groups are written."""
        self._order('write', path=path, text=text)

    def put(self, path: str, text: str) -> None:
        """Write a file, and make its folder where there is none."""
        self._order('put', path=path, text=text)

    def names(self, path: str) -> list[str]:
        """Return the names of the folders in a folder, sorted: of the groups in a group."""
        return self._order('names', path=path)

    def make_group(self, path: str, *, owner: int = 0) -> None:
        """Make a group, which is delegated to its owner."""
        self._order('make_group', path=path, owner=owner)

    def remove_group(self, path: str) -> None:
        """Remove a group in which nothing is, with those below it."""
        self._order('remove_group', path=path)

    def _order(self, name: str, **what: object):
        self._qemu.stdin.write(json.dumps({'name': name, **what}).encode() + b'\n')
        self._qemu.stdin.flush()
        answer = json.loads(self._line())
        assert 'failure' not in answer, answer['failure']
        return answer['result']

    def _line(self) -> bytes:
        """Return the next line that comes from the machine."""
        deadline = time.monotonic() + _TIMEOUT
        with selectors.DefaultSelector() as selector:
            selector.register(self._qemu.stdout, selectors.EVENT_READ)
            while b'\n' not in self._received:
                assert selector.select(deadline - time.monotonic()), f'it does not answer: {self._said()}'
                piece = os.read(self._qemu.stdout.fileno(), _PIECE)
                assert piece, f'it has ended: {self._said()}'
                self._received += piece
        line, _, self._received = self._received.partition(b'\n')
        return line.strip()

    def _said(self) -> str:
        """Return what came last from the kernel and from the first process."""
        qemu = b'\n'.join([*self._first_lines, self._received]).decode(errors='replace')
        return f'{qemu}\n{self._console.read_text(errors="replace")[-4000:]}'
