"""From the evidence of a run to its totals: what was read, raised by what the kernel reports at the end.

:func:`settle` is the only place that makes totals, and it changes nothing: no figure is below what was read. A figure
that may be too low is named in ``lower_bounds``, with the reason.
"""

from __future__ import annotations

from gpu_tracker.processes import stat
from gpu_tracker.resources import GROUPS, larger
from gpu_tracker.resources.rates import SHORTEST_WINDOW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from gpu_tracker.processes.reaped import OrphansUse
    from gpu_tracker.totals import CpuEvidence, Evidence, Group, RamEvidence, Sizes, Totals

_MAIN, _DESCENDANTS, _COMBINED = GROUPS
_SLACK = 1 << 20
"""Bytes by which sizes of the kernel may be inexact."""
_LEAST_MORE = 1 << 16
_MOST_MORE = 0.02
"""A figure is marked if there may have been more than this part, and these bytes, beside it."""
_UNLIMITED = 1 << 62
"""Bytes that no process has."""
_ROUNDING = 0.05
"""CPU seconds that ticks of 10 ms may hide."""

_MAXIMA_OF_GPU = {name: f'max_ram.{name}' for name in (*GROUPS, 'system')} | {
    'max_utilization': 'utilization.max_percent',
    'max_own_utilization': 'own_utilization.max_percent',
}
"""Where the result of a GPU has a maximum of its totals."""
_MEANS_OF_GPU = {'utilization': 'utilization.mean_percent', 'own_utilization': 'own_utilization.mean_percent'}

REASONS = {
    'between': 'processes may have used more between two samples',
    'budget': "the sampler's budget was too small to read all pages",
    'unreadable': "a process may not be read: it is another user's, or protected",
    'too_large': 'processes were too large to read all their pages in time',
    'old_kernel': 'this kernel does not report shares of anonymous memory (Linux 5.4 does)',
    'copy': 'the tracked process shares pages with the program that forked it',
    'vanished': 'the tracked process ended between two samples',
    'orphans': 'a process whose parent had ended may be missing',
    'ignored': 'a process ignores SIGCHLD or sets SA_NOCLDWAIT, so the kernel does not report what its children used',
    'killed': 'the sampler ended before the run',
    'unreaped': 'a process was reaped outside the tracked tree',
    'gpu': 'a GPU could not be read all the time',
    'uncounted': 'this system does not report what ended children used',
}
"""Why a figure may be too low."""


class CommandUse:
    """What the kernel has reported of a command when it was reaped, see wait4(2).

    :ivar cpu_seconds: CPU time of the command and of the children that it has reaped, since its process exists.
    :ivar peak: The bytes of the largest of these processes and of the orphans. The command was a copy of its launcher,
        so this is at least the launcher's peak.
    :ivar launcher_peak: The bytes of the launcher; None: there was none.
    :ivar switches: Voluntary and involuntary context switches of the command and of the children that it has reaped.
    :ivar orphans: What the orphans have used that the launcher has reaped; None if unknown.
    :ivar main_seconds: CPU time of the command alone, if the sampler could not read that at the end.
    :ivar has_reaped: The command is known to have reaped children.
    """

    def __init__(
        self,
        *,
        cpu_seconds: float,
        peak: int,
        launcher_peak: int | None,
        switches: tuple[int, int],
        orphans: OrphansUse | None,
        main_seconds: float | None = None,
        has_reaped: bool = False,
    ) -> None:
        self.cpu_seconds = cpu_seconds
        self.peak = peak
        self.launcher_peak = launcher_peak
        self.switches = switches
        self.orphans = orphans
        self.main_seconds = main_seconds
        self.has_reaped = has_reaped


