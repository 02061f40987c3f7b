"""The result of a run, made from its totals in the units asked for."""

from __future__ import annotations

from gpu_tracker import units
from gpu_tracker.job import checked
from gpu_tracker.resources import RESOURCES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gpu_tracker.result.usage import ResourceUsage
    from gpu_tracker.totals import Totals
    from gpu_tracker.units import Units

WRONG_TOTALS = (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError)
"""What :func:`build` raises if totals from a file are wrong."""


def build(totals: Totals, wanted: Units) -> ResourceUsage:
    """Return what the totals of a run say.

    :param totals: Totals of any version. A missing figure is unknown; an additional one is ignored.
    """
    from gpu_tracker.result import usage  # noqa: PLC0415 - dataclasses cost 15 ms, which the sampler does without

    tracked = totals['record'].get('tracked_seconds')
    time = totals['seconds'] if tracked is None else tracked
    job = totals.get('job')
    sections: dict[str, Any] = {} if job is None else {'job': usage.JobIdentity(**checked(job))}
    if 'termination_reason' in totals:
        from gpu_tracker.limits import known  # noqa: PLC0415 - few runs have one

        sections['termination_reason'] = known(totals['termination_reason'])
    if 'exceeded_limits' in totals:
        from gpu_tracker.limits import all_known  # noqa: PLC0415 - as above

        sections['exceeded_limits'] = all_known(totals['exceeded_limits'])
    sections['lower_bounds'] = tuple(totals.get('lower_bounds', ()))
    if 'own_group' in totals:
        from gpu_tracker.control_groups import own_group  # noqa: PLC0415 - only where there is one

        sections['own_group'] = own_group.usage_of(totals['own_group'], wanted)
    for entry in RESOURCES:
        if entry.name in totals:
            sections |= entry.load().usage_of(totals, wanted)
    return usage.ResourceUsage(
        compute_time=usage.ComputeTime(unit=wanted.time, time=units.from_seconds(time, wanted.time)), **sections
    )
