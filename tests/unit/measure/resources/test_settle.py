"""Totals from the evidence of a run, and from what the kernel reports at its end."""

from __future__ import annotations

import copy
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.processes.reaped import OrphansUse
from gpu_tracker.resources import GROUPS
from gpu_tracker.resources.io.groups import FIELDS
from gpu_tracker.resources.settle import REASONS, ChildrenUse, CommandUse, KernelFacts, settle
from gpu_tracker.result.usage import IOValues

MB = 10**6
UNKNOWN = (None, None, None)
NOTHING = (0, 0, 0)
TOTAL, PRIVATE, SHARED = range(3)
NO_FACTS = KernelFacts()
IO = {'bytes': (1, 2, None, 4, 5), 'rates': (6.0, None, 8.0, 9.0), 'faults': (3, 4), 'switches': (None, None)}


def evidence_of(
    main: tuple[int | None, ...] = (20 * MB, 15 * MB, 5 * MB),
    descendants: tuple[int | None, ...] = (10 * MB, 6 * MB, 4 * MB),
    combined: tuple[int | None, ...] = (26 * MB, 21 * MB, 5 * MB),
    *,
    ceilings: tuple[int, int, int] = (0, 0, 0),
    reasons: tuple[str, ...] = (),
    cpu: dict[str, Any] | None = None,
    lineage: dict[str, Any] | None = None,
) -> Any:
    """Return the evidence of a run of 2 s with a child that was reaped; nothing is doubtful."""
    return {
        'seconds': 2.0,
        'samples': 11,
        'cpu': {
            'main': (1.0, 0.75),
            'descendants': (0.5, 0.5),
            'combined': (1.5, 1.0),
            'system': (3.0, 2.0),
            'threads': (1, 2, 3),
            'cores': 2,
            'before': 0.25,
            'unreceived': 0.0,
            'has_reaped': True,
            'has_orphans': False,
            'is_ignored': False,
            'counts_reaped': True,
        }
        | (cpu or {}),
        'ram': {
            'main': main,
            'descendants': descendants,
            'combined': combined,
            'ceilings': ceilings,
            'most_of_main': ceilings[0] or None,
            'faults_of_orphans': 100,
            'huge_pages': 1,
            'most_private': 0,
            'reasons': reasons,
            'system': 90 * MB,
            'capacity': 100 * MB,
        },
        'gpu': {'count': None, 'combined': None},
        'lineage': {
            'has_descendants': True,
            'faults_of_waited_for': 90,
            'older_has_ended': False,
            'may_miss_orphans': False,
        }
        | (lineage or {}),
        'record': {'late': 0, 'tracked_seconds': None},
        'messages': [],
    }


ALONE = {'has_descendants': False, 'faults_of_waited_for': 0}


def alone(main: tuple[int | None, ...] = (20 * MB, 15 * MB, 5 * MB), **options: Any) -> Any:
    """Return the evidence of a run without descendants."""
    cpu = {'descendants': (0.0, 0.0), 'combined': (1.0, 0.75), 'has_reaped': False}
    return evidence_of(main, UNKNOWN, main, cpu=cpu | options.pop('cpu', {}), lineage=ALONE, **options)


def command(peak: int = 0, *, cpu: float = 1.75, launcher_peak: int | None = 5 * MB, **options: Any) -> KernelFacts:
    """Return what wait4 reports of a command: by default what its evidence says, of which 0.25 s are from before."""
    fields = {'switches': (7, 8), 'orphans': OrphansUse()} | options
    return KernelFacts(command=CommandUse(cpu_seconds=cpu, peak=peak, launcher_peak=launcher_peak, **fields))


def cut_off(peak: int = 0, **options: Any) -> KernelFacts:
    """Return the same of a command whose sampler has ended before it."""
    return KernelFacts(command=command(peak, **options).command, is_cut_off=True)


def totals_of(totals: Any) -> list[int | None]:
    return [totals['ram'][group][TOTAL] for group in GROUPS]


def seconds_of(totals: Any) -> list[float]:
    return [totals['cpu'][group][0] for group in GROUPS]


def bounded(totals: Any) -> dict[str, str]:
    """Return the reasons, by their short names, for the RAM and the CPU time of groups."""
    names = {text: name for name, text in REASONS.items()}
    found = {}
    for path, text in totals['lower_bounds'].items():
        section, *names_of_group, figure = path.split('.')
        group = '.'.join(names_of_group)
        if figure in {'total_rss', 'mean_sum_percent'} and group != 'system':
            found[f'{"ram" if section == "max_ram" else "cpu"} {group}'] = names[text]
    return found


