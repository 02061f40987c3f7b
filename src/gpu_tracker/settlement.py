"""The totals of a command corrected by what the kernel told when it was waited for. Pure.

A command that lived for a few milliseconds was seen a few times at best; ``wait4`` knows its CPU time exactly, and
often its peak.
"""

from __future__ import annotations

from gpu_tracker.sources.reading import larger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpu_tracker.result import Totals


def settle(totals: Totals, cpu_seconds: float, largest_peak: int, orphans_seconds: float | None = None) -> None:
    """Correct ``totals`` in place.

    :param cpu_seconds: CPU time of the command and of the children that it has waited for, since its process exists.
    :param largest_peak: The bytes of the largest among these processes. It counts the launcher's own memory, of which
        the command was a copy before its exec, so that it is a value only above the launcher's peak; below, it is a
        bound.
    :param orphans_seconds: CPU time of the descendants that the launcher has adopted and waited for, and of the
        children that these have waited for; None where that is not known.
    """
    record = totals['record']
    cpu = totals['cpu']
    used = max(0.0, cpu_seconds - record['cpu_before'])
    main = min(cpu['main'][0], used) if record['has_reaped'] else used
    cpu['main'][0] = main
    of_children = used - main
    of_others = record['unreaped']
    if orphans_seconds is not None:
        of_others += orphans_seconds - record['adopted']
    of_descendants = max(0.0, of_others) + of_children
    if record.get('has_clocks'):  # some of them were waited for by nobody who was told of their time
        of_descendants = max(of_descendants, cpu['descendants'][0])
    cpu['descendants'][0] = of_descendants
    cpu['combined'][0] = main + cpu['descendants'][0]

    ram = totals['ram']
    only_process = not record['has_reaped'] and not ram['descendants'][0]
    launcher_peak = record['launcher_peak']
    if launcher_peak is not None and largest_peak > launcher_peak:
        ram['combined'][0] = larger(ram['combined'][0], largest_peak)
        if only_process:
            ram['main'][0] = larger(ram['main'][0], largest_peak)
    known = ram['upper'][0]
    ram['upper'][0] = larger(largest_peak if known is None else min(known, largest_peak), ram['main'][0])
    if only_process:
        ram['upper'][2] = ram['upper'][0]
