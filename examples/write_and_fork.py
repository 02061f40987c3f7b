"""Hold 100 MB, share it with a forked child, and write 300 MB to a file, which stays in the page cache."""

import os
import tempfile

block = b'x' * 100_000_000
with tempfile.TemporaryFile(dir='.') as file:
    for _ in range(3):
        file.write(block)
    child = os.fork()
    if not child:
        os._exit(len(set(block[::4096])) - 1)
    os.waitpid(child, 0)
print('100 MB in memory, 300 MB in a file')
