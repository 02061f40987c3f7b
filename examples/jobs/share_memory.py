"""Five processes that share 200 MB, like workers that are forked after the data is loaded.

python share_memory.py [SECONDS]: they live for 2 seconds by default, and compute for a tenth of that.
"""

from __future__ import annotations

import os
import sys
import time

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
END = time.monotonic() + SECONDS

data = bytearray(200_000_000)
data[::4096] = bytes(len(data[::4096]))  # touch each page

is_child = False
children: list[int] = []
for _ in range(4):
    child = os.fork()
    if child == 0:
        is_child = True
        break
    children.append(child)

start = time.process_time()
while time.process_time() - start < SECONDS / 10:
    pass
time.sleep(max(0.0, END - time.monotonic()))
if is_child:
    os._exit(0)
for child in children:
    os.waitpid(child, 0)
print('done')
