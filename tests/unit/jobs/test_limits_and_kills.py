"""What ended ranks early: limits, and kills in control groups, which several ranks see and which count once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.jobs.job_report import GroupKills
from gpu_tracker.jobs.job_text import as_summary, as_text
from gpu_tracker.jobs.merging import merge
from gpu_tracker.jobs.records import read_record
from gpu_tracker.views.job_page import job_html, job_page
from support.job_folders import START, record

if TYPE_CHECKING:
    from gpu_tracker.jobs.job_report import JobReport


def merged(*records: dict[str, Any]) -> JobReport:
    read = [read_record(json.dumps(one), f'rank-{place}') for place, one in enumerate(records)]
    return merge(read, now=START + 100_000)


def with_totals(rank: int, totals: dict[str, Any], **options: Any) -> dict[str, Any]:
    found = record(rank, **options)
    found['totals'] |= totals
    return found


def in_group(
    rank: int, kills: int | None, before: int | None = 0, inode: int | None = 7, **options: Any
) -> dict[str, Any]:
    group = {'folder': '/sys/fs/cgroup/job', 'oom_kills': kills, 'oom_kills_before': before, 'inode': inode}
    return with_totals(rank, {'control_group': group}, **options)


def test_kills_that_all_ranks_of_a_group_have_seen_count_once() -> None:
    report = merged(in_group(0, 2), in_group(1, 2), in_group(2, 1, before=1), in_group(3, 0, before=2))
    assert report.oom_kills == (GroupKills(('n1',), '/sys/fs/cgroup/job', 2, ('0', '1', '2', '3')),)
    expected = 'Killed      2 processes of the control group of ranks 0-3 on node n1 were killed for lack of memory.'
    assert expected in as_summary(report).splitlines()


def test_kills_that_only_one_rank_has_seen_count_as_well() -> None:
    one_after_the_other = merged(in_group(0, 1, before=4), in_group(1, 1, before=5, started=200))
    assert [group.kills for group in one_after_the_other.oom_kills] == [2]


@pytest.mark.parametrize(
    ('other', 'kills'),
    [
        ({'node': 'n2'}, [1, 1]),  # another machine, whose groups have inodes of their own
        ({'node': 'n2', 'machine': 'boot-of-n1'}, [1]),  # two nodes of the launcher on one machine
        ({'inode': 8}, [1, 1]),  # another container, in which the folder is the same
        ({'machine': 'after a reboot'}, [1, 1]),
    ],
)
def test_a_group_is_known_by_its_machine_and_inode(other: dict[str, Any], kills: list[int]) -> None:
    assert [group.kills for group in merged(in_group(0, 1), in_group(1, 1, **other)).oom_kills] == kills


def test_without_an_inode_a_group_is_known_by_its_folder() -> None:
    assert [group.kills for group in merged(in_group(0, 3, inode=None), in_group(1, 3, inode=None)).oom_kills] == [3]


def test_nothing_is_said_where_nothing_was_killed_or_nobody_knows() -> None:
    report = merged(record(0), in_group(1, 0), in_group(2, None, None), in_group(3, None, None, None))
    assert report.oom_kills == ()
    assert 'for lack of memory' not in as_text(report) + job_page(report)


def test_of_a_group_of_its_own_the_figure_from_its_end_counts() -> None:
    # The sampler had read 1 when the command ended; the group had 2 when it was removed.
    own = {'made_in': 'cgroup v2', 'memory_peak': 300_000_000, 'oom_kills': 2}
    first = in_group(0, 1)
    first['totals']['own_group'] = own
    second = with_totals(1, {'own_group': own})  # without a sampler
    report = merged(first, second)
    assert [(group.kills, group.ranks) for group in report.oom_kills] == [(2, ('0',)), (2, ('1',))]


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(0, 9)).map(
            lambda read: (read[0], min(read[1:]), max(read[1:]))
        ),
        max_size=6,
    )
)
def test_each_kill_counts_once_however_many_ranks_have_seen_it(readings: list[tuple[int, int, int]]) -> None:
    seen: dict[int, set[int]] = {}
    for inode, first, last in readings:
        seen.setdefault(inode, set()).update(range(first, last))
    found = merged(
        *(in_group(rank, last - first, before=first, inode=inode) for rank, (inode, first, last) in enumerate(readings))
    )
    assert sorted(group.kills for group in found.oom_kills) == sorted(len(kills) for kills in seen.values() if kills)


def test_ranks_that_a_limit_has_ended_are_named_whatever_their_exit_code() -> None:
    report = merged(
        with_totals(0, {'termination_reason': 'memory_limit'}, exit_code=-15),
        with_totals(1, {'termination_reason': 'memory_limit'}, exit_code=0),
        with_totals(2, {'termination_reason': 'time_limit'}, exit_code=3),
        with_totals(3, {'termination_reason': 'a limit of a stranger'}),
    )
    lines = as_summary(report).splitlines()
    assert '            ended by its time limit: 2' in lines
    assert '            ended by its memory limit: 0-1' in lines
    assert [line.split('  ')[-1] for line in as_text(report).splitlines()[-4:]] == [
        'killed by SIGTERM, ended by its memory limit',
        'exit code 0, ended by its memory limit',
        'exit code 3, ended by its time limit',
        'well',
    ]
    page = job_page(report)
    assert '<p class="problem">Ended by its memory limit: 0-1.</p>' in page
    assert page.count('class="bad"') == 3
    assert 'ended by its memory limit: 0-1' in job_html(report)


def test_ranks_that_a_limit_has_ended_stand_out_of_many() -> None:
    limited = with_totals(600, {'termination_reason': 'cpu_limit'}, seconds=1.0, cpu=1.0)
    assert 'ended by its CPU limit' in as_text(merged(*(record(rank) for rank in range(40)), limited)).splitlines()[-1]


def test_peaks_of_control_groups_stand_beside_those_of_ram() -> None:
    with_group = with_totals(0, {'own_group': {'made_in': 'cgroup v2', 'memory_peak': 300_000_000}})
    without = with_totals(1, {'own_group': {'problem': 'no permission'}})
    report = merged(with_group, without)
    assert [rank.own_group_memory_peak for rank in report.ranks] == [300_000_000, None]
    *_, titles, first, second = as_text(report).splitlines()
    assert titles.split('  ')[-2:] == ['Own group', ' End']
    assert first.split()[-3:] == ['300', 'MB', 'well']
    assert second.split()[-2:] == ['N/A', 'well']
    assert 'Own group</th><th scope="col">End</th>' in job_page(report)
    assert 'Own group' in job_html(report)
    assert 'Own group' not in job_page(merged(without)) + as_text(merged(without)) + job_html(merged(without))


def test_json_has_all_of_it() -> None:
    plain = json.loads(json.dumps(merged(in_group(0, 2)).to_json()))
    assert plain['oom_kills'] == [{'nodes': ['n1'], 'folder': '/sys/fs/cgroup/job', 'kills': 2, 'ranks': ['0']}]


def test_the_page_says_what_was_killed() -> None:
    assert (
        '<p class="problem">1 process of the control group of rank 0 on node n1 was killed for lack of memory.</p>'
    ) in job_page(merged(in_group(0, 1)))


HOSTILE = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.just([[1]]), st.just({'a': 1})
)


@given(*[HOSTILE] * 6)
def test_no_totals_of_a_stranger_break_the_report(
    kills: object, before: object, inode: object, folder: object, peak: object, reason: object
) -> None:
    group = {'folder': folder, 'oom_kills': kills, 'oom_kills_before': before, 'inode': inode}
    totals = {
        'control_group': group,
        'own_group': {'memory_peak': peak, 'oom_kills': kills},
        'termination_reason': reason,
    }
    report = merged(with_totals(0, totals), in_group(1, 1))
    assert as_text(report)
    assert job_page(report)
    assert json.dumps(report.to_json(), allow_nan=False)
