"""What the benchmark of dashboards stands on: its agents, its pages, and that it can be run."""

import http.client
import importlib.util
import json
import shutil
import socket
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from benchmarks import fleet_masters, fleet_memory, fleet_page, fleet_rounds
from benchmarks.environments import Environment
from benchmarks.fleet import PART, Plan, measure
from benchmarks.fleet_agents import (
    ASKED,
    DEAD,
    GARBAGE,
    GIVEN_UP,
    HANGING,
    NVGPU_FORM,
    OURS_FORM,
    Crowd,
    agents,
    rounds_of,
)
from benchmarks.fleet_page import BLANK, Opening, Scrolling
from benchmarks.fleet_servers import dashboard
from benchmarks.peers import OURS
from benchmarks.results import Results
from benchmarks.session import FailedError, Session

from gpu_tracker.fleet.hosts.nvgpu import parse_nvgpu_report
from gpu_tracker.fleet.hosts.report import parse_report
from support.waiting import TIMEOUT, eventually

OURSELVES = Environment(OURS.name, Path(sys.executable).parent.parent, '6')
BROWSER = {'chromium': shutil.which('chromium'), 'playwright': importlib.util.find_spec('playwright')}
MIXED = Crowd(7, dead=1, hanging=1, garbage=1)
"""Ten agents."""
ROUND = {'first', 'median', 'longest', 'cpu', 'agents cpu', 'connections', 'requests', 'rss', 'pss'}
TOLD = {'first told', 'median told', 'longest told'}
FRAMES = {'frames', 'median', 'p99', 'longest', 'long', 'longest task'}


@pytest.fixture
def session():
    return Session([], {OURS.name: OURSELVES}, Results(), None, quick=True)


def kinds_of(results):
    """Return what there are figures of, by row and peer."""
    kinds = {}
    for figure in results.figures:
        assert figure.part == PART
        kinds.setdefault((figure.row, figure.peer), set()).add(figure.kind)
    return kinds


def fetched(url):
    with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:  # noqa: S310 - always http
        return answer.read()


@pytest.mark.parametrize(
    ('form', 'path', 'parse'),
    [(OURS_FORM, '/api/v1/host', parse_report), (NVGPU_FORM, '/gpu_status', parse_nvgpu_report)],
)
def test_an_agent_reports_other_figures_each_time(form, path, parse):
    with agents(Crowd(2, gpus=3, form=form)) as there:
        first, second = (parse(fetched(f'{there.urls[0]}{path}')) for _ in range(2))
        other = parse(fetched(f'{there.urls[1]}{path}'))
        with pytest.raises(urllib.error.HTTPError, match='404'):
            fetched(f'{there.urls[0]}/other')
    assert (len(first.gpus), len(second.gpus)) == (3, 3)
    assert [gpu.type for gpu in first.gpus] == [gpu.type for gpu in second.gpus]
    assert first.gpus != second.gpus
    assert first.hostname == second.hostname != other.hostname


def test_an_answer_is_as_large_as_that_of_a_real_host():
    with agents(Crowd(1)) as there:
        assert 4000 < len(fetched(f'{there.urls[0]}/api/v1/host')) < 6000


def test_agents_fail_in_their_ways():
    with agents(Crowd(0, dead=1, hanging=1, garbage=5)) as there:
        assert sorted(there.kinds) == [DEAD, *[GARBAGE] * 5, HANGING]
        for url, kind in zip(there.urls, there.kinds, strict=True):
            if kind == DEAD:
                with pytest.raises(urllib.error.URLError, match='refused'):
                    fetched(f'{url}/api/v1/host')
            elif kind == GARBAGE:
                with pytest.raises((http.client.HTTPException, ValueError, RecursionError)):
                    json.loads(fetched(f'{url}/api/v1/host'))


def test_an_agent_notes_who_has_asked_in_vain():
    with agents(Crowd(0, hanging=1)) as there:
        there.record()
        host, _, port = there.urls[0].removeprefix('http://').partition(':')
        with socket.create_connection((host, int(port)), TIMEOUT) as client:
            client.sendall(b'GET /api/v1/host HTTP/1.1\r\nhost: x\r\n\r\n')
            there.wait_for(1, TIMEOUT)
        eventually(lambda: [event.kind for event in there.events()] == [ASKED, GIVEN_UP])
        events = there.events()
        assert there.count()[:2] == (1, 1)
    assert [(one.hosts, one.given_up) for one in rounds_of(events, 5)] == [(1, 1)]


def test_who_waits_for_requests_that_do_not_come_is_told():
    with agents(Crowd(1)) as there, pytest.raises(FailedError, match=r'^has asked only 0 times within 0 s, not 1$'):
        there.wait_for(1, 0)


def test_a_dashboard_that_cannot_be_started_gives_its_last_words():
    with (
        pytest.raises(FailedError, match=r'hosts: entry 1: url: must be '),
        dashboard(OURSELVES, ['not a url']),
    ):
        pass


def test_each_question_has_its_figures(session):
    without_browser = Plan(
        rounds=[fleet_rounds.Case('ten', MIXED, pages=2, asked=1, interval=0.5)],
        hour=fleet_memory.Case('short', Crowd(3), asked=2, marks=1),
        openings=[],
        scrollings=[],
        masters=[fleet_masters.Case('three', Crowd(2, garbage=1, form=NVGPU_FORM))],
    )
    measure(session, without_browser)
    assert session.results.gaps == []
    memory = {f'{kind} after {number}' for kind in ('rss', 'pss') for number in (1, 2)}
    assert kinds_of(session.results) == {
        ('ten', OURS.name): ROUND | TOLD,
        ('short', OURS.name): memory | {'seconds', 'peak'},
        ('three', OURS.name): {'page', 'json'},
    }


def test_the_page_has_its_figures(session):
    missing = [name for name, there in BROWSER.items() if there is None]
    if missing:
        pytest.skip(f'needs {" and ".join(missing)}')
    fleet_page.measure(session, PART, [Opening('three', Crowd(3))], [Scrolling('three', Crowd(3), seconds=0.2)])
    assert session.results.gaps == []
    assert kinds_of(session.results) == {
        ('open: three', OURS.name): {'first paint', 'rows', 'cpu'},
        ('scroll: three', OURS.name): FRAMES,
        ('scroll: three', BLANK): FRAMES,
    }
    assert 'Chromium' in session.results.versions
