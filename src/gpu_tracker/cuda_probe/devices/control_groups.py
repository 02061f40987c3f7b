"""The devices that the control groups of a process let it open, and the container that they stand for.

Numbers of devices: ``/proc/devices``. Groups of version 1 have rules, ``devices.list``: kernel documentation,
cgroup-v1/devices. Groups of version 2 have BPF programs: bpf(2), linux/bpf.h. What such a program allows is not visible
from outside, only that there is one.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.control_groups.places import group_with
from gpu_tracker.cuda_probe.engine import libbpf

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpu_tracker.control_groups.places import Group

DEVICES = 'devices'
"""The controller of version 1 that lets a group open device files."""

_CONTAINER = re.compile(r'(?:/|-|:)([0-9a-f]{64}|[0-9a-f]{32}-[0-9]{1,10})(?=\.scope|/|$)')


def devices_group(groups: Iterable[Group]) -> Group | None:
    """Return the group of version 1 that limits devices; None where there is none."""
    return group_with(groups, DEVICES)


def accounting_group(groups: Iterable[Group]) -> Group | None:
    """Return the group that a process is accounted to: that of version 2, or of memory where that has the processes.

    None where there is none. Machines with both versions may have all processes in the root of version 2.
    """
    known = [group for group in groups if not group.controllers or 'memory' in group.controllers]
    known.sort(key=lambda group: (group.is_root, bool(group.controllers)))
    return known[0] if known else None


def container_of(path: str) -> str | None:
    """Return the ID in the path of a container's group, as Docker, containerd, CRI-O, Podman and ECS write it.

    None where there is none in it: no container, or a group that is seen from inside of it.
    """
    found = _CONTAINER.findall(path)
    return found[-1] if found else None


ALL_RIGHTS = 'rwm'
DRIVERS = ('nvidia', 'nvidia-frontend', 'nvidiactl', 'nvidia-modeset', 'nvidia-uvm', 'nvidia-caps')
"""What a CUDA program opens: GPUs (``nvidia-frontend`` in older drivers) and their control, display modes, unified
memory, and the capabilities that MIG devices need. All but the first have numbers that change with the machine."""
GPU_DRIVERS = ('nvidia', 'nvidia-frontend')
"""Those of the device files ``nvidiaN``."""


class DeviceNumbers(NamedTuple):
    """All device files of one major number."""

    major: int
    names: tuple[str, ...]
    """The drivers that have it."""

    @property
    def rule(self) -> str:
        """Them, and the right to read, write and make them, as control groups of version 1 write it."""
        return f'c {self.major}:* rwm'

    @property
    def label(self) -> str:
        """Their description for people."""
        return f'{", ".join(self.names)} (character devices {self.major}:*)'


def registered(proc: str = '/proc', drivers: tuple[str, ...] = DRIVERS) -> tuple[DeviceNumbers, ...]:
    """Return the numbers of those of the drivers that are loaded, by major number: ``/proc/devices``.

    :raises OSError: That cannot be read.
    """
    with open(f'{proc}/devices', encoding='ascii', errors='replace') as file:
        characters = file.read().partition('Block devices:')[0]
    names: dict[int, list[str]] = {}
    for line in characters.splitlines():
        major, _, name = line.strip().partition(' ')
        if major.isdecimal() and name in drivers:
            names.setdefault(int(major), []).append(name)
    return tuple(DeviceNumbers(major, tuple(names[major])) for major in sorted(names))


class Rule(NamedTuple):
    """Device files that a group may open; None: all of them."""

    kind: str
    """``c`` character, ``b`` block, ``a`` all."""
    major: int | None
    minor: int | None
    rights: str
    """Of ``r`` read, ``w`` write and ``m`` make."""

    def covers(self, major: int, minor: int | None, rights: str) -> bool:
        """Return whether character devices are among them; ``minor`` None: all those of ``major``."""
        is_it = self.kind in 'ac' and self.major in {None, major} and self.minor in {None, minor}
        return is_it and set(rights) <= set(self.rights)


def parse(text: str) -> list[Rule]:
    """Return the rules of the file's text."""
    rules = []
    for line in text.splitlines():
        kind, numbers, rights = line.split(' ')
        major, _, minor = numbers.partition(':')
        rules.append(Rule(kind, _number(major), _number(minor), rights))
    return rules


def allows_all(rules: list[Rule]) -> bool:
    """Return whether a group may open everything but for exceptions: the kernel does not show those of such a group."""
    return any(rule.kind == 'a' for rule in rules)


def allows(rules: list[Rule], major: int, minor: int | None = None, rights: str = ALL_RIGHTS) -> bool:
    """Return whether a group may open character devices, as far as the rules show it."""
    return any(rule.covers(major, minor, rights) for rule in rules)


def missing_rights(rules: list[Rule], major: int) -> str:
    """Return the rights that a rule of exactly all devices of ``major`` would add, and so what its undoing removes."""
    same = (rule for rule in rules if (rule.kind, rule.major, rule.minor) == ('c', major, None))
    there = {right for rule in same for right in rule.rights}
    return ''.join(right for right in ALL_RIGHTS if right not in there)


def _number(text: str) -> int | None:
    return None if text == '*' else int(text)


def filters_on(folder: str) -> int | None:
    """Return how many programs limit the devices of a group; None where that is not readable, as without CAP_NET_ADMIN.

    :param folder: The group's folder.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:  # it has been removed
        return None
    try:
        return libbpf.count_device_filters(descriptor)
    except OSError:
        return None
    finally:
        os.close(descriptor)
