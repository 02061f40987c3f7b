from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.limits import used_in
from gpu_tracker.resources.rusage import count_ended, doubt_bounds, reconcile, settle_children, settle_command

if TYPE_CHECKING:
    from collections.abc import Iterator

MB = 10**6
UNKNOWN = [None, None, None]
NOTHING = [0, 0, 0]
GROUPS = ('main', 'descendants', 'combined')
TOTAL, PRIVATE, SHARED = 0, 1, 2


def totals_of(
    main: list[int | None],
    descendants: list[int | None],
    combined: list[int | None],
    *,
    upper: tuple[int | None, int | None, int | None] = (None, None, None),
    lower: dict[str, list[int | None]] | None = None,
    beside: int | None = None,
    **record: object,
) -> dict[str, Any]:
    """Return totals whose figures are certain, but for what ``lower`` says."""
    figures = dict(zip(GROUPS, (main, descendants, combined), strict=True))
    return copy.deepcopy(
        {
            'ram': {
                **figures,
                'lower': copy.deepcopy(figures | (lower or {})),
                'upper': dict(zip(GROUPS, upper, strict=True)),
                'beside_descendants': beside,
            },
            'cpu': {'main': [0.4, 1.0], 'descendants': [0.35, 1.0], 'combined': [0.75, 1.0]},
            'record': {
                'cpu_before': 0.01,
                'unreaped': 0.05,
                'adopted': 0.04,
                'has_clocks': False,
                'cpu_is_lower_bound': False,
                'has_reaped': True,
                'has_descendants': True,
                'faults_of_waited_for': 90,
                'most_waited_for': None,
                'older_has_ended': False,
                'doubled': 0,
                'launcher_peak': 10 * MB,
                **record,
            },
        }
    )


def small_command(**record: object) -> dict[str, Any]:
    """Return those of a command of 2 MB, whose child of 1 MB was seen."""
    return totals_of([2 * MB, None, None], [MB, None, None], [3 * MB, None, None], beside=3 * MB, **record)


def totals_only(totals: dict[str, Any]) -> list[int | None]:
    return [totals['ram'][group][TOTAL] for group in GROUPS]


def test_the_peak_of_an_ended_child_is_not_put_beside_what_main_has_had_at_another_time() -> None:
    totals = totals_of(
        [200 * MB, None, None],
        [5 * MB, None, None],
        [205 * MB, None, None],
        beside=205 * MB,
        exit_records=2,
        ended_main_peak=None,
        ended_peak=40 * MB,
        ended_copies_peak=0,
    )
    count_ended(totals)
    assert totals_only(totals) == [200 * MB, 40 * MB, 205 * MB]


def test_the_upper_bounds_have_room_for_ended_processes_that_they_know_nothing_of() -> None:
    """Three daemons of 18 MB, each of which may have been there beside the others."""
    totals = totals_of(
        [2 * MB, None, None],
        [5 * MB, None, None],
        [7 * MB, None, None],
        upper=(2 * MB, 6 * MB, 8 * MB),
        exit_records=3,
        ended_peak=18 * MB,
        ended_unseen_peaks=54 * MB,
    )
    count_ended(totals)
    assert totals_only(totals) == [2 * MB, 18 * MB, 18 * MB]
    assert totals['ram']['upper'] == {'main': 2 * MB, 'descendants': 60 * MB, 'combined': 62 * MB}
    assert totals['record']['most_waited_for'] is None


def test_what_the_command_was_told_of_its_children_replaces_the_ticks_that_were_read() -> None:
    totals = small_command()
    settle_command(totals, 0.727, 0)
    cpu = totals['cpu']
    assert cpu['main'][0] == 0.4
    assert cpu['descendants'][0] == pytest.approx(0.05 + 0.717 - 0.4)  # 0.05 s were used by others that still run
    assert cpu['combined'][0] == pytest.approx(0.4 + 0.05 + 0.717 - 0.4)


def test_what_the_launcher_has_reaped_replaces_what_was_seen_of_it() -> None:
    totals = small_command()
    settle_command(totals, 0.727, 0, orphans_seconds=0.13)
    assert totals['cpu']['descendants'][0] == pytest.approx(0.05 - 0.04 + 0.13 + 0.717 - 0.4)


