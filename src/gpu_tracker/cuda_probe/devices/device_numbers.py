"""The numbers by which the kernel knows the device files of NVIDIA GPUs."""

from __future__ import annotations

from typing import NamedTuple

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
        """What people are told."""
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