def test_without_facts_and_doubts_the_totals_are_what_was_read() -> None:
    evidence = evidence_of()
    totals = settle(evidence)
    assert totals_of(totals) == [20 * MB, 10 * MB, 26 * MB]
    assert totals['ram'].keys() == {*GROUPS, 'system', 'capacity'}
    assert totals['cpu'] == {
        'main': (1.0, 0.75), 'descendants': (0.5, 0.5), 'combined': (1.5, 1.0), 'system': (3.0, 2.0),
        'threads': (1, 2, 3), 'cores': 2,
    }  # fmt: skip
    assert totals['lower_bounds'] == {}
    assert 'lineage' not in totals
    assert (totals['seconds'], totals['gpu'], totals['messages']) == (2.0, {'count': None, 'combined': None}, [])


def test_all_figures_of_a_group_are_named() -> None:
    totals = settle(evidence_of(reasons=('unreadable',), cpu={'is_ignored': True}))
    unreadable = REASONS['unreadable']
    ignored = REASONS['ignored']
    groups = ('descendants', 'combined')
    assert totals['lower_bounds'] == {
        **{f'max_ram.{group}.{size}_rss': unreadable for group in groups for size in ('total', 'private', 'shared')},
        **{
            f'cpu_utilization.{group}.{kind}_{of}_percent': ignored
            for group in groups
            for kind in ('max', 'mean')
            for of in ('sum', 'hardware')
        },
    }


def test_figures_that_are_unknown_are_no_lower_bounds() -> None:
    totals = settle(evidence_of(descendants=(10 * MB, None, None), ceilings=(0, 20 * MB, 0)))
    assert list(totals['lower_bounds']) == ['max_ram.descendants.total_rss']
    totals = settle(evidence_of(descendants=UNKNOWN, combined=(20 * MB, 15 * MB, 5 * MB), ceilings=(0, 20 * MB, 0)))
    assert totals['lower_bounds'] == {}


# CPU time


def test_time_of_a_command_is_that_of_wait4_without_what_came_before() -> None:
    totals = settle(evidence_of(), command(cpu=1.95))
    assert seconds_of(totals) == pytest.approx([1.0, 0.7, 1.7])
    assert bounded(totals) == {}


def test_wait4_lowers_nothing_that_was_read() -> None:
    assert seconds_of(settle(evidence_of(), command(cpu=0.75))) == [1.0, 0.5, 1.5]


def test_a_command_without_children_has_used_all_of_it_itself() -> None:
    assert seconds_of(settle(alone(), command(cpu=1.75))) == pytest.approx([1.5, 0.0, 1.5])
    assert seconds_of(settle(alone(), command(cpu=0.75))) == [1.0, 0.0, 1.0]


def test_time_of_orphans_that_the_launcher_has_reaped_counts_once() -> None:
    adopted = evidence_of(cpu={'unreceived': 0.1, 'has_orphans': True})
    totals = settle(adopted, command(cpu=1.25, orphans=OrphansUse(0.1, 9)))
    assert seconds_of(totals) == pytest.approx([1.0, 0.5, 1.5])
    assert bounded(totals) == {}
    totals = settle(adopted, command(cpu=1.25, orphans=OrphansUse(0.4, 9)))  # 0.3 s since they were read
    assert seconds_of(totals) == pytest.approx([1.0, 0.8, 1.8])
    totals = settle(adopted, command(cpu=1.75, orphans=OrphansUse(0.4, 9)))
    assert seconds_of(totals) == pytest.approx([1.0, 0.9, 1.9])


def test_the_time_of_main_that_was_read_at_its_end_counts() -> None:
    totals = settle(evidence_of(), command(cpu=2.75, main_seconds=1.45, has_reaped=True))
    assert seconds_of(totals) == pytest.approx([1.2, 1.3, 2.5])


def test_time_from_before_counts_if_the_run_has_begun_before() -> None:
    facts = KernelFacts(tracked_seconds=4.0, counts_over=4.0, counts_before=True)
    totals = settle(evidence_of(), facts)
    assert seconds_of(totals) == [1.25, 0.5, 1.75]
    assert (totals['seconds'], totals['cpu']['system'][0]) == (4.0, 6.0)
    assert totals['record'] == {'late': 0, 'tracked_seconds': 4.0}