def test_what_only_clocks_have_counted_of_descendants_stays() -> None:
    totals = small_command(has_clocks=True)
    totals['cpu']['descendants'][0] = 2.0
    settle_command(totals, 0.727, 0, orphans_seconds=0.13)
    assert totals['cpu']['descendants'][0] == 2.0
    assert totals['cpu']['combined'][0] == 2.4


def test_a_command_without_children_has_used_all_of_it_itself() -> None:
    totals = small_command(has_reaped=False, unreaped=0.0)
    settle_command(totals, 0.46, 0)
    assert totals['cpu']['main'][0] == pytest.approx(0.45)
    assert totals['cpu']['descendants'][0] == 0.0


def test_a_peak_above_the_mark_of_main_is_a_descendants() -> None:
    totals = totals_of(
        [1_700_000, 900_000, 800_000],
        [1_800_000, 1_000_000, 800_000],
        [3_500_000, 2_700_000, 800_000],
        upper=(1_700_000, None, None),
        beside=3_500_000,
    )
    settle_command(totals, 0.5, 309 * MB)
    ram = totals['ram']
    assert ram['main'] == [1_700_000, 900_000, 800_000]
    assert ram['descendants'] == [309 * MB, 308_200_000, 800_000]
    # 3.5 MB were there at once, 1.8 of them the descendants'; the rest was beside the peak.
    assert ram['combined'][TOTAL] == 310_700_000
    assert ram['combined'][PRIVATE] + ram['combined'][SHARED] == 310_700_000
    assert ram['lower']['descendants'][TOTAL] == 309 * MB
    assert ram['lower']['combined'][TOTAL] == 309 * MB
    assert ram['upper']['main'] == 1_700_000


def test_a_peak_above_what_descendants_can_have_had_is_mains() -> None:
    totals = totals_of(
        [2 * MB, 2 * MB, 0], [MB, MB, 0], [3 * MB, 3 * MB, 0], upper=(None, 20 * MB, None), beside=3 * MB
    )
    settle_command(totals, 0.5, 50 * MB)
    ram = totals['ram']
    assert ram['main'] == [50 * MB, 50 * MB, 0]
    assert ram['descendants'] == [MB, MB, 0]
    assert ram['combined'][TOTAL] == 50 * MB
    assert ram['lower']['main'][TOTAL] == 50 * MB
    assert ram['upper']['main'] == 50 * MB


def test_a_peak_that_may_be_anybodys_makes_both_unknown() -> None:
    totals = small_command()
    settle_command(totals, 0.5, 50 * MB)
    ram = totals['ram']
    assert ram['main'] == ram['descendants'] == UNKNOWN
    assert ram['combined'][TOTAL] == 50 * MB
    assert [ram['lower'][group][TOTAL] for group in GROUPS] == [2 * MB, MB, 50 * MB]
    assert ram['upper']['main'] == 50 * MB


def test_a_peak_that_main_and_its_descendants_have_together_contradicts_neither() -> None:
    totals = totals_of([30 * MB, None, None], [25 * MB, None, None], [45 * MB, None, None], beside=45 * MB)
    settle_command(totals, 0.5, 32 * MB)
    assert totals_only(totals) == [30 * MB, 25 * MB, 45 * MB]


def test_without_descendants_the_peak_is_mains() -> None:
    totals = totals_of([2 * MB, MB, MB], UNKNOWN, [2 * MB, MB, MB], upper=(None, 0, None), has_descendants=False)
    settle_command(totals, 0.5, 50 * MB)
    ram = totals['ram']
    assert ram['main'] == ram['combined'] == [50 * MB, 49 * MB, MB]
    assert ram['descendants'] == NOTHING
    assert ram['upper'] == {'main': 50 * MB, 'descendants': 0, 'combined': 50 * MB}


def test_a_peak_below_the_launchers_own_is_a_bound_alone() -> None:
    totals = totals_of([2 * MB, None, None], UNKNOWN, [2 * MB, None, None], has_descendants=False)
    settle_command(totals, 0.5, 8 * MB)
    ram = totals['ram']
    assert totals_only(totals) == [2 * MB, 0, 2 * MB]
    assert ram['upper'] == {'main': 8 * MB, 'descendants': 0, 'combined': 8 * MB}


