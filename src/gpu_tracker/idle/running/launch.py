"""What a program is started with: its command and variables, made from its section and the GPUs that it gets. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpu_tracker.errors import GpuTrackerError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_tracker.idle.config.idle_settings import Program
    from gpu_tracker.idle.observation import SeenGpu


class LaunchError(GpuTrackerError):
    """A program cannot be started with these GPUs."""


@dataclass(frozen=True, slots=True)
class Orders:
    """A program that is to run now.

    :ivar program: Its section.
    :ivar command: Its words, ``{gpu}`` replaced.
    :ivar environment: Its variables; a change of user and the mark of its monitor come on top of them.
    :ivar gpus: Those that it runs on.
    :ivar reason: Why it is started, for its log; may be empty.
    """

    program: Program
    command: tuple[str, ...]
    environment: Mapping[str, str]
    gpus: tuple[SeenGpu, ...]
    reason: str = ''

    @property
    def uuids(self) -> tuple[str, ...] | None:
        """Of the GPUs; None where not all are known, or some are MIG devices, whose utilization nobody tells."""
        found = [seen.uuid for seen in self.gpus if seen.uuid is not None and seen.gpu.mig is None]
        return tuple(found) if found and len(found) == len(self.gpus) else None

    @property
    def gpu_names(self) -> str:
        """Such as ``GPU 0``, or ``GPUs 0, 5:1``."""
        return f'GPU{"" if len(self.gpus) == 1 else "s"} {", ".join(str(seen.gpu) for seen in self.gpus)}'


def orders_for(program: Program, gpus: Sequence[SeenGpu], inherited: Mapping[str, str], reason: str = '') -> Orders:
    """Return the orders to start ``program`` on ``gpus``.

    :param inherited: The monitor's own variables.
    :raises LaunchError: There is no way to name these GPUs to the program.
    """
    return Orders(
        program=program,
        command=command_for(program, gpus),
        environment={
            **inherited,
            **dict(program.environment),
            'CUDA_VISIBLE_DEVICES': visible_devices(gpus, use_uuids=program.use_uuids),
            'CUDA_DEVICE_ORDER': 'PCI_BUS_ID',
        },
        gpus=tuple(gpus),
        reason=reason,
    )


def visible_devices(gpus: Sequence[SeenGpu], *, use_uuids: bool) -> str:
    """Return the value of CUDA_VISIBLE_DEVICES: ``0,1``, or UUIDs where asked for, known of all, or needed.

    MIG devices have no other name there, and CUDA takes either numbers or UUIDs.

    :raises LaunchError: A UUID is needed and not known.
    """
    needed = any(seen.gpu.mig is not None for seen in gpus)
    uuids = [seen.uuid for seen in gpus if seen.uuid is not None]
    if (use_uuids or needed) and len(uuids) == len(gpus):
        return ','.join(uuids)
    if needed:
        unknown = next(str(seen.gpu) for seen in gpus if seen.uuid is None)
        raise LaunchError(f'the UUID of GPU {unknown} is not known, and CUDA knows MIG devices by no other name')
    return ','.join(str(seen.gpu) for seen in gpus)


def command_for(program: Program, gpus: Sequence[SeenGpu]) -> tuple[str, ...]:
    """Return the words of ``program`` with ``{gpu}`` replaced by its GPUs, such as ``0`` or ``0,5:1``."""
    names = ','.join(str(seen.gpu) for seen in gpus)
    return tuple(word.replace('{gpu}', names) for word in program.command)