def test_a_run_without_a_span_has_no_time_of_the_machine() -> None:
    evidence = evidence_of() | {'seconds': 0.0}
    assert settle(evidence, KernelFacts(counts_over=0.5))['cpu']['system'] == (None, 2.0)


@pytest.mark.parametrize(
    ('cpu', 'lineage', 'reason'),
    [
        ({'counts_reaped': False}, {}, 'uncounted'),
        ({'is_ignored': True}, {}, 'ignored'),
        ({}, {'may_miss_orphans': True}, 'orphans'),
        ({'has_orphans': True}, {}, 'unreaped'),
        ({'unreceived': 0.06}, {}, 'unreaped'),  # a namespace has ended
        ({'unreceived': 0.04}, {}, None),
    ],
)
def test_time_of_descendants_that_nobody_reports(
    cpu: dict[str, Any], lineage: dict[str, Any], reason: str | None
) -> None:
    found = bounded(settle(evidence_of(cpu=cpu, lineage=lineage)))
    expected = {} if reason is None else {'cpu descendants': reason, 'cpu combined': reason}
    assert {path: name for path, name in found.items() if path.startswith('cpu')} == expected


@pytest.mark.parametrize(('reaped', 'is_bound'), [(0.3, False), (0.26, False), (0.2, True), (None, True)])
def test_more_was_reaped_outside_than_the_launcher_has_reaped(reaped: float | None, is_bound: bool) -> None:
    evidence = evidence_of(cpu={'unreceived': 0.3, 'has_orphans': True})
    found = bounded(settle(evidence, command(orphans=None if reaped is None else OrphansUse(reaped, 9))))
    assert ('cpu combined' in found) is is_bound


# CPU maxima


def maxima_of(totals: Any) -> list[float]:
    return [totals['cpu'][group][1] for group in GROUPS]


def bounded_maxima(totals: Any) -> list[str]:
    """Return the figures of the CPU that are lower bounds although their means are exact."""
    found = totals['lower_bounds']
    means = {path for path in found if '.mean_' in path}
    return sorted(path for path in found if path.startswith('cpu') and path.replace('.max_', '.mean_') not in means)


OF_DESCENDANTS = [
    'cpu_utilization.combined.max_hardware_percent',
    'cpu_utilization.combined.max_sum_percent',
    'cpu_utilization.descendants.max_hardware_percent',
    'cpu_utilization.descendants.max_sum_percent',
]


def test_a_maximum_rises_with_a_mean_that_is_above_it() -> None:
    totals = settle(evidence_of(), command(cpu=3.25))
    assert seconds_of(totals) == [1.0, 2.0, 3.0]  # in 2 s
    assert maxima_of(totals) == [0.75, 1.0, 1.5]
    assert bounded_maxima(totals) == OF_DESCENDANTS
    assert set(totals['lower_bounds'].values()) == {REASONS['between']}


def test_time_that_no_sample_has_seen_may_have_made_a_new_maximum() -> None:
    totals = settle(evidence_of(), command(cpu=1.875))
    assert seconds_of(totals) == [1.0, 0.625, 1.625]
    assert maxima_of(totals) == [0.75, 0.5, 1.0]
    assert bounded_maxima(totals) == OF_DESCENDANTS


@pytest.mark.parametrize('cpu', [1.75, 1.8])
def test_time_that_may_be_rounding_makes_no_maximum_doubtful(cpu: float) -> None:
    assert settle(evidence_of(), command(cpu=cpu))['lower_bounds'] == {}


def test_a_maximum_is_not_below_its_mean() -> None:
    totals = settle(evidence_of(cpu={'main': (1.0, 0.485)}))
    assert maxima_of(totals)[0] == 0.5
    assert totals['lower_bounds'] == {}


def test_in_a_span_below_one_window_the_mean_is_the_maximum() -> None:
    totals = settle(evidence_of() | {'seconds': 0.4}, command(cpu=2.0))
    assert maxima_of(totals) == pytest.approx([2.5, 1.875, 4.375])
    assert totals['lower_bounds'] == {}


def test_an_unknown_maximum_stays_unknown() -> None:
    assert settle(evidence_of(cpu={'main': (1.0, None)}))['cpu']['main'] == (1.0, None)


