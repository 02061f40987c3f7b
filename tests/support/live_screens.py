"""What a live view has drawn on a terminal, and programs to look at."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING

from support.cli_program import PROGRAM, Terminal, started
from support.recorder_runs import rows_of
from support.tracked_program import environment
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ENTER = '\x1b[?1049h\x1b[?25l'
LEAVE = '\x1b[0m\x1b[?25h\x1b[?1049l'
PLAIN = {'TERM': 'xterm', 'NO_COLOR': '1', 'LC_ALL': 'C.UTF-8'}
UNTIL_TOLD = 'import gpu_tracker as gput\nwith gput.region("waiting", n=3): input()'
"""A program that waits for a line."""
_FRAME = re.compile(r'\x1b\[H(.*?)\x1b\[J', re.DOTALL)


def frames(terminal: Terminal) -> list[list[str]]:
    """Return the lines of each screen that was drawn."""
    return [found.replace('\x1b[K', '').replace('\r', '').split('\n') for found in _FRAME.findall(terminal.shown)]


def next_frame(terminal: Terminal, count: int = 1) -> list[str]:
    """Return a screen that is drawn after ``count`` others from now on."""
    before = len(frames(terminal))
    eventually(lambda: len(frames(terminal)) > before + count)
    return frames(terminal)[-1]


def tracker(*words: object, **variables: str) -> Terminal:
    """Start gpu-tracker on a terminal of 80 columns and 24 lines, which shows no colours unless asked to."""
    return on_terminal([*PROGRAM, *map(str, words)], **variables)


def on_terminal(words: list[str], **variables: str) -> Terminal:
    """Start a program on such a terminal."""
    return Terminal(['sh', '-c', 'stty cols 80 rows 24; exec "$@"', 'sh', *words], environment(PLAIN | variables))


@contextlib.contextmanager
def recorded(path: Path, *options: str, env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """Record a program that waits for a line; what is yielded is its tracker."""
    words = [f'--tf={path}', '--st=0.1', *options, '--', sys.executable, '-c', UNTIL_TOLD]
    with started(*words, stdin=subprocess.PIPE, env=env or environment()) as process:
        eventually(lambda: path.exists() and path.stat().st_size and samples_in(path) > 2)
        yield process


def samples_in(path: Path) -> int:
    """Return how many samples a recording has by now; 0 while it is begun."""
    try:
        return int(rows_of(path, 'SELECT count(*) FROM samples')[0][0])
    except sqlite3.Error:
        return 0
