"""Grants in version 2 of control groups, where systemd owns the filters of devices: systemd.resource-control(5)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.devices.grant.grant_plan import Command, GrantPlan, run
from gpu_tracker.errors import GrantError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.cuda_probe.devices.control_groups import DeviceNumbers, Group

_LEAVES = ('.service', '.scope')
_SLICE = '.slice'
_RIGHTS = 'rwm'

_WHOLE_UNIT = 'this concerns every process of the unit, until the machine or the unit is started anew.'
_OTHERS = 'filters that others have attached to the control group, as container runtimes do, stay and may still deny.'
_EARLIER = 'the file is there already: undoing removes what it says now too.'


def plan(pid: int, name: str, group: Group, devices: Sequence[DeviceNumbers], run_folder: str) -> GrantPlan:
    """Return the command for systemd.

    :param run_folder: Where systemd keeps what lasts until the next start of the machine: ``/run``.
    :raises GrantError: It cannot be done so.
    """
    if not os.path.isdir(f'{run_folder}/systemd/system'):
        raise GrantError(
            'devices of control groups of version 2 can be granted through systemd only, which does not run here'
        )
    unit = unit_of(group.path)
    if unit is None:
        raise GrantError(f'process {pid} is in the control group {group.path!r}, which is no unit of systemd')
    known = _properties(unit)
    _check(pid, unit, group, known)
    allowed = {tuple(entry.rsplit(' ', 1)) for entry in known.get('DeviceAllow', [])}
    specifiers = [f'char-{numbers.names[0]}' for numbers in devices]
    missing = [specifier for specifier in specifiers if (specifier, _RIGHTS) not in allowed]
    file = f'{run_folder}/systemd/system.control/{unit}.d/50-DeviceAllow.conf'
    assignments = [f'DeviceAllow={specifier} {_RIGHTS}' for specifier in missing]
    words = ('systemctl', 'set-property', '--runtime', '--', unit, *assignments)
    notes = (_WHOLE_UNIT, _OTHERS, *([_EARLIER] if os.path.exists(file) else []))
    return GrantPlan(
        pid,
        name,
        f'the unit {unit} of systemd',
        tuple(devices),
        (Command(words),) if missing else (),
        (Command(('rm', '--', file)).in_shell(), 'systemctl daemon-reload'),
        notes if missing else (_OTHERS,),
    )


def unit_of(path: str) -> str | None:
    """Return the unit of the system's own systemd that a control group belongs to.

    That is the first service or scope on the path: whatever stands below one was made by others, as by a user's own
    systemd or one in a container, whose units have no filters or are not known to this one. A process directly in a
    slice belongs to the innermost slice.
    """
    slices = None
    for part in path.strip('/').split('/'):
        name = part.removeprefix('_')  # systemd marks names so that the kernel could take for its own files
        if name.endswith(_LEAVES):
            return name
        if not name.endswith(_SLICE):
            break
        slices = name
    return slices


def _properties(unit: str) -> dict[str, list[str]]:
    """Return systemd's properties of a unit: name -> values."""
    names = 'LoadState,ControlGroup,DevicePolicy,DeviceAllow'
    known: dict[str, list[str]] = {}
    for line in run(('systemctl', 'show', f'--property={names}', '--', unit)).splitlines():
        name, _, value = line.partition('=')
        if value:
            known.setdefault(name, []).append(value)
    return known


def _check(pid: int, unit: str, group: Group, known: dict[str, list[str]]) -> None:
    """Refuse where a grant would have no effect, or a bad one.

    :raises GrantError: So it is.
    """
    if known.get('LoadState') != ['loaded']:
        raise GrantError(f'systemd does not know the unit {unit} that process {pid} is in')
    place = known.get('ControlGroup', [group.path])[0]
    if f'{group.path}/'.startswith(f'{place}/'):
        # Under the policy "auto" a first DeviceAllow= would deny everything that it does not name.
        if known.get('DevicePolicy', ['auto']) == ['auto'] and not known.get('DeviceAllow'):
            raise GrantError(
                f'systemd denies the unit {unit} no device (DevicePolicy=auto without DeviceAllow=), and a first '
                'DeviceAllow= would deny it all others: nothing to grant. If the process cannot open a GPU, something '
                'else keeps it from that, such as the permissions of the file, or a filter of a container runtime'
            )
        return
    raise GrantError(f'the unit {unit} has the control group {place}, and process {pid} is in {group.path}')
