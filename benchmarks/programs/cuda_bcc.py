"""Probes CUDA calls with BCC, and counts them; for the system's Python, which has Debian's BCC.

Usage: cuda_bcc.py LIBRARY OUTPUT --pid PID | -- COMMAND...
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

from bcc import BPF  # type: ignore[import-not-found]

FUNCTIONS = {
    'launch': 'cudaLaunchKernel',
    'malloc': 'cudaMalloc',
    'free': 'cudaFree',
    'synchronise': 'cudaStreamSynchronize',
}
_WAIT = 100
"""Milliseconds."""


class Event(ctypes.Structure):
    """The event of ``cuda_bcc.c``."""

    _fields_ = (
        ('time', ctypes.c_uint64),
        ('address', ctypes.c_uint64),
        ('value', ctypes.c_uint64),
        ('stream', ctypes.c_uint64),
        ('pid', ctypes.c_uint32),
        ('tid', ctypes.c_uint32),
        ('function', ctypes.c_uint32),
        ('padding', ctypes.c_uint32),
    )


def main() -> None:
    """Attach, and count until the process has ended."""
    library, output, how, *words = sys.argv[1:]
    bpf = BPF(text=Path(__file__).with_suffix('.c').read_text(encoding='ascii'))
    pid = int(words[0]) if how == '--pid' else -1
    for name, symbol in FUNCTIONS.items():
        bpf.attach_uprobe(name=library, sym=symbol, fn_name=f'{name}_begins', pid=pid)
        bpf.attach_uretprobe(name=library, sym=symbol, fn_name=f'{name}_ends', pid=pid)
    counts = [0] * len(FUNCTIONS)

    def count(_context: object, data: int, _size: int) -> None:
        counts[ctypes.cast(data, ctypes.POINTER(Event)).contents.function] += 1

    bpf['events'].open_ring_buffer(count)
    command = None if how == '--pid' else subprocess.Popen(words)
    while command.poll() is None if command else os.path.exists(f'/proc/{pid}'):
        bpf.ring_buffer_poll(_WAIT)
    bpf.ring_buffer_poll(0)
    lost = sum(value.value for value in bpf['lost'].values())
    Path(output).write_text(json.dumps({'counts': dict(zip(FUNCTIONS, counts, strict=True)), 'lost': lost}))
    # BCC cannot detach where tracefs is not mounted, and complains; with the end of this process all is gone.
    os._exit(0)


main()
