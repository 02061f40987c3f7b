"""Reads the DRM clients of many processes again and again, and prints the CPU seconds of a process and reading as JSON.

drm_reading.py KIND FOLDER PROCESSES READINGS. KIND is ``none`` (real processes without a GPU, in /proc), ``idle`` (each
has a client, whose figures stand still), ``working`` (its figures change before each reading), ``shared`` (each has 20
descriptors of one client) or ``clients`` (each has 20 clients, whose figures change). But for ``none``, files of a
folder stand in for those of proc(5): they have the text of amdgpu, and the driver's own work is in none of these.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from gpu_tracker.gpus.drm import open_backend

_CARD = {
    'uevent': 'DRIVER=amdgpu\nPCI_ID=1002:73BF\nPCI_SLOT_NAME=0000:03:00.0\n',
    'gpu_busy_percent': '42\n',
    'mem_info_vram_total': '17163091968\n',
    'mem_info_vram_used': '4294967296\n',
}
_CLIENT = """pos:\t0
flags:\t02100002
mnt_id:\t24
ino:\t1239
drm-driver:\tamdgpu
drm-client-id:\t{client}
drm-pdev:\t0000:03:00.0
pasid:\t32771
drm-total-gtt:\t2392 KiB
drm-shared-gtt:\t0
drm-resident-gtt:\t2392 KiB
drm-total-vram:\t44564 KiB
drm-shared-vram:\t31952 KiB
drm-resident-vram:\t44564 KiB
drm-memory-vram:\t44564 KiB
drm-memory-gtt: \t2392 KiB
drm-engine-gfx:\t{time} ns
"""
_TIME = 1_000_000_000_000
_DESCRIPTORS = 20


def make_card(root: Path) -> None:
    """Write the files of a GPU."""
    device = root / 'sys/devices/gpu'
    device.mkdir(parents=True)
    for name, text in _CARD.items():
        (device / name).write_text(text)
    for node in ('card0', 'renderD128'):
        (root / 'sys/class/drm' / node).mkdir(parents=True)
        (root / 'sys/class/drm' / node / 'device').symlink_to(device)


def make_process(root: Path, pid: int, clients: list[int]) -> list[tuple[Path, int]]:
    """Write the files of a process, a descriptor for each of these clients; return them."""
    folder = root / 'proc' / str(pid)
    for name in ('fd', 'fdinfo'):
        (folder / name).mkdir(parents=True)
    files = []
    for descriptor, client in enumerate(clients):
        (folder / 'fd' / str(descriptor)).symlink_to('/dev/dri/renderD128')
        file = folder / 'fdinfo' / str(descriptor)
        file.write_text(_CLIENT.format(client=client, time=_TIME))
        files.append((file, client))
    return files


def clients_of(kind: str, number: int) -> list[int]:
    """Return the clients of the descriptors of one process."""
    if kind == 'shared':
        return [number] * _DESCRIPTORS
    if kind == 'clients':
        return [number * _DESCRIPTORS + place for place in range(_DESCRIPTORS)]
    return [number]


def cost(kind: str, root: Path, processes: int, readings: int) -> float:
    """Return the CPU seconds of one process and reading, the median of many readings."""
    make_card(root)
    files: list[tuple[Path, int]] = []
    children = []
    if kind == 'none':
        (root / 'proc').symlink_to('/proc')
        children = [subprocess.Popen(['sleep', '600']) for _ in range(processes)]
        pids = frozenset(child.pid for child in children)
    else:
        for number in range(processes):
            files += make_process(root, 1000 + number, clients_of(kind, number))
        pids = frozenset(range(1000, 1000 + processes))
    backend = open_backend(root=str(root))
    if backend is None:
        sys.exit('there is no GPU')
    (uuid,) = (gpu.uuid or '' for gpu in backend.gpus())
    taken = []
    for number in range(readings):
        if kind in {'working', 'clients'}:
            change(files, _TIME + number)
        begun = time.process_time()
        backend.follow(pids)
        reading = backend.read(uuid)
        backend.utilization(uuid)
        taken.append(time.process_time() - begun)
        if len(reading.processes or ()) != (0 if kind == 'none' else processes):
            sys.exit(f'{len(reading.processes or ())} processes were found')
    for child in children:
        child.kill()
        child.wait()
    return sorted(taken[1:])[len(taken) // 2 - 1] / processes  # the first lists all descriptors


def change(files: list[tuple[Path, int]], nanoseconds: int) -> None:
    """Write figures of now into the files."""
    for file, client in files:
        handle = os.open(file, os.O_WRONLY)
        os.pwrite(handle, _CLIENT.format(client=client, time=nanoseconds).encode(), 0)
        os.close(handle)


if __name__ == '__main__':
    print(json.dumps({'cpu': cost(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))}))
