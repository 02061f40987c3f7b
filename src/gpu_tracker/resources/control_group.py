"""What the control group of the tracked process allows, and how many of its processes were killed for lack of memory.

The groups are those in which the process is at the start, and the limits those that they have then. Kills are counted
up to the end, once a second in between: a group may be removed before that.
"""

from __future__ import annotations

import os
import sys

from gpu_tracker.resources import FIRST, LAST, MIDDLE, Resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpu_tracker.control_groups.allowed import Limits
    from gpu_tracker.control_groups.oom_kills import OOMKills
    from gpu_tracker.control_groups.pressure import Pressure
    from gpu_tracker.processes.process import Process
    from gpu_tracker.resources.context import Context
    from gpu_tracker.result import usage
    from gpu_tracker.totals import ControlGroupTotals, Totals
    from gpu_tracker.units import Units

_INTERVAL = 1.0
"""Seconds between two readings of the counters."""


class ControlGroup(Resource):
    """The limits of a group, and its counters.

    :param limits: What it allows; None: that is not known.
    :param kills: The counter; None: it is not known which.
    :param root: The tracked process.
    :param pressure: The counters of CPU quota and swap; None: they are not known.
    """

    def __init__(
        self, limits: Limits | None, kills: OOMKills | None, root: Process, pressure: Pressure | None = None
    ) -> None:
        self._limits = limits
        self._kills = kills
        self._root = root
        self._pressure = pressure
        self._inode = None if kills is None else _inode_of(kills.folder)
        self._due = float('-inf')
        self._had_ended = False

    def sample(self, now: float, kind: str) -> None:
        """Read the counters, where it is time: the group may be gone as soon as the tracked process is."""
        if kind == FIRST and self._root.ended:  # a zombie has left its groups, and seems to be in the root
            self._limits = self._kills = self._pressure = None
        if self._kills is not None and (now >= self._due or kind != MIDDLE or self._root.ended != self._had_ended):
            self._due = now + _INTERVAL
            self._had_ended = self._root.ended
            self._kills.read()
            if self._pressure is not None:
                self._pressure.read(is_last=kind == LAST)

    def totals(self) -> dict[str, object]:
        """Return :class:`gpu_tracker.totals.ControlGroupTotals`."""
        limits, kills, pressure = self._limits, self._kills, self._pressure
        found: ControlGroupTotals = {
            'folder': None if kills is None else kills.folder,
            'memory_limit': None if limits is None else limits.memory,
            'cpu_limit': None if limits is None else limits.quota,
            'allowed_cores': None if limits is None else limits.cores,
            'oom_kills': None if kills is None else kills.count,
            'oom_kills_before': None if kills is None else kills.before,
            'inode': None if kills is None else self._inode,
            'throttled_seconds': None if pressure is None else pressure.throttled_seconds,
            'group_swap': None if pressure is None else pressure.group_swap,
            'shmem_growth': None if pressure is None else pressure.shmem_growth,
            'swapped_out': None if pressure is None else pressure.swapped_out,
        }
        return {**found}


def _inode_of(folder: str | None) -> int | None:
    """Return what tells a group from all others of the machine: the same folder is another one in another container."""
    try:
        return None if folder is None else os.stat(folder).st_ino
    except OSError:
        return None  # it has been removed


def open_resource(context: Context) -> ControlGroup:
    """Return the group of the tracked process, of which nothing is known on other systems than Linux."""
    root, machine = context.tree.root, context.machine
    if sys.platform != 'linux':
        return ControlGroup(None, None, root)
    try:
        from gpu_tracker.control_groups import places  # noqa: PLC0415 - in the sampler alone
        from gpu_tracker.control_groups.allowed import Limits, affinity_of, limits_in  # noqa: PLC0415 - as above
        from gpu_tracker.control_groups.oom_kills import OOMKills  # noqa: PLC0415 - as above
        from gpu_tracker.control_groups.pressure import Pressure  # noqa: PLC0415 - as above
    except (ImportError, OSError):  # no more files may be opened
        return ControlGroup(None, None, root)
    affinity = affinity_of(root.pid)
    try:
        groups, mounted = places.groups_of(root.pid), places.mounts()
    except OSError:
        return ControlGroup(Limits(None, None, affinity), None, root)
    limits = limits_in(groups, mounted, affinity).within(machine.ram_capacity, machine.cores)
    return ControlGroup(limits, OOMKills(groups, mounted), root, Pressure(groups, mounted))


def usage_of(totals: Totals, wanted: Units) -> dict[str, usage.ControlGroupUsage]:
    """Return the section ``control_group``; none where the machine alone limits the process, and nothing was killed."""
    group = totals['control_group']
    folder, kills = group.get('folder'), group.get('oom_kills')
    memory, cores = group.get('memory_limit'), group.get('allowed_cores')
    capacity, all_cores = totals['ram'].get('capacity'), totals['cpu'].get('cores')
    has_less_memory = memory is not None and (capacity is None or memory < capacity)
    has_fewer_cores = cores is not None and (all_cores is None or cores < all_cores)
    if not (has_less_memory or has_fewer_cores or kills):
        return {}
    from gpu_tracker.control_groups.oom_kills import sentence  # noqa: PLC0415 - as above
    from gpu_tracker.result import usage  # noqa: PLC0415 - most runs have no such section
    from gpu_tracker.system.terminal_text import printable  # noqa: PLC0415 - as above
    from gpu_tracker.units import from_bytes  # noqa: PLC0415 - as above

    section = usage.ControlGroupUsage(
        unit=wanted.ram,
        folder=None if folder is None else printable(folder),
        memory_limit=from_bytes(memory, wanted.ram),
        cpu_limit=group.get('cpu_limit'),
        allowed_cores=cores,
        oom_kills=kills,
        problem=sentence(kills) if kills else None,
    )
    return {'control_group': section}
