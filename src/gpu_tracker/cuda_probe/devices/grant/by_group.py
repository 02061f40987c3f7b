"""Grants in version 1 of control groups: its devices controller, cgroup-v1/devices in the kernel documentation."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.devices import control_groups
from gpu_tracker.cuda_probe.devices.grant.grant_plan import GrantPlan, Write
from gpu_tracker.errors import GrantError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpu_tracker.cuda_probe.devices.control_groups import DeviceNumbers, Group, Mount, Rule

_LIST = 'devices.list'
_ALLOW = 'devices.allow'
_DENY = 'devices.deny'

_WHOLE_GROUP = 'this concerns every process of the control group.'
_UNSEEN = (
    'the group allows all devices but for exceptions, which the kernel does not show: some of this may have been '
    'allowed before, and undoing it denies that too.'
)


def plan(
    pid: int, name: str, group: Group, mounted: Sequence[Mount], devices: Sequence[DeviceNumbers], files: str
) -> GrantPlan:
    """Return what is to be written to the group's ``devices.allow``.

    :param files: The folder of device files.
    :raises GrantError: It cannot be done so.
    """
    if group.is_root:
        raise GrantError(f'process {pid} is in the root control group, which denies no device: nothing to grant')
    folder = control_groups.folder_of(group, mounted)
    if folder is None:
        raise GrantError(
            f'the control group {group.path!r} of process {pid} is limited by the devices controller of cgroup '
            'version 1, whose folder is not to be seen from here: mount it, or run this outside of the container'
        )
    rules = _rules(folder)
    notes = (_WHOLE_GROUP, _UNSEEN) if control_groups.allows_all(rules) else (_WHOLE_GROUP,)
    if control_groups.allows_all(rules):
        given = [line for numbers in devices for line in _with_each_file(numbers, files)]
        taken = given
    else:
        missing = [numbers for numbers in devices if not control_groups.allows(rules, numbers.major)]
        given = [numbers.rule for numbers in missing]
        taken = [f'c {each.major}:* {control_groups.missing_rights(rules, each.major)}' for each in missing]
        _check_above(folder, group, missing)
    return GrantPlan(
        pid,
        name,
        f'the control group {folder} (version 1)',
        tuple(devices),
        tuple(Write(f'{folder}/{_ALLOW}', line) for line in given),
        tuple(Write(f'{folder}/{_DENY}', line).in_shell() for line in taken),
        notes if given else (),
    )


def _rules(folder: str) -> list[Rule]:
    try:
        with open(f'{folder}/{_LIST}', encoding='ascii') as file:
            return control_groups.parse(file.read())
    except OSError as error:
        raise GrantError(f'cannot read {folder}/{_LIST}: {error.strerror}') from error


def _check_above(folder: str, group: Group, devices: Iterable[DeviceNumbers]) -> None:
    """Refuse what a group above denies, naming the uppermost: only there it can begin to be allowed.

    :raises GrantError: One does.
    """
    above = [folder]
    for _ in range(group.path.strip('/').count('/')):
        above.append(os.path.dirname(above[-1]))
    for upper in reversed(above[1:]):
        if not os.path.exists(f'{upper}/{_LIST}'):  # above the mount point of a container
            continue
        rules = _rules(upper)
        denied = [numbers for numbers in devices if not control_groups.allows(rules, numbers.major)]
        if denied:
            labels = '; '.join(numbers.label for numbers in denied)
            commands = ''.join(f'\n  {Write(f"{upper}/{_ALLOW}", numbers.rule).in_shell()}' for numbers in denied)
            raise GrantError(
                f'the control group {folder} cannot allow what the one above it, {upper}, denies: {labels}. '
                f'Allow it there first, which concerns all groups below:{commands}'
            )


def _with_each_file(numbers: DeviceNumbers, files: str) -> list[str]:
    """Return rules for all devices of a major number, and for each that has a file.

    In a group that allows everything a rule takes away just the exception of the very same numbers.
    """
    minors = set()
    for folder in (files, f'{files}/nvidia-caps'):
        for name in _names(folder):
            try:
                found = os.stat(f'{folder}/{name}')
            except OSError:  # it is gone, or a link to nothing
                continue
            if stat.S_ISCHR(found.st_mode) and os.major(found.st_rdev) == numbers.major:
                minors.add(os.minor(found.st_rdev))
    return [numbers.rule, *(f'c {numbers.major}:{minor} {control_groups.ALL_RIGHTS}' for minor in sorted(minors))]


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
