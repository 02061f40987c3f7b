"""Commands that are tracked in the virtual machine with a control group of their own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from support.own_group import MEBIBYTE, OPTIONS, OWN_FILES

if TYPE_CHECKING:
    from support.vm import Completed, VirtualMachine

BUSY = f"""{OWN_FILES}
import mmap, threading
held = bytearray(b'x') * (60 * {MEBIBYTE})
with open('/tmp/cached', 'wb') as file: file.write(memoryview(held)[: 30 * {MEBIBYTE}])
disk = os.open('/dev/nvme0n1', os.O_RDWR | os.O_DIRECT)
page = mmap.mmap(-1, {MEBIBYTE})
for _ in range(8): os.write(disk, page)
os.lseek(disk, 0, 0)
for _ in range(3): os.readv(disk, [page])
event = threading.Event()
threads = [threading.Thread(target=event.wait) for _ in range(5)]
for thread in threads: thread.start()
event.set()
for thread in threads: thread.join()
burn(0.3)
os.unlink('/tmp/cached')
cpu = dict(zip(own('cpu.stat')[::2], own('cpu.stat')[1::2]))
print(json.dumps({{
    'memory_peak': int(own('memory.peak')[0]),
    'cpu': int(cpu['usage_usec']) / 1e6,
    'max_tasks': int(own('pids.peak')[0]),
    'storage': [int(word.partition('=')[2]) for word in own('io.stat') if word.startswith(('rbytes=', 'wbytes='))],
}}))
"""


WITHOUT_DISK = BUSY[: BUSY.index('disk =')] + BUSY[BUSY.index('event =') :]


def track(
    machine: VirtualMachine,
    *words: str,
    user: int = 0,
    group: str | None = None,
    environment: dict[str, str] | None = None,
) -> tuple[Completed, dict[str, Any]]:
    """Track a command with a group of its own; return what it and gpu-tracker have said, and the group's figures."""
    path = f'/tmp/report-{user}.json'
    command = ['gpu-tracker', *OPTIONS, '-o', path, '--', *words]
    done = machine.run(command, user=user, group=group, environment=environment)
    assert done.code == 0, done
    return done, json.loads(machine.read(path))['own_group']
