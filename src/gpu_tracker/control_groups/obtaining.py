"""Where a control group for a run can be had: the ways to one, tried in order, and why there is none.

1. Below this process' own group of version 2, which gives its controllers on.
2. Below its groups of version 1, for the controllers that are still there; beside it, where there is one, a group of
   version 2.
3. In a scope of systemd.
4. A group of version 2 without controllers, which counts CPU time alone.
"""

from __future__ import annotations

import errno
import os

from gpu_tracker.control_groups import making, marks
from gpu_tracker.control_groups.delegation import Delegation
from gpu_tracker.control_groups.own_group import BOTH, SCOPE, V1, V2, OwnGroup
from gpu_tracker.control_groups.places import folder_of, group_with, groups_of, mounts, unified_group
from gpu_tracker.control_groups.scopes import NoScopeError, Scope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpu_tracker.control_groups.places import Group, Mount

_LEGACY = ('memory', 'pids', 'blkio')
_LEGACY_CPU = 'cpuacct'
_REASONS = {
    errno.EROFS: 'the control groups are mounted read-only, as in most containers',
    errno.EACCES: 'this user may make none in {}',
    errno.EPERM: 'this user may make none in {}',
}


class NoGroupError(Exception):
    """No group is to be had; the text says why, as a part of a sentence."""


def obtain(
    pid: int, *, proc: str = '/proc', open_scope: Callable[[int], Scope] = Scope, ours: Sequence[int] = ()
) -> OwnGroup:
    """Return a new group with the process in it.

    :param pid: A process that was forked, and does nothing yet.
    :param ours: Others beside it and this one that may be moved.
    :raises NoGroupError: None is to be had; all is as it was.
    """
    reasons: list[str] = []
    try:
        groups, mounted = groups_of('self', proc), mounts(proc)
    except OSError:
        groups, mounted = [], []
    if not mounted:
        raise NoGroupError('no control groups are mounted here')
    delegation = _delegation(groups, mounted, {os.getpid(), pid, *ours}, reasons)
    has_memory = delegation is not None and 'memory' in delegation.controllers
    legacy = {} if has_memory else _make_legacy(groups, mounted, delegation is not None, reasons)
    group = None
    if not has_memory and 'memory' not in legacy:
        group = _in_scope(pid, open_scope, reasons)
    if group is None:
        group = _made(delegation, legacy, reasons)
    else:
        _discard(delegation, legacy)
    if group is None:
        raise NoGroupError('; '.join(dict.fromkeys(reasons)))
    try:
        group.enter(pid)
    except OSError as error:
        group.remove()
        raise NoGroupError('; '.join([*reasons, f'the command cannot be put into it: {error.strerror}'])) from error
    return group


def _delegation(groups: list[Group], mounted: list[Mount], ours: set[int], reasons: list[str]) -> Delegation | None:
    """Return this process' group of version 2, ready for others; None where none can be made in it."""
    own = unified_group(groups)
    folder = None if own is None else folder_of(own, mounted)
    if folder is None:
        return None
    try:
        found = Delegation(folder, ours)
    except OSError as error:
        reasons.append(_reason(error, folder))
        return None
    if found.strangers:
        pids = ', '.join(str(pid) for pid in found.strangers[:3]) + (', ...' if len(found.strangers) > 3 else '')  # noqa: PLR2004
        reasons.append(f'{folder} has other processes in it (pid {pids}), so it can give no controllers')
    return found


def _make_legacy(groups: list[Group], mounted: list[Mount], has_cpu: bool, reasons: list[str]) -> dict[str, str]:  # noqa: FBT001
    """Return the folders of new groups of version 1, by controller, as far as they can be made."""
    made: dict[str, str] = {}
    for controller in _LEGACY if has_cpu else (*_LEGACY, _LEGACY_CPU):
        own = group_with(groups, controller)
        folder = None if own is None else folder_of(own, mounted)
        if folder is None:
            if own is not None and controller == _LEGACY[0]:  # once, as below
                reasons.append(f'the control group for {controller} is not mounted here')
            continue
        _remove_abandoned(folder)
        new = f'{folder}/{marks.own_name()}'
        try:
            os.mkdir(new)
        except FileExistsError:
            pass  # two controllers in one hierarchy, as cpu,cpuacct
        except OSError as error:
            if controller == _LEGACY[0]:  # once: they stand side by side
                reasons.append(_reason(error, folder))
            continue
        made[controller] = new
    return made


def _in_scope(pid: int, open_scope: Callable[[int], Scope], reasons: list[str]) -> OwnGroup | None:
    try:
        scope = open_scope(pid)
    except NoScopeError as error:
        reasons.append(str(error))
        return None
    try:
        folder = scope.delegation.make()
    except OSError as error:
        scope.close()
        reasons.append(_reason(error, scope.delegation.folder))
        return None
    return OwnGroup(folder, {}, SCOPE, scope.close)


def _made(delegation: Delegation | None, legacy: dict[str, str], reasons: list[str]) -> OwnGroup | None:
    unified = None
    if delegation is not None:
        try:
            unified = delegation.make()
        except OSError as error:
            reasons.append(_reason(error, delegation.folder))
            delegation.close()
            delegation = None
    if unified is None and not legacy:
        return None
    made_in = V1 if unified is None else (BOTH if legacy else V2)
    return OwnGroup(unified, legacy, made_in, _nothing if delegation is None else delegation.close, notes=reasons)


def _discard(delegation: Delegation | None, legacy: dict[str, str]) -> None:
    for folder in legacy.values():
        making.remove(folder)
    if delegation is not None:
        delegation.close()


def _remove_abandoned(folder: str) -> None:
    """Remove the groups of version 1 that trackers have left which were killed; those in a run's group go with that."""
    if marks.is_of_run(folder):
        return
    for name in os.listdir(folder):
        if marks.is_abandoned(name) and making.is_empty(f'{folder}/{name}'):
            making.remove(f'{folder}/{name}', 0)


def _reason(error: OSError, folder: str) -> str:
    known = _REASONS.get(error.errno or 0)
    return f'none can be made in {folder}: {error.strerror}' if known is None else known.format(folder)


def _nothing() -> None:
    pass
