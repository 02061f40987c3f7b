"""Maps a file, reads all of it, says so, and waits for the end of its input."""

from __future__ import annotations

import mmap
import sys

with open(sys.argv[1], 'r+b') as file:
    memory = mmap.mmap(file.fileno(), 0)
sum(memory[:: mmap.PAGESIZE])
print('ready', flush=True)
sys.stdin.read()