def test_maxima_and_threads_after_the_end_of_the_sampler_are_missing() -> None:
    facts = cut_off(main_seconds=1.25)
    totals = settle(evidence_of(ceilings=(20 * MB, 0, 0)), facts)
    assert bounded_maxima(totals) == [
        'cpu_utilization.combined_n_threads',
        'cpu_utilization.descendants_n_threads',
        'cpu_utilization.main.max_hardware_percent',
        'cpu_utilization.main.max_sum_percent',
        'cpu_utilization.main_n_threads',
    ]
    assert {'cpu_utilization.system.mean_sum_percent', 'max_ram.system'} <= totals['lower_bounds'].keys()
    assert 'cpu_utilization.main.mean_sum_percent' not in totals['lower_bounds']


# RAM


@pytest.mark.parametrize(
    ('faults', 'is_bound'),
    [
        (0, False),
        (100, False),  # all of them had been seen
        (110, True),  # ten pages, one of them huge
    ],
)
def test_orphans_may_have_had_a_page_for_each_page_fault_that_no_sample_saw(faults: int, is_bound: bool) -> None:
    evidence = evidence_of(ceilings=(20 * MB, 10 * MB, 26 * MB))
    found = bounded(settle(evidence, command(orphans=OrphansUse(0.0, faults))))
    reason = {'ram descendants': 'between', 'ram combined': 'between'} if is_bound else {}
    assert {path: name for path, name in found.items() if 'cpu' not in path} == reason


def test_a_command_with_an_orphan_that_no_sample_saw_has_descendants() -> None:
    totals = settle(alone(), command(orphans=OrphansUse(0.0, 9)))
    assert totals['ram']['descendants'] == (None, None, None)


@pytest.mark.parametrize(('most', 'is_bound'), [(15 * MB, False), (17 * MB, True)])
def test_private_memory_that_a_child_shared_before_it_was_read_may_be_missing(most: int, is_bound: bool) -> None:
    evidence = evidence_of(main=(20 * MB, 15 * MB, 15 * MB), combined=(26 * MB, 26 * MB, 15 * MB))
    evidence['ram']['most_private'] = most
    paths = ['max_ram.main.private_rss', 'max_ram.main.shared_rss'] if is_bound else []
    assert list(settle(evidence)['lower_bounds']) == paths


def test_without_descendants_main_is_all() -> None:
    evidence = alone((20 * MB, 15 * MB, 5 * MB), ceilings=(20 * MB, 0, 20 * MB))
    totals = settle(evidence)
    assert totals['ram']['main'] == totals['ram']['combined'] == (20 * MB, 15 * MB, 5 * MB)
    assert totals['ram']['descendants'] == NOTHING
    assert totals['lower_bounds'] == {}


def test_a_root_that_was_seen_as_part_of_all_alone() -> None:
    evidence = evidence_of(UNKNOWN, UNKNOWN, (20 * MB, None, None), lineage=ALONE)
    assert totals_of(settle(evidence)) == [20 * MB, 0, 20 * MB]


def test_descendants_of_whose_memory_nothing_was_read_are_unknown() -> None:
    main = (20 * MB, 15 * MB, 5 * MB)
    for read in (UNKNOWN, NOTHING):
        totals = settle(evidence_of(main, read, main))
        assert totals['ram']['descendants'] == UNKNOWN
        assert totals_of(totals) == [20 * MB, None, 20 * MB]


def test_what_all_had_and_main_never_had_descendants_had() -> None:
    assert totals_of(settle(evidence_of((20 * MB, None, None), (10 * MB, None, None), (40 * MB, None, None)))) == [
        20 * MB, 20 * MB, 40 * MB,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ('ceiling', 'is_bound'), [(0, False), (10_000_000, False), (10_260_000, False), (10_300_000, True)]
)
def test_a_ceiling_above_a_figure_marks_it(ceiling: int, is_bound: bool) -> None:
    found = bounded(settle(evidence_of(ceilings=(0, ceiling, 0))))
    assert found == ({'ram descendants': 'between'} if is_bound else {})


def test_wait4_raises_a_command_without_descendants() -> None:
    totals = settle(alone(), command(50 * MB, cpu=1.25))
    assert totals_of(totals) == [50 * MB, 0, 50 * MB]
    assert totals['ram']['main'] == (50 * MB, 15 * MB, 5 * MB)
    # The total is exact, and its parts are from before.
    assert totals['lower_bounds'] == {
        f'max_ram.{group}.{part}_rss': REASONS['between']
        for group in ('main', 'combined')
        for part in ('private', 'shared')
    }


def test_wait4_proves_that_page_faults_have_brought_no_memory() -> None:
    evidence = alone((20 * MB, 15 * MB, 5 * MB), ceilings=(300 * MB, 0, 300 * MB))
    assert bounded(settle(evidence)) == {'ram main': 'between', 'ram combined': 'between'}
    assert bounded(settle(evidence, command(20 * MB))) == {}


