"""The tables of the fleet, made from given figures, and what is told by agents, pages and a browser's trace."""

import json

import pytest
from benchmarks.fleet import PART
from benchmarks.fleet_agents import ANSWERED, ASKED, GIVEN_UP, Crowd, Event, cluster_as_toml, rounds_of
from benchmarks.fleet_masters import CASES as MASTERS
from benchmarks.fleet_memory import HOUR
from benchmarks.fleet_page import BLANK, OPENINGS, SCROLLINGS
from benchmarks.fleet_rounds import CASES, until_told
from benchmarks.fleet_streams import Told, events_of
from benchmarks.fleet_tables import fleet_tables
from benchmarks.fleet_trace import tasks_of
from benchmarks.peers import NVGPU, OURS
from benchmarks.report import text_of
from benchmarks.results import Gap, Results

from gpu_tracker.fleet.config.toml_file import read_toml_file


@pytest.fixture
def results():
    return Results(versions={OURS.name: '6', NVGPU.name: '0.9.0'})


def test_a_round_ends_when_the_last_host_is_settled():
    events = [
        *(Event(10.0, 0, ASKED), Event(10.1, 0, ANSWERED), Event(10.1, 1, ASKED), Event(11.5, 1, GIVEN_UP)),
        *(Event(15.0, 0, ASKED), Event(15.2, 0, ANSWERED)),
    ]
    rounds = rounds_of(reversed(events), 5)
    assert [(one.begun, one.settled, one.hosts, one.given_up) for one in rounds] == [
        (10.0, 11.5, 2, 1),
        (15.0, 15.2, 1, 0),
    ]
    assert [one.seconds for one in rounds] == pytest.approx([1.5, 0.2])


def test_a_host_that_is_asked_again_is_in_the_next_round():
    events = [
        *(Event(10.0, 0, ASKED), Event(10.0, 1, ASKED), Event(10.3, 0, ANSWERED)),
        *(Event(10.4, 0, ASKED), Event(10.5, 1, GIVEN_UP), Event(10.6, 0, ANSWERED)),
    ]
    rounds = rounds_of(events, 5)
    assert [(one.begun, one.settled, one.hosts, one.given_up) for one in rounds] == [
        (10.0, 10.5, 2, 1),
        (10.4, 10.6, 1, 0),
    ]


def test_what_comes_of_earlier_requests_is_in_no_round():
    assert rounds_of([Event(9.0, 0, ANSWERED)], 5) == []


def test_a_page_is_told_when_it_has_the_last_of_a_round():
    events = [Event(10.0, 0, ASKED), Event(10.1, 0, ANSWERED), Event(15.0, 0, ASKED), Event(15.1, 0, ANSWERED)]
    assert until_told(rounds_of(events, 5), [9.0, 10.05, 10.5, 15.05]) == pytest.approx([0.5, 0.1])


def test_events_have_the_time_of_their_last_piece():
    pieces = [
        (1.0, b'retry: 2000\nevent: fleet\ndata: {"hosts"'),
        (2.0, b': []}\n\n: still here\n\nevent: hosts\nda'),
        (3.0, b'ta: {"time": 5}\n\nevent: hosts\ndata: {'),
    ]
    assert events_of(pieces) == [Told(2.0, 'fleet', {'hosts': []}), Told(3.0, 'hosts', {'time': 5})]


def test_tasks_are_those_of_the_page_in_cpu_time():
    def task(thread, **more):
        return {'pid': 1, 'tid': thread, 'name': 'ThreadControllerImpl::RunTask', 'dur': 90_000, **more}

    def named(thread, name):
        return {'pid': 1, 'tid': thread, 'name': 'thread_name', 'args': {'name': name}}

    main, other = 'CrRendererMain', 'Compositor'
    events = [task(2, tdur=70_000), task(1, tdur=20_000), task(1, tdur=5_000), task(1), task(3, tdur=1_000)]
    events += [named(1, main), named(2, other), named(3, main)]
    assert tasks_of(json.dumps({'traceEvents': events}).encode()) == pytest.approx([0.02, 0.005])
    assert tasks_of(b'{"traceEvents": []}') == []


def test_the_configuration_is_what_the_dashboard_reads():
    urls = [f'http://127.1.0.{number}:1080' for number in range(1, 6)]
    cluster = read_toml_file('fleet.toml', cluster_as_toml(urls, 0.5, in_groups_of=2).encode())
    assert cluster.interval == 0.5
    assert [host.url for host in cluster.hosts] == urls
    assert [host.group for host in cluster.hosts] == ['rack-0', 'rack-0', 'rack-1', 'rack-1', 'rack-2']


def test_crowds_are_those_of_the_tables():
    assert [case.crowd.hosts for case in CASES] == [1000] * 4
    assert [case.crowd.hosts for case in MASTERS] == [20] * 4
    assert HOUR.asked == 3600 / 5
    assert Crowd(1, 2, 3, 4).words()[-6:] == ['gpu-tracker', '8', 'well=1', 'dead=2', 'hanging=3', 'garbage=4']