def test_the_own_mark_of_main_bounds_it_more_closely() -> None:
    totals = totals_of([2 * MB, None, None], UNKNOWN, [2 * MB, None, None], upper=(3 * MB, 0, 3 * MB))
    settle_command(totals, 0.5, 8 * MB)
    assert totals['ram']['upper']['main'] == 3 * MB


def test_of_a_command_that_was_never_seen_the_bound_alone_is_known() -> None:
    totals = totals_of(UNKNOWN, UNKNOWN, UNKNOWN, has_descendants=False)
    settle_command(totals, 0.5, 8 * MB)
    ram = totals['ram']
    assert ram['main'] == ram['combined'] == UNKNOWN
    assert ram['descendants'] == NOTHING
    assert ram['upper'] == {'main': 8 * MB, 'descendants': 0, 'combined': 8 * MB}


def test_none_of_the_descendants_that_were_waited_for_was_larger() -> None:
    totals = totals_of(
        [2 * MB, None, None], [MB, None, None], [3 * MB, None, None], upper=(2 * MB, None, None), most_waited_for=3
    )
    settle_command(totals, 0.5, 8 * MB)
    assert totals['ram']['upper'] == {'main': 2 * MB, 'descendants': 24 * MB, 'combined': 26 * MB}


PROGRAM = [12 * MB, 8 * MB, 4 * MB]


def own_program(descendants: list[int | None], **record: object) -> dict[str, Any]:
    beside = None if descendants[TOTAL] is None else PROGRAM[TOTAL] + descendants[TOTAL]
    combined = PROGRAM if beside is None else [beside, None, None]
    return totals_of(PROGRAM, descendants, combined, upper=(13 * MB, None, None), beside=beside, **record)


def test_a_child_that_was_larger_than_the_program_is_taken_over() -> None:
    totals = own_program([5 * MB, 4 * MB, MB])
    settle_children(totals, 11 * MB, 459 * MB)
    assert totals_only(totals) == [12 * MB, 459 * MB, 471 * MB]
    assert totals['ram']['descendants'] == [459 * MB, 458 * MB, MB]
    assert totals['ram']['lower']['descendants'][TOTAL] == 459 * MB


def test_a_child_that_nobody_has_seen_is_taken_over_and_its_split_is_unknown() -> None:
    totals = own_program(UNKNOWN)
    settle_children(totals, 11 * MB, 459 * MB)
    assert totals['ram']['descendants'] == [459 * MB, None, None]
    assert totals['ram']['lower']['descendants'] == [459 * MB, None, None]
    assert totals['ram']['combined'][TOTAL] == 459 * MB


@pytest.mark.parametrize(('of_starters', 'expected'), [(90, NOTHING), (60, UNKNOWN), (0, UNKNOWN)])
def test_processes_that_start_samplers_are_no_descendants(of_starters: int, expected: list[int | None]) -> None:
    totals = own_program(UNKNOWN)
    settle_children(totals, 11 * MB, 11 * MB, of_starters)
    assert totals['ram']['descendants'] == expected


def test_a_descendant_that_was_seen_stays_one_beside_processes_that_start_samplers() -> None:
    totals = own_program([MB, MB, 0])
    settle_children(totals, 11 * MB, 11 * MB, 90)
    assert totals['ram']['descendants'] == [MB, MB, 0]


def test_a_child_is_taken_over_also_where_none_was_believed_to_be() -> None:
    totals = own_program(UNKNOWN, has_descendants=False)
    reconcile(totals)  # as the sampler has published it
    assert totals['ram']['descendants'] == NOTHING
    settle_children(totals, 11 * MB, 459 * MB)
    assert totals['ram']['descendants'] == [459 * MB, None, None]
    assert totals['ram']['lower']['descendants'] == [459 * MB, None, None]
    assert totals['ram']['upper']['descendants'] in (None, 459 * MB)
    assert totals['record']['has_descendants']