def test_a_peak_that_the_launcher_may_have_lent_proves_nothing() -> None:
    totals = settle(alone((2 * MB, MB, MB)), command(14 * MB, launcher_peak=14 * MB))
    assert totals_of(totals) == [2 * MB, 0, 2 * MB]
    assert bounded(totals) == {'ram main': 'between', 'ram combined': 'between'}
    unknown = settle(alone((2 * MB, MB, MB)), command(50 * MB, launcher_peak=None))
    assert totals_of(unknown) == [2 * MB, 0, 2 * MB]


def test_of_a_command_that_was_never_seen_nothing_is_known() -> None:
    totals = settle(alone(UNKNOWN), command(4 * MB, cpu=1.25))
    assert totals['ram']['main'] == totals['ram']['combined'] == UNKNOWN
    assert totals['ram']['descendants'] == NOTHING
    assert totals['lower_bounds'] == {}
    assert totals_of(settle(alone(UNKNOWN), command(40 * MB))) == [40 * MB, 0, 40 * MB]


def test_a_peak_above_what_main_can_have_had_is_a_descendants() -> None:
    totals = settle(evidence_of(ceilings=(20 * MB, 10 * MB, 26 * MB)), command(300 * MB))
    assert totals_of(totals) == [20 * MB, 300 * MB, 300 * MB]
    assert bounded(totals) == {'ram descendants': 'between', 'ram combined': 'between'}


def test_a_peak_that_main_or_a_descendant_has_had_marks_both() -> None:
    totals = settle(evidence_of(ceilings=(400 * MB, 10 * MB, 400 * MB)), command(300 * MB))
    assert totals_of(totals) == [20 * MB, 10 * MB, 300 * MB]
    assert bounded(totals) == {'ram main': 'between', 'ram descendants': 'between', 'ram combined': 'between'}


def test_a_peak_that_main_and_descendants_may_have_had_together_contradicts_neither() -> None:
    totals = settle(evidence_of(ceilings=(400 * MB, 10 * MB, 400 * MB)), command(28 * MB))
    assert totals_of(totals) == [20 * MB, 10 * MB, 28 * MB]


def children(peak: int, before: int = 5 * MB, own_faults: int = 0) -> KernelFacts:
    return KernelFacts(children=ChildrenUse(before, peak, own_faults))


def test_a_child_that_was_larger_than_the_program_that_tracks_itself_is_taken_over() -> None:
    totals = settle(evidence_of(ceilings=(20 * MB, 10 * MB, 26 * MB)), children(300 * MB))
    assert totals_of(totals) == [20 * MB, 300 * MB, 300 * MB]
    assert bounded(totals) == {'ram descendants': 'between', 'ram combined': 'between'}


@pytest.mark.parametrize(
    ('facts', 'lineage'),
    [
        (children(300 * MB, before=300 * MB), {}),  # it was reaped before the tracking
        (children(300 * MB), {'older_has_ended': True}),  # it may have had its peak before
        (children(20 * MB), {}),  # vfork has lent it the peak of the program
        (children(20 * MB + (1 << 20)), {}),  # sizes of the kernel are no more exact
    ],
)
def test_a_peak_that_need_not_be_a_childs_changes_nothing(facts: KernelFacts, lineage: dict[str, Any]) -> None:
    totals = settle(evidence_of(ceilings=(20 * MB, 10 * MB, 26 * MB), lineage=lineage), facts)
    assert totals_of(totals) == [20 * MB, 10 * MB, 26 * MB]


@pytest.mark.parametrize(('of_trackers', 'expected'), [(90, NOTHING), (60, UNKNOWN), (0, UNKNOWN)])
def test_processes_that_start_samplers_are_no_descendants(of_trackers: int, expected: tuple[int | None, ...]) -> None:
    main = (20 * MB, 15 * MB, 5 * MB)
    totals = settle(evidence_of(main, UNKNOWN, main), children(6 * MB, own_faults=of_trackers))
    assert totals['ram']['descendants'] == expected


def test_a_descendant_that_was_seen_stays_one() -> None:
    totals = settle(evidence_of(), children(6 * MB, own_faults=90))
    assert totals_of(totals) == [20 * MB, 10 * MB, 26 * MB]


