"""Control groups as a machine shows them, in folders that a test writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PID = 4711


class GroupTree:
    """What ``/proc`` says of one process and of the mounts, and the folders of its groups.

    :param folder: An empty one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.proc = str(folder / 'proc')
        self._mounts = ['25 24 0:23 / /sys rw - sysfs sysfs rw', '26 25 0:24 / /run rw - tmpfs  rw']
        for name in (str(PID), 'self'):
            (folder / 'proc' / name).mkdir(parents=True)
        self._write_mounts()

    def in_groups(self, *lines: str) -> None:
        """Put the process into groups, each a line of ``/proc/PID/cgroup``."""
        (self.folder / 'proc' / str(PID) / 'cgroup').write_text(''.join(f'{line}\n' for line in lines))

    def mount(self, point: str, *, controllers: str = '', root: str = '/', options: str = 'rw,nsdelegate') -> Path:
        """Mount a hierarchy, of version 1 where it has controllers, and return its folder.

        :param point: The mount point, below the folder of this tree.
        :param root: The group that stands there.
        :param options: Those of a hierarchy of version 2.
        """
        path = self.folder / point
        kind = 'cgroup' if controllers else 'cgroup2'
        options = f'rw,{controllers}' if controllers else options
        fields = f'{_escaped(root)} {_escaped(str(path))}'
        self._mounts.append(f'30 25 0:26 {fields} rw,nosuid shared:9 - {kind} {kind} {options}')
        self._write_mounts()
        path.mkdir(parents=True, exist_ok=True)
        return path

    def _write_mounts(self) -> None:
        text = ''.join(f'{line}\n' for line in self._mounts)
        (self.folder / 'proc' / 'self' / 'mountinfo').write_text(text)


def make_group(folder: Path, files: Mapping[str, object]) -> Path:
    """Make a group with these files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(f'{content}\n')
    return folder


def _escaped(path: str) -> str:
    """Return a path as the kernel writes it, see proc_pid_mountinfo(5)."""
    return ''.join(f'\\{ord(letter):03o}' if letter in ' \t\n\\#' else letter for letter in path)