class ChildrenUse:
    """What the kernel has reported of the children of a program that has tracked itself, see getrusage(2).

    :ivar peak_before: The bytes of the largest child that was reaped before the tracking.
    :ivar peak: The same at the end. vfork lends a child the peak of the program itself.
    :ivar own_faults: Page faults of children that belong to trackers and were reaped meanwhile.
    """

    def __init__(self, peak_before: int, peak: int, own_faults: int) -> None:
        self.peak_before = peak_before
        self.peak = peak
        self.own_faults = own_faults


class KernelFacts:
    """What is known at the end of a run beside the evidence.

    :ivar counts_over: The seconds over which CPU time counts; None: from the first sample to the last.
    :ivar counts_before: CPU time from before the first sample counts as well.
    :ivar own_switches: Context switches of a program that has tracked itself.
    :ivar is_cut_off: The sampler ended before the run.
    """

    def __init__(
        self,
        *,
        tracked_seconds: float | None = None,
        counts_over: float | None = None,
        counts_before: bool = False,
        command: CommandUse | None = None,
        children: ChildrenUse | None = None,
        own_switches: tuple[int, int] | None = None,
        is_cut_off: bool = False,
    ) -> None:
        self.tracked_seconds = tracked_seconds
        self.counts_over = counts_over
        self.counts_before = counts_before
        self.command = command
        self.children = children
        self.own_switches = own_switches
        self.is_cut_off = is_cut_off


def settle(evidence: Evidence, facts: KernelFacts = KernelFacts()) -> Totals:  # noqa: B008 - nothing changes it
    """Return the totals of a run.

    :param facts: What the kernel has reported at its end; nothing if it still goes on.
    """
    has_descendants = _has_descendants(evidence, facts)
    cpu, cpu_reasons = _cpu(evidence['cpu'], evidence, facts)
    ram, ram_reasons = _ram(evidence['ram'], evidence, facts, has_descendants=has_descendants)
    seconds = evidence['seconds'] if facts.counts_over is None else facts.counts_over
    if facts.counts_over is not None and not facts.is_cut_off:
        cpu['system'] = _scaled(cpu['system'], evidence['seconds'], facts.counts_over)
    cpu, maxima = _with_maxima(cpu, evidence['cpu'], seconds)
    means = dict(cpu_reasons)
    lower_bounds: dict[str, str] = {}
    if facts.is_cut_off:
        means['system'] = 'killed'
        maxima = dict.fromkeys((*GROUPS, 'system'), 'killed')
        killed = [f'cpu_utilization.{group}_n_threads' for group in GROUPS]
        lower_bounds = dict.fromkeys([*killed, 'max_ram.system', *_maxima_of_gpus(evidence['gpu'])], REASONS['killed'])
    lower_bounds |= {
        f'cpu_utilization.{name}.{kind}_{of}_percent': REASONS[reason]
        for at, (kind, reasons) in enumerate((('mean', means), ('max', {**maxima, **means})))
        for name, reason in reasons.items()
        if cpu[name][at] is not None
        for of in ('sum', 'hardware')
    }
    lower_bounds |= {f'max_ram.{path}': REASONS[reason] for path, reason in ram_reasons.items()}
    lower_bounds |= dict.fromkeys(_missed_of_gpus(evidence['gpu']), REASONS['gpu'])
    if 'gpu_activity' in evidence:
        from gpu_tracker.resources import gpu_activity  # noqa: PLC0415 - few runs ask for it

        lower_bounds |= dict.fromkeys(gpu_activity.missed(evidence), REASONS['gpu'])
    record = dict(evidence['record'])
    if facts.tracked_seconds is not None:
        record['tracked_seconds'] = facts.tracked_seconds
    found: dict[str, Any] = {**evidence, 'seconds': seconds, 'cpu': cpu, 'ram': ram, 'record': record}
    del found['lineage']
    found['lower_bounds'] = lower_bounds
    if 'io' in evidence:
        found['io'] = _with_switches(evidence['io'], evidence, facts, has_descendants=has_descendants)
        lower_bounds |= _bounds_of_io(evidence['io'], evidence['cpu'], cpu_reasons, facts)
    totals: Any = found
    return totals  # type: ignore[no-any-return]