@pytest.mark.parametrize(
    ('reasons', 'cpu', 'lineage', 'reason'),
    [
        (('unreadable',), {}, {}, 'unreadable'),
        (('too_large',), {}, {}, 'too_large'),
        (('copy', 'too_large'), {}, {}, 'too_large'),
        (('copy',), {}, {}, 'copy'),
        ((), {'has_orphans': True}, {}, 'orphans'),
        ((), {}, {'may_miss_orphans': True}, 'orphans'),
        ((), {'is_ignored': True}, {}, 'ignored'),
    ],
)
def test_reasons_of_groups(reasons: tuple[str, ...], cpu: dict[str, Any], lineage: dict[str, Any], reason: str) -> None:
    found = bounded(settle(evidence_of(reasons=reasons, cpu=cpu, lineage=lineage)))
    assert {path: name for path, name in found.items() if path.startswith('ram')} == {
        'ram descendants': reason, 'ram combined': reason,
    }  # fmt: skip


def test_a_tracked_process_that_vanished_may_have_had_more() -> None:
    found = bounded(settle(evidence_of(reasons=('vanished',))))
    assert found == {
        f'{of} {group}': 'vanished' for of in ('ram', 'cpu') for group in GROUPS if f'{of} {group}' != 'ram descendants'
    }
    assert bounded(settle(evidence_of(reasons=('vanished',)), command(20 * MB))) == {}


def test_a_sampler_that_was_cut_off_marks_everything() -> None:
    expected = {f'{of} {group}': 'killed' for of in ('ram', 'cpu') for group in GROUPS}
    assert bounded(settle(evidence_of(), KernelFacts(is_cut_off=True))) == expected


def test_maxima_of_gpus_after_the_sampler_was_cut_off_are_lower_bounds() -> None:
    gpu = {'count': 1, 'system': 5, 'main': None, 'descendants': 0, 'combined': 3, 'max_sum': 50.0}
    marked = settle(evidence_of() | {'gpu': gpu}, KernelFacts(is_cut_off=True))['lower_bounds']
    assert [path for path in marked if 'gpu' in path] == [
        'max_gpu_ram.descendants',
        'max_gpu_ram.combined',
        'max_gpu_ram.system',
        'gpu_utilization.gpu_percentages.max_sum_percent',
        'gpu_utilization.gpu_percentages.max_hardware_percent',
    ]
    without = settle(evidence_of() | {'gpu': gpu | {'count': 0}}, KernelFacts(is_cut_off=True))['lower_bounds']
    assert not any('gpu' in path for path in without)


def test_what_came_after_the_sampler_was_cut_off_may_be_mains() -> None:
    evidence = evidence_of(ceilings=(20 * MB, 10 * MB, 26 * MB))
    totals = settle(evidence, cut_off(300 * MB))
    assert totals_of(totals) == [20 * MB, 10 * MB, 300 * MB]
    assert bounded(totals)['ram main'] == 'between'
    facts = KernelFacts(children=children(300 * MB).children, is_cut_off=True)
    assert totals_of(settle(evidence, facts)) == [20 * MB, 10 * MB, 26 * MB]


def test_wait4_bounds_main_after_the_sampler_was_cut_off() -> None:
    facts = cut_off(22 * MB, main_seconds=1.25)
    totals = settle(evidence_of(ceilings=(20 * MB, 0, 0)), facts)
    assert totals_of(totals) == [20 * MB, 10 * MB, 26 * MB]
    assert bounded(totals) == {
        'ram main': 'between', 'ram descendants': 'killed', 'ram combined': 'killed',
        'cpu descendants': 'killed', 'cpu combined': 'killed',
    }  # fmt: skip


# Context switches


def with_io(evidence: Any) -> Any:
    return evidence | {'io': dict.fromkeys(GROUPS, IO)}


@pytest.mark.parametrize(
    ('evidence', 'facts', 'expected'),
    [
        (alone(), NO_FACTS, {}),
        (alone(), KernelFacts(own_switches=(1, 2)), {'main': (1, 2)}),
        (alone(), command(), {'main': (7, 8), 'descendants': (0, 0), 'combined': (7, 8)}),
        (evidence_of(), command(), {'combined': (7, 8)}),
        (evidence_of(), command(orphans=OrphansUse(0.0, 9)), {}),
        (evidence_of(), command(orphans=None), {}),
        (evidence_of(cpu={'is_ignored': True}), command(), {}),
        (evidence_of(lineage={'faults_of_waited_for': None}), command(), {}),
    ],
)
def test_context_switches_are_those_that_the_kernel_has_reported(
    evidence: Any,
    facts: KernelFacts,
    expected: dict[str, tuple[int, int]],
) -> None:
    totals = settle(with_io(evidence), facts)
    assert {group: totals['io'][group]['switches'] for group in GROUPS} == {
        group: expected.get(group, (None, None)) for group in GROUPS
    }
    assert totals['io']['main']['faults'] == (3, 4)


