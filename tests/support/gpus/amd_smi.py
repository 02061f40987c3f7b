"""A stand-in for AMD's program ``amd-smi`` on a machine that stands in a folder, as gpu-tracker 5.0.1 asks it.

Run as a program, it answers one question with ``--csv``. Sizes of GPUs are in MiB and those of processes in bytes, as
the real one's are; a process has what it has in all clients that it has open, each once.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

_MEBIBYTE = 2**20


def install(folder: Path, root: Path) -> None:
    """Write the program ``amd-smi`` for a machine into a folder, which PATH has to name."""
    path = folder / 'amd-smi'
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {__file__} {root} "$@"\n')
    path.chmod(0o755)


def _gpus(root: Path) -> list[Path]:
    cards = (root / 'sys/class/drm').glob('card*')
    found = {(card / 'device').resolve() for card in cards}
    return sorted(device for device in found if 'DRIVER=amdgpu' in (device / 'uevent').read_text())


def _text(path: Path) -> str:
    return path.read_text().strip() if path.exists() else 'N/A'


def _mebibytes(gpu: Path, what: str) -> int:
    return int(_text(gpu / f'mem_info_vram_{what}')) // _MEBIBYTE


def _memory_of(folder: Path, slot: str) -> dict[str, int]:
    """Return the KiB of a process on one GPU, by region."""
    clients: dict[str, dict[str, int]] = {}
    for path in (folder / 'fdinfo').glob('*'):
        text = path.read_text()
        client = re.search(r'drm-client-id:\s*(\d+)', text)
        if client and f'drm-pdev:\t{slot}\n' in text:
            clients[client[1]] = {
                region: int(kib) for region, kib in re.findall(r'drm-memory-(\w+):\s*(\d+) KiB', text)
            }
    return {region: sum(one[region] for one in clients.values()) for one in clients.values() for region in one}


def _answer(root: Path, question: str) -> list[list[object]]:
    """Return the lines of a table, the names of its columns first."""
    rows: list[list[object]]
    gpus = list(enumerate(_gpus(root)))
    if question == 'list':
        return [['gpu', 'gpu_bdf', 'gpu_uuid'], *([n, gpu.name, f'uuid-of-{n}'] for n, gpu in gpus)]
    if question == 'static':
        rows = [[n, 'N/A', 'N/A', _mebibytes(gpu, 'total'), 256] for n, gpu in gpus]
        return [['gpu', 'type', 'vendor', 'size', 'bit_width'], *rows]
    if question == 'monitor':
        rows = [
            [n, _text(gpu / 'gpu_busy_percent'), 'N/A', *(_mebibytes(gpu, name) for name in ('used', 'total'))]
            for n, gpu in gpus
        ]
        return [['gpu', 'gfx', 'gfx_clk', 'vram_used', 'vram_total'], *rows]
    table: list[list[object]] = [['gpu', 'name', 'pid', 'gtt_mem', 'cpu_mem', 'vram_mem', 'mem_usage', 'gfx', 'enc']]
    for n, gpu in gpus:
        for folder in sorted((root / 'proc').iterdir()):
            memory = _memory_of(folder, gpu.name)
            if memory:
                sizes_of_it = [memory.get(region, 0) * 1024 for region in ('gtt', 'cpu', 'vram')]
                table.append([n, 'N/A', folder.name, *sizes_of_it, sum(sizes_of_it), 0, 0])
    return table


if __name__ == '__main__' and len(sys.argv) > 2:  # without a question it only says that it is there
    for row in _answer(Path(sys.argv[1]), sys.argv[2]):
        print(','.join(map(str, row)))