def test_rounds_have_their_times_and_costs(results):
    figures = {'first': 1.5, 'median': 0.25, 'longest': 1.5, 'cpu': 0.3, 'rss': 8e7, 'pss': 7e7}
    told = {'first told': 1.6, 'median told': 0.5, 'longest told': 1.625}
    results.add(PART, CASES[0].name, OURS.name, 0, figures | told)
    results.add(PART, CASES[1].name, OURS.name, 0, figures)
    results.gaps.append(Gap(PART, CASES[2].name, OURS.name, 'the reason'))
    table = fleet_tables(results)[0]
    assert table.columns == [
        *('hosts', 'first (s)', 'until told', 'median (s)', 'until told', 'longest (s)', 'until told'),
        *('CPU (ms)', 'RSS (MB)', 'PSS (MB)', 'rounds'),
    ]
    assert table.rows == [
        [CASES[0].name, '1.50', '1.60', '0.250', '0.500', '1.50', '1.62', '300', '80.0', '70.0', '1'],
        [CASES[1].name, '1.50', '—', '0.250', '—', '1.50', '—', '300', '80.0', '70.0', '1'],
        [CASES[2].name, *['—'] * 10],
    ]
    assert table.notes == [f'— gpu-tracker, {CASES[2].name}: the reason']


def test_memory_is_shown_as_it_grows(results):
    held = {'rss after 1': 5e7, 'pss after 1': 4e7, 'rss after 720': 6e7, 'pss after 720': 5e7}
    results.add(PART, HOUR.name, OURS.name, 0, held | {'seconds': 370.0, 'peak': 7e7})
    table = fleet_tables(results)[1]
    assert table.rows == [['1', '50.0', '40.0'], ['720', '60.0', '50.0']]
    assert 'It took 370 s; the most that was ever in memory were 70.0 MB.' in table.text


def test_the_page_is_beside_an_empty_one(results):
    frames = {'longest task': 0.02, 'median': 0.0167, 'p99': 0.02, 'longest': 0.04, 'long': 0, 'frames': 480}
    results.add(PART, OPENINGS[0].row, OURS.name, 0, {'first paint': 0.25, 'rows': 0.5, 'cpu': 0.2})
    results.add(PART, SCROLLINGS[0].row, OURS.name, 0, frames)
    results.add(PART, SCROLLINGS[0].row, BLANK, 0, frames)
    opening, scrolling = fleet_tables(results)[2:4]
    assert opening.rows == [[OPENINGS[0].name, '250', '500', '200', '1']]
    assert scrolling.rows == [
        [SCROLLINGS[0].name, '20.0', '16.7', '20.0', '40.0', '0', '480', '1'],
        [f'{SCROLLINGS[0].name}, empty page', '20.0', '16.7', '20.0', '40.0', '0', '480', '1'],
    ]


def test_without_a_browser_the_reason_is_given(results):
    for case in (*OPENINGS, *SCROLLINGS):
        results.gaps.append(Gap(PART, case.row, OURS.name, 'chromium is not installed'))
    opening, scrolling = fleet_tables(results)[2:4]
    assert opening.rows[0] == [OPENINGS[0].name, '—', '—', '—', '—']
    assert scrolling.notes[0] == f'— gpu-tracker, {SCROLLINGS[0].name}: chromium is not installed'


def test_nvgpu_is_compared_with_ours_in_the_same_rounds(results):
    for number, (ours, theirs) in enumerate([(0.004, 0.3), (0.002, 0.4)]):
        results.add(PART, MASTERS[0].name, OURS.name, number, {'page': ours, 'json': 2 * ours})
        results.add(PART, MASTERS[0].name, NVGPU.name, number, {'page': theirs, 'json': theirs / 10})
    results.add(PART, MASTERS[3].name, OURS.name, 0, {'page': 0.004, 'json': 0.008})
    results.gaps.append(Gap(PART, MASTERS[3].name, NVGPU.name, '/ answers 500 INTERNAL SERVER ERROR'))
    table = fleet_tables(results)[4]
    assert table.columns == ['hosts', 'page', 'page, nvgpu 0.9.0', 'JSON', 'JSON, nvgpu 0.9.0', 'rounds']
    assert table.rows == [
        [MASTERS[0].name, '3.00', '350 (138)', '6.00', '35.0 (6.88)', '2'],
        [MASTERS[3].name, '4.00', '—', '8.00', '—', '1'],
    ]
    assert table.notes == [f'— nvgpu 0.9.0, {MASTERS[3].name}: / answers 500 INTERNAL SERVER ERROR']
    results.gaps.append(Gap(PART, 'all', NVGPU.name, 'no network'))
    assert fleet_tables(results)[4].notes[-1] == '— nvgpu 0.9.0: no network'


def test_the_report_has_the_tables_only_where_there_are_figures(results):
    assert 'fleet: ' not in text_of(results)
    results.add(PART, OPENINGS[0].row, OURS.name, 0, {'first paint': 0.25, 'rows': 0.5, 'cpu': 0.2})
    text = text_of(results)
    assert '**fleet: milliseconds until the page shows something**' in text
    assert '**fleet: a round of 1,000 hosts**' not in text


def test_no_two_rows_have_the_same_name():
    rows = [case.name for case in (*CASES, HOUR, *MASTERS)] + [case.row for case in (*OPENINGS, *SCROLLINGS)]
    assert len(set(rows)) == len(rows)
