"""I/O: bytes read and written, page faults and context switches; part of the result where it is asked for.

On Linux bytes come from ``/proc/PID/io``, see proc_pid_io(5). The kernel adds those of a child to its parent's when
that waits for it. So the sum over all members is exact, as CPU time is, whatever comes and goes between two samples,
but for what no member has waited for. What of it is the root's own is in ``/proc/PID/task/TID/io`` of its threads: from
the first child on that it has waited for, what threads do that end between two samples counts for its descendants.

Context switches are not in that file, and the counters of a process that has ended are lost but to who waits for it. So
they are known where the kernel reports them of all: to the command line of its command with wait4(2), and to a process
of itself with getrusage(2).
"""

from __future__ import annotations

import sys
import time

from gpu_tracker.resources import GROUPS, first_of
from gpu_tracker.resources.io.groups import FIELDS, Io, UnknownIo
from gpu_tracker.resources.io.readers import IoFiles, parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from gpu_tracker.resources.context import Context
    from gpu_tracker.resources.io.portable import PortableIo
    from gpu_tracker.result import usage
    from gpu_tracker.totals import Group, Totals
    from gpu_tracker.units import Units

_SIZES = ('bytes', 'rates')


def open_resource(context: Context) -> Io | PortableIo:
    """Return the I/O of the tree."""
    if context.config['reader'] == 'proc':
        try:
            with open('/proc/self/io', 'rb') as file:
                parsed(file.read())
            return Io(context.tree, IoFiles(), time.monotonic)
        except (OSError, ValueError):
            pass  # the kernel was built without, or container software shows another file
    elif sys.platform != 'linux':
        from gpu_tracker.resources.io.portable import PortableIo, PsutilFigures  # noqa: PLC0415 - imports psutil

        return PortableIo(context.tree, PsutilFigures())
    return UnknownIo(context.tree)


def usage_of(totals: Totals, wanted: Units) -> dict[str, usage.IOUsage]:
    """Return the section ``io`` of the result."""
    from gpu_tracker import units  # noqa: PLC0415 - the sampler needs none of it
    from gpu_tracker.result import usage  # noqa: PLC0415 - the sampler needs none of it

    def of_group(group: Group) -> usage.IOValues:
        found: Mapping[str, Any] = totals['io'].get(group, {})
        values: dict[str, Any] = {}
        for part, names in FIELDS.items():
            stored = first_of(found.get(part), len(names))
            sizes = [units.from_bytes(size, wanted.ram) for size in stored] if part in _SIZES else stored
            values |= zip(names, sizes, strict=True)
        return usage.IOValues(**values)

    return {'io': usage.IOUsage(wanted.ram, *map(of_group, GROUPS))}