@pytest.mark.parametrize(
    ('before', 'after', 'older_has_ended'),
    [
        (459 * MB, 459 * MB, False),  # it was waited for before the start
        (11 * MB, 459 * MB, True),  # one that was there at the start has ended, and may have peaked before
        (11 * MB, 12 * MB, False),  # vfork has lent it the peak of the program itself
        (11 * MB, 16 * MB, False),  # the kernel's marks are no more exact than this
        (13 * MB, 12 * MB, False),
    ],
)
def test_a_mark_that_need_not_be_a_childs_changes_nothing(before: int, after: int, older_has_ended: bool) -> None:
    totals = own_program([5 * MB, 4 * MB, MB], older_has_ended=older_has_ended)
    settle_children(totals, before, after)
    assert totals_only(totals) == [12 * MB, 5 * MB, 17 * MB]


def test_without_a_mark_of_the_program_itself_no_child_is_taken_over() -> None:
    totals = own_program([5 * MB, 4 * MB, MB])
    totals['ram']['upper']['main'] = None
    settle_children(totals, 0, 459 * MB)
    assert totals_only(totals) == [12 * MB, 5 * MB, 17 * MB]


def test_children_that_were_waited_for_are_bounded_by_the_largest() -> None:
    totals = own_program([5 * MB, 4 * MB, MB], most_waited_for=2)
    settle_children(totals, 9 * MB, 7 * MB)
    assert totals['ram']['upper'] == {'main': 13 * MB, 'descendants': 18 * MB, 'combined': 31 * MB}


def test_a_split_that_is_older_than_its_total_is_raised_to_it() -> None:
    totals = totals_of([459 * MB, 53 * MB, 6 * MB], [309 * MB, 0, 2 * MB], [460 * MB, 53 * MB, 6 * MB])
    reconcile(totals)
    ram = totals['ram']
    assert ram['main'] == [459 * MB, 453 * MB, 6 * MB]
    assert ram['descendants'] == [309 * MB, 307 * MB, 2 * MB]
    assert ram['combined'] == [460 * MB, 454 * MB, 6 * MB]


def test_what_the_private_memory_of_the_parts_does_not_explain_is_shared() -> None:
    totals = totals_of([10 * MB, 6 * MB, 4 * MB], [12 * MB, 7 * MB, 5 * MB], [20 * MB, 13 * MB, 3 * MB])
    reconcile(totals)
    assert totals['ram']['combined'] == [20 * MB, 13 * MB, 7 * MB]


def test_all_of_them_is_never_more_than_both_together() -> None:
    totals = totals_of(
        [10 * MB, None, None], [5 * MB, None, None], [16 * MB, None, None], lower=dict.fromkeys(GROUPS, UNKNOWN)
    )
    reconcile(totals)
    assert totals_only(totals) == [10 * MB, 5 * MB, 15 * MB]


def test_what_is_certain_of_all_and_not_mains_is_the_descendants() -> None:
    totals = totals_of([10 * MB, None, None], [5 * MB, None, None], [16 * MB, None, None])
    reconcile(totals)
    assert totals_only(totals) == [10 * MB, 6 * MB, 16 * MB]


def test_an_estimate_above_the_bound_is_cut() -> None:
    estimated = {'descendants': [4 * MB, None, None], 'combined': [10 * MB, None, None]}
    totals = totals_of(
        [10 * MB, None, None], [9 * MB, None, None], [19 * MB, None, None], lower=estimated, upper=(None, 7 * MB, None)
    )
    reconcile(totals)
    assert totals_only(totals) == [10 * MB, 7 * MB, 17 * MB]


def test_a_bound_that_contradicts_what_is_certain_is_moved_or_withdrawn() -> None:
    totals = totals_of(
        [20 * MB, None, None], [9 * MB, None, None], [25 * MB, None, None], upper=(10 * MB, 8 * MB, None)
    )
    reconcile(totals)
    assert totals_only(totals) == [20 * MB, 9 * MB, 25 * MB]
    assert totals['ram']['upper'] == {'main': None, 'descendants': 9 * MB, 'combined': None}


def test_a_split_that_the_system_does_not_tell_stays_zero() -> None:
    totals = totals_of([10 * MB, 0, 0], [5 * MB, 0, 0], [15 * MB, 0, 0])
    reconcile(totals)
    assert totals['ram']['combined'] == [15 * MB, 0, 0]
    assert totals['ram']['descendants'] == [5 * MB, 0, 0]


