"""Grows to so many bytes at the end of so many seconds, writes its high-water mark in bytes, and ends at once.

python growing.py BYTES SECONDS
"""

from __future__ import annotations

import mmap
import os
import sys
import time

size, seconds = int(sys.argv[1]), float(sys.argv[2])
block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
begun = time.monotonic()
grown = 0
while grown < size:
    due = min(size, int(size * (time.monotonic() - begun) / seconds)) // mmap.PAGESIZE * mmap.PAGESIZE
    last = size if due + mmap.PAGESIZE > size else due
    block[grown : last : mmap.PAGESIZE] = bytes(len(range(grown, last, mmap.PAGESIZE)))
    grown = last
    time.sleep(0.001)
with open('/proc/self/status', encoding='ascii', errors='replace') as lines:
    mark = next(int(line.split()[1]) * 1024 for line in lines if line.startswith('VmHWM:'))
os.write(1, f'{mark}\n'.encode())
os._exit(0)
