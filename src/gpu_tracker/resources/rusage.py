"""Corrections of a run's totals at its end: by what the kernel says then, and so that no two contradict.

A process that lived for a few milliseconds was seen a few times at best. ``wait4`` and ``getrusage`` know its CPU time
exactly, and often its peak. Where one figure is raised by these, the others that it belongs to are raised with it.
"""

from __future__ import annotations

from gpu_tracker.processes.stat import INEXACT
from gpu_tracker.resources import GROUPS, larger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpu_tracker.totals import Group, RamTotals, Totals

_TOTAL, _PRIVATE, _SHARED = 0, 1, 2
_SLACK = max(1 << 22, INEXACT)
"""Bytes by which marks may be inexact."""


def settle_command(totals: Totals, cpu_seconds: float, largest_peak: int, orphans_seconds: float | None = None) -> None:
    """Correct the totals of a command, in place, when it has been waited for.

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
    if record['has_clocks']:  # some of them were waited for by nobody who got their time
        of_descendants = max(of_descendants, cpu['descendants'][0])
    cpu['descendants'][0] = of_descendants
    cpu['combined'][0] = main + cpu['descendants'][0]

    ram = totals['ram']
    upper = ram['upper']
    launcher_peak = record['launcher_peak']
    # Pages that a process has mapped twice are in its peak twice: then it proves nothing.
    if launcher_peak is not None and largest_peak > launcher_peak and not record['doubled']:
        if not record['has_descendants']:
            _raise(ram, 'main', largest_peak)
        elif upper['main'] is not None and largest_peak > upper['main'] + _SLACK:
            _raise_descendants(ram, largest_peak)
        elif upper['descendants'] is not None and largest_peak > upper['descendants'] + _SLACK:
            _raise(ram, 'main', largest_peak)
        _raise(ram, 'combined', largest_peak)
        _withdraw_what_does_not_add_up(ram)
    _bound_each(totals, largest_peak)
    upper['main'] = largest_peak if upper['main'] is None else min(upper['main'], largest_peak)
    if not record['has_descendants']:
        upper['combined'] = upper['main']
    doubt_bounds(totals, orphans_seconds)
    reconcile(totals)


def settle_children(totals: Totals, before: int, after: int, own_faults: int = 0) -> None:
    """Correct the totals of a program that has tracked itself, in place, by the largest child that it has waited for.

    :param before: The largest peak of a child, or of a child's children, that it had waited for before the tracking
        began, in bytes. vfork and posix_spawn carry the peak of the program itself over to a child.
    :param after: The same at the end.
    :param own_faults: Page faults of children that were waited for meanwhile and belong to other trackers
        in the program. Where there were no others it had no descendants.
    """
    ram = totals['ram']
    main = ram['upper']['main']
    record = totals['record']
    if not ram['descendants'][_TOTAL] and 0 < own_faults == record['faults_of_waited_for']:
        record['has_descendants'] = False
    # A child that was there at the start may have peaked before, or have waited for one that has.
    proves_nothing = record['older_has_ended'] or record['doubled']
    if main is not None and after > max(main, before) + _SLACK and not proves_nothing:
        record['has_descendants'] = True
        _raise_descendants(ram, after)
    _bound_each(totals, max(after, before))
    reconcile(totals)


def count_ended(totals: Totals) -> None:
    """Correct the totals of a run, in place, by the peaks of processes that the kernel has reported at their end.

    A child that has never called execve(2) may have run in the memory of the target, which then had that peak itself.
    """
    ram, record = totals['ram'], totals['record']
    if record.get('exit_records') is None:
        return
    unseen = record.get('ended_unseen_peaks', 0)
    if unseen:  # the bounds know nothing of them, and nobody knows which of them were there at once
        record['most_waited_for'] = None
        for group in ('descendants', 'combined'):
            most = ram['upper'][group]
            ram['upper'][group] = None if most is None else most + unseen
    if record['doubled']:
        return  # pages that a process has mapped twice are in its peak twice: that proves nothing
    of_main = record.get('ended_main_peak')
    if of_main is not None and of_main > (ram['main'][_TOTAL] or 0):
        _raise(ram, 'main', of_main)
        _raise(ram, 'combined', of_main)
    largest, of_copies = record.get('ended_peak', 0), record.get('ended_copies_peak', 0)
    main = ram['upper']['main']
    if main is not None and of_copies > main + _SLACK:
        largest = max(largest, of_copies)
    if largest > (ram['descendants'][_TOTAL] or 0):
        # Nobody knows what main and the others had just then.
        _raise(ram, 'descendants', largest)
        _raise(ram, 'combined', largest)


def doubt_bounds(totals: Totals, orphans_seconds: float | None = None) -> None:
    """Drop the bounds of the descendants, in place, where there may have been some of which nobody could tell anything.

    :param orphans_seconds: CPU time of the orphans that somebody has waited for, all that there were; None where nobody
        has.
    """
    record = totals['record']
    if record.get('exit_records') is not None and not record.get('exit_records_lost'):
        return
    are_known = orphans_seconds is not None and orphans_seconds <= record['adopted']
    are_ignored = record['has_clocks'] or record['cpu_is_lower_bound']
    if are_ignored or (record.get('may_miss_orphans') and not are_known):
        totals['ram']['upper'] |= {'descendants': None, 'combined': None}
        record['most_waited_for'] = None


def forget_bounds(totals: Totals) -> None:
    """Drop the bounds of a run whose sampler has ended before it, in place: nobody knows what came after that."""
    totals['ram']['upper'] = {'main': None, 'descendants': None, 'combined': None}
    totals['record']['most_waited_for'] = None


def reconcile(totals: Totals) -> None:
    """Make the RAM figures of a run agree with one another, in place; what is known for certain is never lowered.

    Afterwards ``main`` and ``descendants`` are at most ``combined``, and that at most their sum; in each group private
    and shared are at most the total, and that at most their sum; and each figure lies within its bounds. Where a total
    is more than private and shared account for, the rest is counted as private: what comes and goes unseen is anonymous
    memory in most programs. Without descendants, their figures are 0; of those that nobody has seen, they are unknown.
    """
    ram = totals['ram']
    if not ram['descendants'][_TOTAL]:
        if totals['record']['has_descendants']:
            _forget_descendants(ram)
        else:
            _reconcile_main_alone(ram)
            return
    for group in GROUPS:
        _keep_within_bounds(ram, group)
    main, descendants, combined = (ram[group] for group in GROUPS)
    _reconcile_totals(main, descendants, combined, ram['lower']['combined'][_TOTAL])
    _split(main, None)
    _split(descendants, None)
    most_private = None
    of_main, of_descendants = main[_PRIVATE], descendants[_PRIVATE]
    if of_main is not None and of_descendants is not None:
        most_private = of_main + of_descendants
    for kind in (_PRIVATE, _SHARED):
        if combined[kind] is not None:
            combined[kind] = larger(larger(combined[kind], main[kind]), descendants[kind])
    private = combined[_PRIVATE]
    if most_private is not None and private is not None:
        certain = ram['lower']['combined'][_PRIVATE] or 0
        combined[_PRIVATE] = max(min(private, most_private), certain)
    _split(combined, most_private)
    for group in GROUPS:
        _keep_bounds_around(ram, group)


def _reconcile_totals(
    main: list[int | None], descendants: list[int | None], combined: list[int | None], certain: int | None
) -> None:
    """Make the totals of the three groups agree.

    :param certain: What all of them together have had for certain.
    """
    of_main, of_descendants = main[_TOTAL], descendants[_TOTAL]
    of_all = larger(larger(larger(combined[_TOTAL], of_main), of_descendants), certain)
    if of_all is not None and of_main is not None and of_descendants is not None:
        of_descendants = max(of_descendants, (certain or 0) - of_main)
        of_all = min(of_all, of_main + of_descendants)
    descendants[_TOTAL], combined[_TOTAL] = of_descendants, of_all


def _forget_descendants(ram: RamTotals) -> None:
    """Take note that there were descendants, of whose memory nothing was seen."""
    ram['descendants'] = [None, None, None]
    if not ram['lower']['descendants'][_TOTAL]:
        ram['lower']['descendants'] = [None, None, None]
    if ram['upper']['descendants'] == 0:
        ram['upper']['descendants'] = None


def _reconcile_main_alone(ram: RamTotals) -> None:
    """Do the same where there were no descendants, so that main and combined are one."""
    lower, upper = ram['lower'], ram['upper']
    ram['descendants'], lower['descendants'], upper['descendants'] = [0, 0, 0], [0, 0, 0], 0
    for known in (ram, lower):
        known['main'] = list(map(larger, known['main'], known['combined']))
    upper['main'] = min([most for most in (upper['main'], upper['combined']) if most is not None], default=None)
    _keep_within_bounds(ram, 'main')
    _split(ram['main'], None)
    _keep_bounds_around(ram, 'main')
    ram['combined'], lower['combined'], upper['combined'] = list(ram['main']), list(lower['main']), upper['main']


def _keep_within_bounds(ram: RamTotals, group: Group) -> None:
    """Keep the figures of a group at what is certain at least, and its total at its upper bound at most."""
    figures, lower, upper = ram[group], ram['lower'][group], ram['upper'][group]
    for kind in (_PRIVATE, _SHARED):
        lower[_TOTAL] = larger(lower[_TOTAL], lower[kind])
    total = figures[_TOTAL]
    if upper and total is not None and total > upper >= (lower[_TOTAL] or 0):
        figures[_TOTAL] = upper
    for kind, value in enumerate(figures):
        if value is not None:
            figures[kind] = larger(value, lower[kind])


def _keep_bounds_around(ram: RamTotals, group: Group) -> None:
    """Keep the upper bound of a group above its total; one that contradicts what is certain is none."""
    total, most = ram[group][_TOTAL], ram['upper'][group]
    if total is not None and most is not None and most < total:
        ram['upper'][group] = total if total - most <= _SLACK else None


def _split(group: list[int | None], most_private: int | None) -> None:
    """Make private and shared of a group agree with its total.

    :param most_private: What private can be at most, where that is known.
    """
    total, private, shared = group
    if total is None or private is None or shared is None:
        group[_PRIVATE] = None if private is None or total is None else min(private, total)
        group[_SHARED] = None if shared is None or total is None else min(shared, total)
        return
    private, shared = min(private, total), min(shared, total)
    if 0 < private + shared < total:
        private = total - shared if most_private is None else max(private, min(total - shared, most_private))
        shared = max(shared, total - private)
    group[_PRIVATE], group[_SHARED] = private, shared


def _raise(ram: RamTotals, group: Group, size: int) -> None:
    """Take note that a group has had ``size`` bytes for certain."""
    if not ram[group][_TOTAL]:  # what is known of these bytes is their sum
        ram[group], ram['lower'][group] = [None, None, None], [None, None, None]
    ram[group][_TOTAL] = larger(ram[group][_TOTAL], size)
    ram['lower'][group][_TOTAL] = larger(ram['lower'][group][_TOTAL], size)
    most = ram['upper'][group]
    if most is not None:
        ram['upper'][group] = max(most, size)


def _raise_descendants(ram: RamTotals, size: int) -> None:
    """Take note that one of the descendants has had ``size`` bytes for certain.

    When the descendants had most of what was seen of them, main and the others were beside them; so they count beside
    this peak as well, as far as the upper bound allows.
    """
    seen, beside = ram['descendants'][_TOTAL], ram['beside_descendants']
    if seen is not None and beside is not None and size > seen:
        upper = ram['upper']['combined']
        together = beside + size - seen if upper is None else min(beside + size - seen, max(upper, size))
        ram['combined'][_TOTAL] = larger(ram['combined'][_TOTAL], together)
        ram['beside_descendants'] = together
    _raise(ram, 'descendants', size)
    _raise(ram, 'combined', size)


def _bound_each(totals: Totals, size: int) -> None:
    """Take note that none of the descendants that were waited for has had more than ``size`` bytes."""
    ram, most_at_once = totals['ram'], totals['record']['most_waited_for']
    if most_at_once is None:
        return
    upper = ram['upper']
    together = most_at_once * size
    upper['descendants'] = together if upper['descendants'] is None else min(upper['descendants'], together)
    if upper['main'] is not None and upper['descendants'] is not None:
        both = upper['main'] + upper['descendants']
        upper['combined'] = both if upper['combined'] is None else min(upper['combined'], both)


def _withdraw_what_does_not_add_up(ram: RamTotals) -> None:
    """Make main and descendants unknown where a process was so large that one of the two figures must be wrong."""
    main, descendants, combined = (ram[group][_TOTAL] for group in GROUPS)
    if main is None or combined is None:
        return
    if combined > main + (descendants or 0) + _SLACK:
        for group in ('main', 'descendants'):
            ram[group] = [None, None, None]