def test_without_descendants_they_had_nothing_for_certain() -> None:
    totals = totals_of(PROGRAM, UNKNOWN, PROGRAM, upper=(13 * MB, 2 * MB, 15 * MB), has_descendants=False)
    reconcile(totals)
    ram = totals['ram']
    assert (ram['descendants'], ram['lower']['descendants'], ram['upper']['descendants']) == (NOTHING, NOTHING, 0)
    assert ram['main'] == ram['combined'] == PROGRAM
    assert ram['upper']['combined'] == 13 * MB


def test_descendants_that_nobody_has_seen_are_unknown_and_so_is_their_bound() -> None:
    totals = totals_of(PROGRAM, NOTHING, PROGRAM, upper=(13 * MB, 0, 13 * MB), has_descendants=True)
    reconcile(totals)
    ram = totals['ram']
    assert ram['descendants'] == ram['lower']['descendants'] == UNKNOWN
    assert ram['upper']['descendants'] is None
    assert ram['combined'] == PROGRAM


sizes = st.integers(0, 50).map(lambda count: count * MB)
maybe = st.none() | sizes
figures = st.lists(maybe, min_size=3, max_size=3)


@st.composite
def random_totals(draw: st.DrawFn) -> dict[str, Any]:
    main, descendants, combined = (draw(figures) for _ in GROUPS)
    lower = {group: draw(figures) for group in GROUPS}
    for known in lower.values():
        known[TOTAL] = max([size for size in known if size is not None], default=None)
    has_descendants = bool(descendants[TOTAL]) or draw(st.booleans())
    if not has_descendants:
        lower['descendants'] = UNKNOWN
    upper = (draw(maybe), draw(maybe), draw(maybe))
    return totals_of(main, descendants, combined, lower=lower, upper=upper, has_descendants=has_descendants)


def both_known(ram: dict[str, Any], smaller: str, larger: str) -> Iterator[tuple[int, int]]:
    for kind in (TOTAL, PRIVATE, SHARED):
        if ram[smaller][kind] is not None and ram[larger][kind] is not None:
            yield ram[smaller][kind], ram[larger][kind]


Check = Callable[[dict[str, Any]], None]
PROPERTIES: list[Check] = []
"""Functions that reconcile totals and check them: totals take longer to make than to check."""


def reconciled(check: Check) -> Check:
    PROPERTIES.append(check)
    return check


@reconciled
def all_of_them_are_at_least_each_part_and_at_most_their_sum(totals: dict[str, Any]) -> None:
    reconcile(totals)
    ram = totals['ram']
    for part in ('main', 'descendants'):
        assert all(of_part <= of_all for of_part, of_all in both_known(ram, part, 'combined'))
    main, descendants, combined = totals_only(totals)
    if main is not None and descendants is not None:
        assert combined is not None
        assert combined <= main + descendants


@reconciled
def private_and_shared_are_parts_of_the_total_and_make_it_up(totals: dict[str, Any]) -> None:
    reconcile(totals)
    for group in GROUPS:
        total, private, shared = totals['ram'][group]
        assert total is not None or (private is None and shared is None)
        assert private is None or private <= total
        assert shared is None or shared <= total
        if private is not None and shared is not None:
            assert total <= private + shared or private == shared == 0


@reconciled
def each_figure_lies_within_its_bounds(totals: dict[str, Any]) -> None:
    reconcile(totals)
    ram = totals['ram']
    for group in GROUPS:
        for value, lower in zip(ram[group], ram['lower'][group], strict=True):
            assert value is None or lower is None or lower <= value
        total, upper = ram[group][TOTAL], ram['upper'][group]
        assert total is None or upper is None or total <= upper


@reconciled
def what_is_certain_is_never_lowered(totals: dict[str, Any]) -> None:
    before = copy.deepcopy(totals['ram'])
    reconcile(totals)
    ram = totals['ram']
    for group in GROUPS:
        for kind, lower in enumerate(before['lower'][group]):
            value = ram[group][kind]
            assert not lower or (ram['lower'][group][kind] or 0) >= lower
            assert not lower or value is None or value >= lower


