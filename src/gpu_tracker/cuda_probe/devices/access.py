"""The GPUs of this machine that a process can open: its device files, its control groups, and its open files."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from gpu_tracker.control_groups import places
from gpu_tracker.cuda_probe.binaries.region import LivingProcess
from gpu_tracker.cuda_probe.devices import control_groups
from gpu_tracker.cuda_probe.devices.control_groups import GPU_DRIVERS, registered
from gpu_tracker.cuda_probe.devices.enumeration import GpuAccess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_GPU_FILE = re.compile(r'nvidia([0-9]{1,4})')
_CAPABILITY_FILE = re.compile(r'nvidia-cap([0-9]{1,6})')
_CAPABILITY = re.compile(r'gpu([0-9]+)/gi([0-9]+)/(?:ci([0-9]+)/)?access ([0-9]+)')
_FOR_ALL = 0o006
_USUAL_MAJOR = 195
_MOST_DESCRIPTORS = 256


class AccessReader:
    """Reads what one process can open, and never what a later process of the same number can.

    :param pid: The process, which lives now.
    :param proc: Where processes are described.
    """

    def __init__(self, pid: int, proc: str = '/proc') -> None:
        self._pid = pid
        self._proc = proc
        self._process = LivingProcess(pid, proc)

    def __call__(self) -> GpuAccess:
        """Return what it can open now, as far as that is known for sure."""
        found = access_of(self._pid, self._proc)
        return found if self._process.is_there() else GpuAccess()


def access_of(
    pid: int,
    proc: str = '/proc',
    devices: str = '/dev',
    filters: Callable[[str], int | None] = control_groups.filters_on,
) -> GpuAccess:
    """Return what a process can open, as far as that is known for sure.

    :param proc: Where processes are described.
    :param devices: This process' own folder of device files.
    :param filters: Returns how many programs limit the devices of the control group with this folder, None: not known.
    """
    folder = f'{proc}/{pid}/root/dev'
    try:
        there = _numbers(_GPU_FILE, os.listdir(folder))
        held = _held(pid, proc)
        if not there or not (held >= there or _may_open(pid, proc, folder, there)):
            return GpuAccess()
        instances = _instances(folder, proc)
        if held >= there:
            return GpuAccess(there, instances)
        return GpuAccess(_allowed(pid, proc, there, is_own=_is_another(folder, devices), filters=filters), instances)
    except OSError:  # it has ended, or is somebody else's
        return GpuAccess()


def _allowed(
    pid: int, proc: str, there: frozenset[int], *, is_own: bool, filters: Callable[[str], int | None]
) -> frozenset[int] | None:
    """Return which GPUs its control groups leave of those whose files are there; None where that is not known.

    :param is_own: Whether it has device files of its own, as in a container: who makes one lets it open what it puts
        there, and nothing else.
    """
    groups = places.groups_of(pid, proc)
    limited = control_groups.devices_group(groups)
    if limited is not None and not limited.is_root:
        mounted = places.folder_of(limited, places.mounts(proc))
        if mounted is None:
            return there if is_own else None
        with open(f'{mounted}/devices.list', encoding='ascii') as file:
            rules = control_groups.parse(file.read())
        if control_groups.allows_all(rules):
            return there if is_own else None
        major = next((found.major for found in registered(proc, GPU_DRIVERS)), _USUAL_MAJOR)
        there = frozenset(minor for minor in there if control_groups.allows(rules, major, minor, 'rw'))
    unified = places.unified_group(groups)
    if unified is None or is_own:
        return there
    mounted = places.folder_of(unified, places.mounts(proc))
    return there if mounted is not None and filters(mounted) == 0 else None


def _held(pid: int, proc: str) -> frozenset[int]:
    """Return the GPUs whose device files the process holds open, which proves that it may."""
    targets = []
    for name in os.listdir(f'{proc}/{pid}/fd'):
        try:
            targets.append(os.readlink(f'{proc}/{pid}/fd/{name}'))
        except FileNotFoundError:  # closed meanwhile
            continue
    return _numbers(_GPU_FILE, (target.removeprefix('/dev/') for target in targets))


def uses_driver(pid: int, proc: str = '/proc') -> bool:
    """Return whether a process has a device file of NVIDIA's driver open, for more than to read figures by NVML."""
    folder = f'{proc}/{pid}/fd'
    try:
        names = os.listdir(folder)[:_MOST_DESCRIPTORS]
        files = {target for name in names if (target := os.readlink(f'{folder}/{name}')).startswith('/dev/nvidia')}
        if not files or '/dev/nvidia-uvm' in files:  # which NVML does not open
            return bool(files)
        with open(f'{proc}/{pid}/maps', 'rb') as maps:
            return b'/libnvidia-ml.so' not in maps.read()
    except OSError:  # it has ended, has closed one meanwhile, or is somebody else's
        return False


def _may_open(pid: int, proc: str, folder: str, there: Iterable[int]) -> bool:
    """Return whether permission bits leave the process all files; of one that they may keep out it is not known."""
    with open(f'{proc}/{pid}/status', encoding='utf-8', errors='replace') as file:
        users = next(line.split() for line in file if line.startswith('Uid:'))
    if users[2] == '0':
        return True
    return all(os.stat(f'{folder}/nvidia{minor}').st_mode & _FOR_ALL == _FOR_ALL for minor in there)


def _is_another(folder: str, devices: str) -> bool:
    theirs, ours = os.stat(folder), os.stat(devices)
    return (theirs.st_dev, theirs.st_ino) != (ours.st_dev, ours.st_ino)


def _instances(folder: str, proc: str) -> frozenset[tuple[int, int, int]] | None:
    """Return the MIG devices whose capability files are there; None where there are none, or no numbers.

    A MIG device takes two: that of its GPU instance and that of its compute instance.
    """
    try:
        files = _numbers(_CAPABILITY_FILE, os.listdir(f'{folder}/nvidia-caps'))
        with open(f'{proc}/driver/nvidia-caps/mig-minors', encoding='ascii') as file:
            lines = [found.groups() for found in map(_CAPABILITY.fullmatch, file.read().splitlines()) if found]
    except FileNotFoundError:
        return None
    whole = {(gpu, instance) for gpu, instance, part, minor in lines if part is None and int(minor) in files}
    return frozenset(
        (int(gpu), int(instance), int(part))
        for gpu, instance, part, minor in lines
        if part is not None and int(minor) in files and (gpu, instance) in whole
    )


def _numbers(pattern: re.Pattern[str], names: Iterable[str]) -> frozenset[int]:
    return frozenset(int(found.group(1)) for found in map(pattern.fullmatch, names) if found)