def _maxima_of_gpus(gpu: Mapping[str, Any]) -> list[str]:
    """Return the paths of the maxima of GPUs that are known; none on a machine without GPUs."""
    if not gpu['count']:
        return []
    known = [name for name in (*GROUPS, 'system') if gpu[name] is not None]
    kinds = () if gpu['max_sum'] is None else ('sum', 'hardware')
    percentages = [f'gpu_utilization.gpu_percentages.max_{kind}_percent' for kind in kinds]
    of_devices = [
        path
        for device in gpu.get('devices') or ()
        if device['is_used'] is not False
        for path in _paths_of_gpu(device['place'], [name for name in _MAXIMA_OF_GPU if device[name] is not None])
    ]
    return [*(f'max_gpu_ram.{name}' for name in known), *percentages, *of_devices]


def _missed_of_gpus(gpu: Mapping[str, Any]) -> list[str]:
    """Return the paths of the sizes that may be too low since a reading of a GPU has failed."""
    found = [f'max_gpu_ram.{name}' for name in gpu.get('missed', ())]
    devices = [device for device in gpu.get('devices') or () if device['is_used'] is not False]
    for device in devices:
        found += _paths_of_gpu(device['place'], device['missed'])
    for name, path in (_MAXIMA_OF_GPU | _MEANS_OF_GPU).items():
        if len({device[name] is None for device in devices}) > 1:  # the largest of all may be an unknown one
            found.append(f'gpus.{path}')
    if any('max_utilization' in device['missed'] for device in devices) and gpu['max_sum'] is not None:
        found += [f'gpu_utilization.gpu_percentages.max_{kind}_percent' for kind in ('sum', 'hardware')]
    return found


def _paths_of_gpu(place: str, names: Sequence[str]) -> list[str]:
    """Return the paths of maxima of one GPU, with those of the figures that are the largest of all GPUs."""
    return [f'gpus.{which}{_MAXIMA_OF_GPU[name]}' for name in names for which in (f'{place}.', '')]


def _has_descendants(evidence: Evidence, facts: KernelFacts) -> bool:
    """Return whether there were descendants: seen, or known by the page faults that their parents have got."""
    lineage = evidence['lineage']
    children, command = facts.children, facts.command
    if children is not None and not evidence['ram']['descendants'][0]:
        faults = lineage['faults_of_waited_for']
        if faults is not None and 0 < children.own_faults == faults:
            return False  # those were starters of other trackers in the program
    if command is not None and (command.has_reaped or (command.orphans is not None and command.orphans.faults)):
        return True
    return lineage['has_descendants']