@reconciled
def once_is_enough(totals: dict[str, Any]) -> None:
    reconcile(totals)
    once = copy.deepcopy(totals)
    reconcile(totals)
    assert totals == once


@reconciled
def zero_means_that_there_were_none(totals: dict[str, Any]) -> None:
    seen = bool(totals['ram']['descendants'][TOTAL])
    reconcile(totals)
    ram = totals['ram']
    if seen:
        assert ram['descendants'][TOTAL] != 0
    elif totals['record']['has_descendants']:
        assert ram['descendants'] == UNKNOWN
        assert ram['upper']['descendants'] != 0
    else:
        assert ram['descendants'] == ram['lower']['descendants'] == NOTHING
        assert ram['upper']['descendants'] == 0
        assert ram['main'] == ram['combined']


@given(random_totals())
def test_each_property_holds_of_any_totals(totals: dict[str, Any]) -> None:
    for check in PROPERTIES:
        check(copy.deepcopy(totals))


@given(random_totals(), sizes, sizes, st.booleans(), st.none() | st.integers(0, 5))
def test_after_a_settlement_the_figures_agree_as_well(
    totals: dict[str, Any], before: int, after: int, older_has_ended: bool, most_waited_for: int | None
) -> None:
    reconcile(totals)
    totals['record'].update(older_has_ended=older_has_ended, most_waited_for=most_waited_for)
    for settled in (copy.deepcopy(totals), totals):
        if settled is totals:
            settle_children(settled, before, after)
        else:
            settle_command(settled, 1.0, after)
        main, descendants, combined = totals_only(settled)
        if main is not None and descendants is not None:
            assert max(main, descendants) <= combined <= main + descendants
        for group in GROUPS:
            total, private, shared = settled['ram'][group]
            if private is not None and shared is not None:
                assert total <= private + shared or private == shared == 0


def test_a_limit_of_memory_is_compared_with_the_mark_of_wait4_and_with_nothing_estimated() -> None:
    certain = {'combined': [40 * MB, None, None]}
    totals = totals_of([50 * MB] * 3, NOTHING, [50 * MB] * 3, lower=certain, has_descendants=False)
    totals['gpu'] = {'combined': None}
    assert used_in(totals) == {'cpu_limit': 0.75, 'memory_limit': 40 * MB, 'gpu_memory_limit': None}
    settle_command(totals, 0.46, 90 * MB)
    assert used_in(totals) == {
        'cpu_limit': pytest.approx(0.5),
        'memory_limit': 90 * MB,
        'gpu_memory_limit': None,
    }


def with_bounds(**record: object) -> dict[str, Any]:
    return totals_of(
        [2 * MB, None, None], [MB, None, None], [3 * MB, None, None], upper=(2 * MB, 6 * MB, 8 * MB), **record
    )


STANDING = {'main': 2 * MB, 'descendants': 6 * MB, 'combined': 8 * MB}
WITHDRAWN = {'main': 2 * MB, 'descendants': None, 'combined': None}


@pytest.mark.parametrize(
    ('record', 'orphans_seconds', 'expected'),
    [
        ({}, None, STANDING),
        ({'may_miss_orphans': True}, None, WITHDRAWN),
        ({'may_miss_orphans': True}, 0.0, STANDING),
        ({'may_miss_orphans': True}, 0.001, WITHDRAWN),
        ({'may_miss_orphans': True, 'exit_records': 3}, None, STANDING),
        ({'may_miss_orphans': True, 'exit_records': 3, 'exit_records_lost': True}, None, WITHDRAWN),
        ({'has_clocks': True}, 0.0, WITHDRAWN),
        ({'cpu_is_lower_bound': True}, 0.0, WITHDRAWN),
    ],
)
def test_bounds_are_dropped_where_there_may_have_been_descendants_that_nobody_knows(
    record: dict[str, object], orphans_seconds: float | None, expected: dict[str, int | None]
) -> None:
    totals = with_bounds(**{'adopted': 0.0, 'most_waited_for': 1} | record)
    doubt_bounds(totals, orphans_seconds)
    assert totals['ram']['upper'] == expected
    assert totals['record']['most_waited_for'] == (1 if expected == STANDING else None)
