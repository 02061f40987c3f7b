"""The grant of device files of NVIDIA GPUs to the control group of a process.

Version 1 of control groups: the devices controller, cgroup-v1/devices in the kernel documentation. Version 2: systemd
owns the filters of devices, systemd.resource-control(5).
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from gpu_tracker.control_groups import places
from gpu_tracker.cuda_probe.devices import control_groups
from gpu_tracker.cuda_probe.devices.grant_plan import Command, GrantPlan, Write, run
from gpu_tracker.errors import GrantError
from gpu_tracker.system.terminal_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpu_tracker.control_groups.places import Group, Mount
    from gpu_tracker.cuda_probe.devices.control_groups import DeviceNumbers, Rule


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
        return _group_plan(pid, name, limited, mounted, devices, files)
    unified = places.unified_group(groups)
    if unified is None:
        raise GrantError(f'no control group limits the devices of process {pid}: this kernel has no devices controller')
    return _unit_plan(pid, name, unified, devices, run_folder)


def _read_process(pid: int, proc: str) -> tuple[str, list[Group], list[Mount]]:
    try:
        with open(f'{proc}/{pid}/comm', encoding='utf-8', errors='replace') as file:
            name = printable(file.read().rstrip('\n'))
        return name, places.groups_of(pid, proc), places.mounts(proc)
    except (FileNotFoundError, ProcessLookupError):
        raise GrantError(f'there is no process {pid}') from None
    except OSError as error:
        raise GrantError(f'process {pid} cannot be read: {error.strerror}') from error


_LIST = 'devices.list'
_ALLOW = 'devices.allow'
_DENY = 'devices.deny'

_WHOLE_GROUP = 'this concerns every process of the control group.'
_UNSEEN = (
    'the group allows all devices but for exceptions, which the kernel does not show: some of this may have been '
    'allowed before, and undoing it denies that too.'
)


def _group_plan(
    pid: int, name: str, group: Group, mounted: Sequence[Mount], devices: Sequence[DeviceNumbers], files: str
) -> GrantPlan:
    """Return what is to be written to the group's ``devices.allow``.

    :param files: The folder of device files.
    :raises GrantError: It cannot be done so.
    """
    if group.is_root:
        raise GrantError(
            f'process {pid} is in the root control group, which allows all devices: there is nothing to grant'
        )
    folder = places.folder_of(group, mounted)
    if folder is None:
        raise GrantError(
            f'the devices controller of cgroup version 1 limits process {pid} in the control group {group.path!r}, but '
            'this controller is not mounted here: mount the controller, or run this command outside the container'
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
                f'the control group {folder} cannot allow devices that its parent group {upper} denies: {labels}. '
                f'Allow these devices in the parent first, which affects all child groups:{commands}'
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


_LEAVES = ('.service', '.scope')
_SLICE = '.slice'
_RIGHTS = 'rwm'

_WHOLE_UNIT = 'this concerns every process of the unit, until the machine or the unit is started anew.'
_OTHERS = 'filters that others have attached to the control group, as container runtimes do, stay and may still deny.'
_EARLIER = 'the file is there already: undoing removes what it says now too.'


def _unit_plan(pid: int, name: str, group: Group, devices: Sequence[DeviceNumbers], run_folder: str) -> GrantPlan:
    """Return the command for systemd.

    :param run_folder: Where systemd keeps what lasts until the next start of the machine: ``/run``.
    :raises GrantError: It cannot be done so.
    """
    if not os.path.isdir(f'{run_folder}/systemd/system'):
        raise GrantError(
            'in control groups of version 2, only systemd can grant devices, and systemd does not run here'
        )
    unit = unit_of(group.path)
    if unit is None:
        raise GrantError(
            f'process {pid} is in the control group {group.path!r}, which does not belong to a unit of systemd'
        )
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
        raise GrantError(f'systemd has not loaded the unit {unit} of process {pid}')
    known_group = known.get('ControlGroup', [group.path])[0]
    if f'{group.path}/'.startswith(f'{known_group}/'):
        # Under the policy "auto" a first DeviceAllow= would deny everything that it does not name.
        if known.get('DevicePolicy', ['auto']) == ['auto'] and not known.get('DeviceAllow'):
            raise GrantError(
                f'systemd allows the unit {unit} all devices (DevicePolicy=auto without DeviceAllow=): there is '
                'nothing to grant. A first DeviceAllow= would deny all other devices. If the process cannot open a '
                'GPU, check the permissions of the device files, and the filters of a container runtime'
            )
        return
    raise GrantError(
        f'systemd reports the control group {known_group} for the unit {unit}, but process {pid} is in {group.path}'
    )