def _cpu(cpu: CpuEvidence, evidence: Evidence, facts: KernelFacts) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the CPU times of the groups, and why some of them may be too low."""
    command, lineage = facts.command, evidence['lineage']
    main, descendants = cpu[_MAIN][0], cpu[_DESCENDANTS][0]
    orphans = None if command is None or command.orphans is None else command.orphans.cpu_seconds
    if command is not None:
        used = max(0.0, command.cpu_seconds - cpu['before'])
        if command.main_seconds is not None:
            main = max(main, command.main_seconds - cpu['before'])
        if not (cpu['has_reaped'] or command.has_reaped):
            main = max(main, used)
        of_orphans = orphans or 0.0  # those that are gone are in what was read, as they were last read
        descendants += max(0.0, of_orphans - cpu['unreceived'])
        descendants = max(descendants, used - main + of_orphans)
    elif facts.counts_before:
        main += cpu['before']
    reasons: dict[str, str] = {}
    reason = _reason_of_cpu(cpu, facts, orphans, may_miss_orphans=lineage['may_miss_orphans'])
    if reason is not None:
        reasons = {_DESCENDANTS: reason, _COMBINED: reason}
    if facts.is_cut_off and (command is None or command.main_seconds is None):
        reasons[_MAIN] = 'killed'
    elif command is None and 'vanished' in evidence['ram']['reasons']:
        for group in GROUPS:
            reasons[group] = 'vanished'
    found = {
        **cpu,
        _MAIN: (main, cpu[_MAIN][1]),
        _DESCENDANTS: (descendants, cpu[_DESCENDANTS][1]),
        _COMBINED: (main + descendants, cpu[_COMBINED][1]),
    }
    return {name: found[name] for name in (*GROUPS, 'system', 'threads', 'cores')}, reasons


def _with_maxima(
    cpu: Mapping[str, Any], read: Mapping[str, Any], seconds: float
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return ``cpu`` with no maximum below its mean, and why some maxima may be too low.

    Time that no sample has seen may have been used at any moment. In a span below one window, the mean is the maximum.
    """
    found = dict(cpu)
    reasons: dict[str, str] = {}
    for name in (*GROUPS, 'system'):
        amount, largest = cpu[name]
        if amount is None or largest is None or seconds <= 0:
            continue
        mean = amount / seconds
        found[name] = (amount, max(largest, mean))
        is_unseen = name in GROUPS and amount > read[name][0] * (1 + _MOST_MORE) + _ROUNDING
        if seconds >= SHORTEST_WINDOW and is_unseen:
            reasons[name] = 'between'
    return found, reasons


def _reason_of_cpu(
    cpu: CpuEvidence, facts: KernelFacts, orphans: float | None, *, may_miss_orphans: bool
) -> str | None:
    """Return why the CPU time of descendants may be too low."""
    if facts.is_cut_off:
        return 'killed'
    if not cpu['counts_reaped']:
        return 'uncounted'
    if cpu['is_ignored']:
        return 'ignored'
    if may_miss_orphans:
        return 'orphans'
    has_unknown_reaper = cpu['has_orphans'] and orphans is None
    return 'unreaped' if has_unknown_reaper or cpu['unreceived'] > (orphans or 0.0) + _ROUNDING else None


