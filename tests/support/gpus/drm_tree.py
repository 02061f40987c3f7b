"""Folders ``sys`` and ``proc`` of a machine with DRM drivers, built from dumps: see ``tests/data/drm``.

    tree = DrmTree(tmp_path)
    tree.add('xe', {1001: process.pid})
    subprocess.run(command, env=os.environ | tree.environment())

A line of a dump is what ``grep ''`` prints of a file, ``/proc/1001/fdinfo/5:drm-driver:<tab>xe``, or a link that
``find -printf '%p -> %l'`` prints. A process ID of a dump becomes that of a real process where one is given.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_tracker.gpus.opening import DRM_ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_DUMPS = Path(__file__).parents[2] / 'data' / 'drm'
_OF_DEVICE = re.compile(r'/sys/class/drm/(\w+)/device/([^:]+):(.*)')
_OF_CARD = re.compile(r'/sys/class/drm/(card\d+)/([^/:]+):(.*)')
_OF_CLIENT = re.compile(r'/proc/(\d+)/fdinfo/(\d+):(.*)')
_LINK = re.compile(r'/proc/(\d+)/fd/(\d+) -> (.*)')
_SLOT = 'PCI_SLOT_NAME='

CASES = ('amdgpu_gaming', 'amdgpu_compute', 'amdgpu_apu', 'i915', 'xe', 'nouveau')
BROWSER_CLIENTS = 20
BROWSER_KIB = 40_960
"""What each client of the browser has."""


def dump(name: str) -> list[str]:
    """Return the lines of a dump."""
    return (_DUMPS / f'{name}.txt').read_text(encoding='utf-8').splitlines()


def devices_beside(name: str) -> list[str]:
    """Return the GPUs of a dump, without processes, with other nodes: beside those of another dump."""
    return [
        re.sub(r'/(card|renderD)(\d+)/', lambda match: f'/{match[1]}{int(match[2]) + 20}/', line)
        for line in dump(name)
        if line.startswith('/sys/')
    ]


def browser() -> list[str]:
    """Return a dump of a browser on the GPU of ``amdgpu_gaming``.

    Its process 1001 has opened 20 clients, each through two descriptors; its children 1002 to 1004 have inherited them.
    """
    lines = [line for line in dump('amdgpu_gaming') if line.startswith('/sys/')]
    for pid in range(1001, 1005):
        for client in range(BROWSER_CLIENTS):
            for descriptor in (50 + client, 150 + client):
                lines += [f'/proc/{pid}/fdinfo/{descriptor}:{line}' for line in _browser_client(500 + client)]
    return lines


def _browser_client(client: int) -> list[str]:
    return [
        'drm-driver:\tamdgpu',
        f'drm-client-id:\t{client}',
        'drm-pdev:\t0000:08:00.0',
        f'drm-memory-vram:\t{BROWSER_KIB} KiB',
        'drm-memory-gtt: \t2048 KiB',
        'drm-engine-gfx:\t1000000 ns',
    ]


class DrmTree:
    """A machine whose GPUs and processes stand in a folder.

    :ivar root: The folder with ``sys`` and ``proc``.
    """

    def __init__(self, folder: Path) -> None:
        self.root = folder / 'drm'
        self.proc = self.root / 'proc'
        (self.root / 'sys/class/drm').mkdir(parents=True)
        self.proc.mkdir()

    def environment(self) -> dict[str, str]:
        """Return what makes a program read this machine."""
        return {DRM_ROOT: str(self.root)}

    def add(self, lines: str | Iterable[str], pids: Mapping[int, int] | None = None) -> None:
        """Add what a dump says.

        :param lines: The dump, or the name of one.
        :param pids: Process IDs of the dump and those of real processes that take their places.
        """
        self._write(dump(lines) if isinstance(lines, str) else list(lines), pids or {})

    def add_at_once(self, lines: str | Iterable[str], pids: Mapping[int, int] | None = None) -> None:
        """Add what a dump says to a machine that had no process: who reads it sees none or all of them."""
        self.proc = self.root / 'proc.next'
        self.proc.mkdir()
        self.add(lines, pids)
        self.proc = self.proc.rename(self.root / 'proc')

    def set(self, path: str, text: object) -> None:
        """Write a file of sysfs: ``card1/device/gpu_busy_percent``."""
        (self.root / 'sys/class/drm' / path).write_text(f'{text}\n', encoding='utf-8')

    def client(self, pid: int, descriptor: int, lines: Iterable[str], node: str = 'renderD128') -> None:
        """Give a process a descriptor of a DRM client; a file that is open already shows the new text."""
        self.descriptor(pid, descriptor, f'/dev/dri/{node}')
        path = self.proc / str(pid) / 'fdinfo' / str(descriptor)
        path.write_text(''.join(f'{line}\n' for line in lines), encoding='utf-8')

    def descriptor(self, pid: int, descriptor: int, target: str = '/dev/null') -> None:
        """Give a process a descriptor of any file."""
        folder = self.proc / str(pid)
        for name in ('fd', 'fdinfo'):
            (folder / name).mkdir(parents=True, exist_ok=True)
        link = folder / 'fd' / str(descriptor)
        if not link.is_symlink():
            link.symlink_to(target)

    def close(self, pid: int, descriptor: int) -> None:
        """Take a descriptor away."""
        for name in ('fd', 'fdinfo'):
            (self.proc / str(pid) / name / str(descriptor)).unlink(missing_ok=True)

    def end(self, pid: int) -> None:
        """End a process."""
        shutil.rmtree(self.proc / str(pid))

    def _write(self, lines: list[str], pids: Mapping[int, int]) -> None:
        slots = {
            match[1]: match[3].removeprefix(_SLOT)
            for line in lines
            if (match := _OF_DEVICE.fullmatch(line)) and match[2] == 'uevent' and match[3].startswith(_SLOT)
        }
        clients: dict[tuple[int, int], list[str]] = {}
        for line in lines:
            if match := _OF_DEVICE.fullmatch(line):
                self._write_of_device(match[1], slots.get(match[1], 'platform-gpu'), match[2], match[3])
            elif match := _OF_CARD.fullmatch(line):
                self.set(f'{match[1]}/{match[2]}', match[3])
            elif match := _OF_CLIENT.fullmatch(line):
                pid = int(match[1])
                clients.setdefault((pids.get(pid, pid), int(match[2])), []).append(match[3])
            elif match := _LINK.fullmatch(line):
                self.descriptor(pids.get(int(match[1]), int(match[1])), int(match[2]), match[3])
        for (pid, descriptor), text in clients.items():
            self.client(pid, descriptor, text)

    def _write_of_device(self, node: str, slot: str, name: str, text: str) -> None:
        device = self.root / 'sys/devices' / slot
        link = self.root / 'sys/class/drm' / node / 'device'
        link.parent.mkdir(exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(device)
        path = device / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text(encoding='utf-8').splitlines() if path.exists() else []
        if text not in lines:  # both nodes of a GPU lead to the same files
            path.write_text(''.join(f'{line}\n' for line in (*lines, text)), encoding='utf-8')