# Lower bounds of I/O


def bounded_io(totals: Any) -> dict[str, str]:
    """Return the reasons, by their short names, for the bytes that groups have read."""
    names = {text: name for name, text in REASONS.items()}
    return {
        path.split('.')[1]: names[text]
        for path, text in totals['lower_bounds'].items()
        if path.startswith('io.') and path.endswith('.read')
    }


@pytest.mark.parametrize(
    ('cpu', 'facts', 'reasons'),
    [
        ({}, NO_FACTS, {}),
        ({}, command(), {}),
        ({'is_ignored': True}, command(), dict.fromkeys(('descendants', 'combined'), 'ignored')),
        ({'has_orphans': True}, command(), dict.fromkeys(('descendants', 'combined'), 'unreaped')),
        ({}, command(orphans=OrphansUse(0.1, 9)), dict.fromkeys(('descendants', 'combined'), 'unreaped')),
        ({}, cut_off(main_seconds=1.25), dict.fromkeys(GROUPS, 'killed')),
        ({}, KernelFacts(is_cut_off=True), dict.fromkeys(GROUPS, 'killed')),
    ],
)
def test_io_is_missing_with_cpu_time_and_that_of_orphans(
    cpu: dict[str, Any], facts: KernelFacts, reasons: dict[str, str]
) -> None:
    assert bounded_io(settle(with_io(evidence_of(cpu=cpu)), facts)) == reasons


def test_figures_of_io_that_are_known_are_named() -> None:
    totals = settle(with_io(evidence_of(cpu={'is_ignored': True})))
    assert [path for path in totals['lower_bounds'] if path.startswith('io.combined')] == [
        'io.combined.read',
        'io.combined.written',
        'io.combined.read_by_calls',
        'io.combined.written_by_calls',
        'io.combined.max_read_per_second',
        'io.combined.max_read_by_calls_per_second',
        'io.combined.max_written_by_calls_per_second',
        'io.combined.minor_page_faults',
        'io.combined.major_page_faults',
    ]


def test_without_the_section_no_figure_of_io_is_named() -> None:
    assert bounded_io(settle(evidence_of(cpu={'is_ignored': True}))) == {}


# Properties of any evidence


sizes = st.integers(0, 50).map(lambda count: count * MB)
maybe = st.none() | sizes
seconds = st.floats(0, 9)
rates = st.none() | st.floats(0, 4)


@st.composite
def groups_of_ram(draw: st.DrawFn) -> list[tuple[int | None, ...]]:
    """Draw sizes as they are read: private and shared memory are parts of a total."""
    found: list[tuple[int | None, ...]] = []
    for _ in GROUPS:
        total = draw(maybe)
        is_split = total is not None and draw(st.booleans())
        found.append((total, *[draw(st.integers(0, total)) if is_split else None for _ in (PRIVATE, SHARED)]))
    return found


@st.composite
def any_evidence(draw: st.DrawFn) -> Any:
    main, descendants, before, adopted = (draw(seconds) for _ in range(4))
    return evidence_of(
        *draw(groups_of_ram()),
        ceilings=draw(st.tuples(sizes, sizes, sizes)),
        reasons=tuple(draw(st.sets(st.sampled_from(['unreadable', 'too_large', 'copy', 'vanished'])))),
        cpu={
            'main': (main, draw(rates)),
            'descendants': (descendants, draw(rates)),
            'combined': (main + descendants, draw(rates)),
            'before': before,
            'unreceived': min(adopted, descendants),
            **{name: draw(st.booleans()) for name in ('has_reaped', 'has_orphans', 'is_ignored', 'counts_reaped')},
        },
        lineage={
            'has_descendants': draw(st.booleans()),
            'faults_of_waited_for': draw(st.none() | st.integers(0, 9)),
            **{name: draw(st.booleans()) for name in ('older_has_ended', 'may_miss_orphans')},
        },
    )