def _ram(
    ram: RamEvidence, evidence: Evidence, facts: KernelFacts, *, has_descendants: bool
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the RAM of the groups, and why some figures may be too low, by their paths."""
    groups: dict[Group, Sizes] = {group: ram[group] for group in GROUPS}
    of_main, of_descendants, of_all = ram['ceilings']
    reasons = _reasons_of_groups(ram, evidence, facts, has_descendants=has_descendants)
    proven = _proven_peak(facts)
    most_of_main = None if facts.is_cut_off else ram['most_of_main']
    of_orphans = _unread_of_orphans(ram, facts.command)
    of_descendants, of_all = of_descendants + of_orphans, of_all + of_orphans
    if facts.is_cut_off:
        of_main = _UNLIMITED  # it may have had more since
    if facts.command is not None:
        of_main = min(of_main, facts.command.peak) if of_main else facts.command.peak
    if not has_descendants:
        main = _at_least(_joined(groups[_MAIN], groups[_COMBINED]), proven)
        groups = {_MAIN: main, _DESCENDANTS: (0, 0, 0), _COMBINED: main}
        of_descendants, of_all = 0, max(of_main, of_all if main[0] is None else 0)
    else:
        groups, raised = _raised(groups, proven, most_of_main, facts, evidence)
        for group in raised:
            reasons.setdefault(group, 'between')
        groups = _reconciled(groups, adds_up=raised != GROUPS)
    for group, ceiling in zip(GROUPS, (of_main, of_descendants, of_all), strict=True):
        total = groups[group][0]
        if total is not None and ceiling > total * (1 + _MOST_MORE) + _LEAST_MORE:
            reasons.setdefault(group, 'budget' if 'budget' in ram['reasons'] else 'between')
    found: dict[str, Any] = {**dict(groups.items()), 'system': ram['system'], 'capacity': ram['capacity']}
    return found, _by_path(groups, reasons, ram['most_private'])


def _reasons_of_groups(
    ram: RamEvidence, evidence: Evidence, facts: KernelFacts, *, has_descendants: bool
) -> dict[Group, str]:
    """Return why the groups may have had more than any ceiling says."""
    cpu, lineage, command = evidence['cpu'], evidence['lineage'], facts.command
    found: dict[Group, str] = {}
    of_groups: list[str] = []
    if has_descendants:
        of_groups += [
            reason for reason in ('unreadable', 'too_large', 'old_kernel', 'copy') if reason in ram['reasons']
        ]
    if lineage['may_miss_orphans'] or (cpu['has_orphans'] and (command is None or command.orphans is None)):
        of_groups.append('orphans')
    if cpu['is_ignored']:
        of_groups.append('ignored')
    if facts.is_cut_off:
        of_groups.insert(0, 'killed')
    if of_groups:
        found = {_DESCENDANTS: of_groups[0], _COMBINED: of_groups[0]}
    if command is None and (facts.is_cut_off or 'vanished' in ram['reasons']):
        reason = 'killed' if facts.is_cut_off else 'vanished'
        found = {_COMBINED: reason, **found, _MAIN: reason}
    return found


def _unread_of_orphans(ram: RamEvidence, command: CommandUse | None) -> int:
    """Return the bytes that orphans may have had beside what was read of them, by their page faults."""
    if command is None or command.orphans is None:
        return 0
    return stat.most_bytes_of(max(0, command.orphans.faults - ram['faults_of_orphans']), ram['huge_pages'])


def _proven_peak(facts: KernelFacts) -> int | None:
    """Return what some process of a command has had for certain: its launcher has lent it no more than its own peak."""
    command = facts.command
    if command is None or command.launcher_peak is None or command.peak <= command.launcher_peak:
        return None
    return command.peak


def _raised(
    groups: Mapping[Group, Sizes], proven: int | None, most_of_main: int | None, facts: KernelFacts, evidence: Evidence
) -> tuple[dict[Group, Sizes], Sequence[Group]]:
    """Raise groups by the largest peak of a process; return the groups that may have had more.

    It was a descendant if main has had less at most. If that is not known, either main or descendants had more.
    """
    found = dict(groups)
    children = facts.children
    of_descendants = None
    if most_of_main is not None and children is not None and not evidence['lineage']['older_has_ended']:
        lent = max(most_of_main, children.peak_before)
        of_descendants = children.peak if children.peak > lent + _SLACK else None
    if proven is not None:
        found[_COMBINED] = _at_least(found[_COMBINED], proven)
        if most_of_main is not None and proven > most_of_main + _SLACK:
            of_descendants = proven
        elif proven > max(found[_MAIN][0] or 0, found[_DESCENDANTS][0] or 0) + _SLACK:
            return found, GROUPS
    if of_descendants is None or of_descendants <= (found[_DESCENDANTS][0] or 0):
        return found, ()
    found[_DESCENDANTS] = _at_least(found[_DESCENDANTS], of_descendants)
    found[_COMBINED] = _at_least(found[_COMBINED], of_descendants)
    return found, (_DESCENDANTS, _COMBINED)


def _reconciled(groups: Mapping[Group, Sizes], *, adds_up: bool) -> dict[Group, Sizes]:
    """Raise what contradicts another figure: main, descendants ≤ combined ≤ main + descendants.

    :param adds_up: What all had at some moment, and main never had, descendants had then. It is not known if a process
        had more than was read of main or descendants: both are lower bounds then.
    """
    main, descendants = groups[_MAIN], groups[_DESCENDANTS]
    combined = _joined(_joined(groups[_COMBINED], main), descendants)
    if adds_up and combined[0] is not None and main[0] is not None:
        descendants = _at_least(descendants, combined[0] - main[0])
    if not descendants[0]:
        descendants = (None, None, None)  # there were some, of whose memory nothing was read
    return {_MAIN: main, _DESCENDANTS: descendants, _COMBINED: combined}


def _by_path(groups: Mapping[Group, Sizes], reasons: Mapping[Group, str], most_private: int) -> dict[str, str]:
    """Return the reasons by the paths of the figures that are known.

    A total that was raised without reading its pages leaves private and shared memory behind. So does what main had
    while it was alone, if a child shared it before it was read.
    """
    found: dict[str, str] = {}
    for group, sizes in groups.items():
        total, private, shared = sizes
        parts = (private or 0) + (shared or 0)
        least = (1 - _MOST_MORE) * (total or 0) - _SLACK
        is_low = parts < least or (group != _DESCENDANTS and (private or 0) < (1 - _MOST_MORE) * most_private - _SLACK)
        reason = reasons.get(group, 'between' if private is not None and is_low else None)
        for name, size in zip(('total_rss', 'private_rss', 'shared_rss'), sizes, strict=True):
            if reason is not None and size is not None and (group in reasons or name != 'total_rss'):
                found[f'{group}.{name}'] = reason
    return found


def _at_least(sizes: Sizes, total: int | None) -> Sizes:
    return larger(sizes[0], total), sizes[1], sizes[2]


def _joined(sizes: Sizes, others: Sizes) -> Sizes:
    total, private, shared = map(larger, sizes, others)
    return total, private, shared


def _scaled(used: Sequence[Any], seconds: float, counts_over: float) -> tuple[Any, Any]:
    """Return the CPU time of the machine over a span that is a little longer than what was sampled."""
    amount, largest = used
    return (amount * counts_over / seconds if amount is not None and seconds > 0 else None), largest


def _with_switches(
    io: Mapping[str, Any], evidence: Evidence, facts: KernelFacts, *, has_descendants: bool
) -> dict[str, Any]:
    """Return ``io`` with the context switches of the groups of which the kernel has reported them."""
    switches: dict[str, tuple[int, int]] = {}
    command = facts.command
    if facts.own_switches is not None:
        switches = {_MAIN: facts.own_switches}
    if command is not None and not has_descendants:
        switches = {_MAIN: command.switches, _DESCENDANTS: (0, 0), _COMBINED: command.switches}
    elif command is not None and command.orphans and not command.orphans.faults and _has_reaped_all(evidence):
        switches = {_COMBINED: command.switches}  # it has reaped all that it has started
    return {name: {**values, 'switches': switches.get(name, (None, None))} for name, values in io.items()}


def _bounds_of_io(
    io: Mapping[str, Any], cpu: CpuEvidence, cpu_reasons: Mapping[str, str], facts: KernelFacts
) -> dict[str, str]:
    """Return the figures of I/O that may be too low: CPU time that is missing goes with I/O.

    A launcher gets the CPU time of orphans, and not their I/O.
    """
    from gpu_tracker.resources.io.groups import FIELDS  # noqa: PLC0415 - an optional section

    reasons = dict(cpu_reasons)
    command = facts.command
    if cpu['has_orphans'] or (command is not None and (command.orphans is None or command.orphans.faults)):
        reasons = {_DESCENDANTS: 'unreaped', _COMBINED: 'unreaped', **reasons}
    if facts.is_cut_off:
        reasons[_MAIN] = 'killed'
    return {
        f'io.{group}.{name}': REASONS[reason]
        for group, reason in reasons.items()
        for part, names in FIELDS.items()
        for name, value in zip(names, io[group][part], strict=True)
        if value is not None
    }


def _has_reaped_all(evidence: Evidence) -> bool:
    """Return whether the root has reaped all that it has started."""
    return evidence['lineage']['faults_of_waited_for'] is not None and not evidence['cpu']['is_ignored']
