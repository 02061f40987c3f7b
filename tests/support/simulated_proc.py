"""A /proc folder made by tests, and a table of simulated processes that fork, use CPU time, end and are reaped."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PAGE = os.sysconf('SC_PAGE_SIZE')
TICKS = os.sysconf('SC_CLK_TCK')


def stat_line(
    pid: int,
    parent: int,
    *,
    name: str = 'python',
    state: str = 'S',
    group: int = 0,
    session: int = 0,
    faults: tuple[int, int, int, int] = (0, 0, 0, 0),
    ticks: tuple[int, int, int, int] = (0, 0, 0, 0),
    threads: int = 1,
    start: int = 100,
    image: tuple[int, int, int] | None = None,
    arguments_end: int = 4000,
) -> str:
    """Return the content of a stat file, proc_pid_stat(5)."""
    image = image or (1000 + pid, 2000 + pid, 3000 + pid)
    fields = ['0'] * 50
    fields[0] = state
    fields[1:4] = map(str, (parent, group, session))
    fields[7], fields[8], fields[9], fields[10] = map(str, faults)
    fields[11:15] = map(str, ticks)
    fields[17] = str(threads)
    fields[19] = str(start)
    fields[20] = '1000000'
    fields[25], fields[44], fields[45] = map(str, image)
    fields[46] = str(arguments_end)
    return f'{pid} ({name}) {" ".join(fields)}\n'


class ProcFolder:
    """Writes the files of processes that a tree reads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cpu: dict[int, float] = {}

    def put(
        self, pid: int, parent: int, *, pages: int = 100, of_files: int = 40, words: str = 'python', **fields
    ) -> None:
        """Add a process, or change it: it has run meanwhile."""
        folder = self.path / str(pid)
        folder.mkdir(exist_ok=True)
        # In place: a file that is open goes on telling of its process.
        (folder / 'stat').write_text(stat_line(pid, parent, **fields))
        (folder / 'statm').write_text(f'1000 {pages} {of_files} 1 0 50 0\n')
        (folder / 'cmdline').write_text(words and words + '\0')
        (folder / 'task' / str(pid)).mkdir(parents=True, exist_ok=True)
        (folder / 'task' / str(pid) / 'stat').write_text(stat_line(pid, parent, **fields))
        self.cpu[pid] = self.cpu.get(pid, 0.0) + 0.001

    def remove(self, pid: int) -> None:
        """Take a process away. What is open of it is what an ordinary file is: it still reads."""
        shutil.rmtree(self.path / str(pid))
        del self.cpu[pid]

    def clock(self, pid: int) -> float:
        """Tell the CPU seconds of a process."""
        try:
            return self.cpu[pid]
        except KeyError:
            raise OSError from None
