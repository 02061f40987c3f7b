"""The grant of device files of NVIDIA GPUs to the control group of a process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.devices import control_groups
from gpu_tracker.cuda_probe.devices.grant import by_group, by_systemd
from gpu_tracker.cuda_probe.devices.grant.grant_plan import GrantPlan, apply, report
from gpu_tracker.errors import GrantError
from gpu_tracker.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.cuda_probe.devices.control_groups import DeviceNumbers, Group, Mount

__all__ = ['GrantPlan', 'apply', 'plan', 'report']


def plan(
    pid: int,
    *,
    devices: Sequence[DeviceNumbers] | None = None,
    proc: str = '/proc',
    files: str = '/dev',
    run_folder: str = '/run',
) -> GrantPlan:
    """Return what lets a process open the GPUs; nothing is changed yet.

    Where the devices controller of version 1 is there it is what limits the process, in a hybrid hierarchy too.

    :param devices: What it is to be allowed; None: what NVIDIA's drivers have registered.
    :param proc: Where processes are described.
    :param files: The folder of device files.
    :param run_folder: Where systemd keeps what lasts until the next start of the machine.
    :raises GrantError: It cannot be done, and why.
    """
    name, groups, mounted = _read_process(pid, proc)
    if devices is None:
        devices = control_groups.registered(proc)
    if not devices:
        raise GrantError("no NVIDIA device is registered in /proc/devices: the driver's modules are not loaded")
    limited = control_groups.devices_group(groups)
    if limited is not None:
        return by_group.plan(pid, name, limited, mounted, devices, files)
    unified = control_groups.unified_group(groups)
    if unified is None:
        raise GrantError(f'no control group limits the devices of process {pid}: this kernel has no devices controller')
    return by_systemd.plan(pid, name, unified, devices, run_folder)


def _read_process(pid: int, proc: str) -> tuple[str, list[Group], list[Mount]]:
    try:
        with open(f'{proc}/{pid}/comm', encoding='utf-8', errors='replace') as file:
            name = printable(file.read().rstrip('\n'))
        return name, control_groups.groups_of(pid, proc), control_groups.mounts(proc)
    except (FileNotFoundError, ProcessLookupError):
        raise GrantError(f'there is no process {pid}') from None
    except OSError as error:
        raise GrantError(f'process {pid} cannot be looked at: {error.strerror}') from error