any_command = st.builds(
    CommandUse,
    cpu_seconds=seconds,
    peak=sizes,
    launcher_peak=maybe,
    switches=st.just((1, 2)),
    orphans=st.none() | st.builds(OrphansUse, seconds, st.integers(0, 9000), sizes),
    main_seconds=st.none() | seconds,
    has_reaped=st.booleans(),
)
any_facts = st.builds(
    KernelFacts,
    tracked_seconds=st.none() | seconds,
    counts_over=st.none() | seconds,
    own_switches=st.none(),
    command=st.none() | any_command,
    children=st.none() | st.builds(ChildrenUse, sizes, sizes, st.integers(0, 9)),
    is_cut_off=st.booleans(),
    counts_before=st.booleans(),
)


@given(any_evidence(), any_facts)
def test_it_is_a_function_that_changes_nothing(evidence: Any, facts: KernelFacts) -> None:
    before = copy.deepcopy(evidence)
    assert settle(evidence, facts) == settle(evidence, facts)
    assert evidence == before


@given(any_evidence(), any_facts)
def test_all_have_at_least_what_each_group_has_and_at_most_the_sum(evidence: Any, facts: KernelFacts) -> None:
    ram = settle(evidence, facts)['ram']
    for part in ('main', 'descendants'):
        for of_part, of_all in zip(ram[part], ram['combined'], strict=True):
            assert not of_part or of_all >= of_part
    main, descendants, combined = (ram[group][TOTAL] for group in GROUPS)
    if None not in (main, descendants, combined):
        assert combined <= main + descendants


@given(any_evidence(), any_facts)
def test_private_and_shared_memory_are_parts_of_the_total(evidence: Any, facts: KernelFacts) -> None:
    ram = settle(evidence, facts)['ram']
    for group in GROUPS:
        total, *parts = ram[group]
        for part in parts:
            assert part is None or 0 <= part <= total


@given(any_evidence(), any_facts)
def test_no_figure_is_below_what_was_read(evidence: Any, facts: KernelFacts) -> None:
    totals = settle(evidence, facts)
    has_descendants = totals['ram']['descendants'] != NOTHING
    for group in GROUPS if has_descendants else ('main', 'combined'):
        for found, read in zip(totals['ram'][group], evidence['ram'][group], strict=True):
            assert not read or found is None or found >= read
    assert seconds_of(totals)[0] >= evidence['cpu']['main'][0]
    assert seconds_of(totals)[1] >= evidence['cpu']['descendants'][0]
    assert seconds_of(totals)[2] == sum(seconds_of(totals)[:2])


@given(any_evidence(), any_facts)
def test_no_maximum_is_below_the_mean(evidence: Any, facts: KernelFacts) -> None:
    totals = settle(evidence, facts)
    for group in (*GROUPS, 'system'):
        amount, largest = totals['cpu'][group]
        if totals['seconds'] > 0 and amount is not None and largest is not None:
            assert amount / totals['seconds'] <= largest


@given(any_evidence(), any_facts)
def test_each_lower_bound_is_a_figure_that_is_known_and_each_reason_a_sentence(
    evidence: Any,
    facts: KernelFacts,
) -> None:
    totals = settle(evidence, facts)
    for path, reason in totals['lower_bounds'].items():
        assert reason in REASONS.values()
        if path == 'max_ram.system':
            assert facts.is_cut_off
        elif path.startswith('max_ram.'):
            _, group, figure = path.split('.')
            kind = ('total_rss', 'private_rss', 'shared_rss').index(figure)
            assert totals['ram'][group][kind] is not None
        elif not path.endswith('_n_threads'):
            assert totals['cpu'][path.split('.')[1]]['.max_' in path] is not None


@given(any_evidence(), any_facts)
def test_a_ceiling_well_above_a_figure_marks_it(evidence: Any, facts: KernelFacts) -> None:
    totals = settle(evidence, facts)
    ceilings = dict(zip(GROUPS, evidence['ram']['ceilings'], strict=True))
    if facts.command is not None:
        ceilings['main'] = 0  # wait4 may say that it was less
    if totals['ram']['descendants'] == NOTHING:
        ceilings = {}
    for group, ceiling in ceilings.items():
        total = totals['ram'][group][TOTAL]
        if total is not None and ceiling >= total + 2 * MB:
            assert f'max_ram.{group}.total_rss' in totals['lower_bounds']


def test_each_reason_is_documented() -> None:
    page = ' '.join((Path(__file__).parents[4] / 'docs' / 'measuring.rst').read_text().split())
    assert [text for text in REASONS.values() if f'* - {text} - ' not in page] == []


def test_all_figures_of_io_may_be_lower_bounds() -> None:
    assert [name for names in FIELDS.values() for name in names] == [field.name for field in fields(IOValues)]
