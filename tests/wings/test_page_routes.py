"""What is served of the page, asked for over HTTP."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest

from support.fleet.page_hosts import NOW, busy_gpu, free_gpu, up
from support.fleet.page_server import PageServer
from support.waiting import TIMEOUT

HOSTS = (up('0', 'node01', busy_gpu(0), free_gpu(1), group='lab'), up('1', 'node02').failed('it does not answer'))


@pytest.fixture(scope='module')
def server():
    with PageServer(HOSTS) as running:
        yield running


def ask(server, path, method='GET', **headers):
    request = urllib.request.Request(f'{server.url}{path}', method=method, headers=headers)  # noqa: S310 - our server
    try:
        answer = urllib.request.urlopen(request, timeout=TIMEOUT)  # noqa: S310 - our server
    except urllib.error.HTTPError as error:
        answer = error
    with answer:
        return answer.status, answer.headers, answer.read()


def test_the_page_is_html_that_a_browser_asks_for_anew(server):
    status, headers, body = ask(server, '/')
    assert (status, headers['content-type'], headers['cache-control']) == (200, 'text/html; charset=utf-8', 'no-cache')
    assert b'<title>GPU fleet</title>' in body
    assert "script-src 'self'" in headers['content-security-policy']
    assert 'unsafe' not in headers['content-security-policy']


@pytest.mark.parametrize(
    ('name', 'kind'),
    [
        ('static/main.js', 'text/javascript; charset=utf-8'),
        ('static/page.css', 'text/css; charset=utf-8'),
        ('static/uplot/uPlot.esm.js', 'text/javascript; charset=utf-8'),
        ('static/uplot/LICENSE', 'text/plain; charset=utf-8'),
        ('favicon.ico', 'image/svg+xml'),
    ],
)
def test_a_file_that_is_known_already_is_not_sent_again(server, name, kind):
    status, headers, body = ask(server, f'/{name}')
    assert (status, headers['content-type']) == (200, kind)
    assert len(body) == int(headers['content-length'])
    etag = headers['etag']
    for known in (etag, f'W/{etag}', f'"other", {etag}', '*'):
        status, headers, body = ask(server, f'/{name}', **{'If-None-Match': known})
        assert (status, headers['etag'], body) == (304, etag, b'')
    assert ask(server, f'/{name}', **{'If-None-Match': '"other"'})[0] == 200


@pytest.mark.parametrize(
    'path',
    [
        '/static/',
        '/static',
        '/static/uplot',
        '/static/../routes.py',
        '/static/%2e%2e/routes.py',
        '/static/..%2froutes.py',
        '/static//etc/passwd',
        '/static/main.js%00',
        '/index.html',
        '/api/v1/',
    ],
)
def test_only_the_files_of_the_page_are_served(server, path):
    status, _, body = ask(server, path)
    assert (status, body) == (404, b'Not Found')


def test_the_fleet_is_json(server):
    fleet = server.json('/api/v1/fleet')
    assert sorted(fleet) == ['hosts', 'interval_seconds', 'time', 'totals']
    assert (fleet['time'], fleet['interval_seconds']) == (NOW, 5.0)
    assert fleet['totals'] == {
        'hosts': 2,
        'hosts_up': 1,
        'gpus': 2,
        'free': 1,
        'in_use': 1,
        'unseen': 0,
        'unknown': 0,
        'memory_total_bytes': 85_899_345_920,
        'memory_used_bytes': 38_667_681_792,
        'utilization_percent': 48.5,
    }
    first, second = fleet['hosts']
    assert (first['id'], first['name'], first['group'], first['state'], first['last_seen']) == (
        '0',
        'node01',
        'lab',
        'up',
        None,
    )
    assert [gpu['key'] for gpu in first['gpus']] == ['GPU-0', 'GPU-1']
    assert (second['state'], second['error'], second['last_seen']) == ('down', 'it does not answer', NOW)


def test_the_past_is_json(server):
    past = server.json('/api/v1/history?host=0&seconds=50')
    assert sorted(past) == ['end', 'gpus', 'host', 'step_seconds']
    assert (past['host'], past['end'], past['step_seconds'], sorted(past['gpus'])) == (
        '0',
        NOW,
        10.0,
        ['GPU-0', 'GPU-1'],
    )
    assert {len(values) for gpu in past['gpus'].values() for values in gpu.values()} == {5}
    whole = server.json('/api/v1/history?host=0')
    assert {len(values) for gpu in whole['gpus'].values() for values in gpu.values()} == {180}


def test_the_past_of_the_fleet_is_json(server):
    past = server.json('/api/v1/fleet/history?seconds=50')
    assert sorted(past) == [
        'end',
        'gpus_known',
        'hosts_up',
        'memory_used_percent',
        'step_seconds',
        'utilization_percent',
    ]
    assert (past['end'], past['step_seconds'], past['gpus_known'], past['hosts_up']) == (
        NOW + 10,
        10.0,
        [2] * 5,
        [1] * 5,
    )
    assert (past['utilization_percent'][-1], past['memory_used_percent'][-1]) == (48.5, 45.0)
    whole = server.json('/api/v1/fleet/history')['utilization_percent']
    assert len(whole) == 180
    assert whole[60:72] == [None] * 12
    assert None not in whole[:60] + whole[72:]


@pytest.mark.parametrize('seconds', ['', '0', 'nan', '1e9'])
def test_a_past_of_the_fleet_that_makes_no_sense_is_refused(server, seconds):
    refusal = (400, b'Bad Request: seconds is a number from 1 to 604800')
    assert ask(server, f'/api/v1/fleet/history?seconds={seconds}')[::2] == refusal


@pytest.mark.parametrize(
    ('query', 'status', 'text'),
    [
        ('host=7', 404, b'Not Found: there is no such host'),
        ('', 400, b'Bad Request: which host? host=ID'),
        ('host=0&seconds=', 400, b'Bad Request: seconds is a number from 1 to 604800'),
        ('host=0&seconds=0', 400, b'Bad Request: seconds is a number from 1 to 604800'),
        ('host=0&seconds=nan', 400, b'Bad Request: seconds is a number from 1 to 604800'),
        ('host=0&seconds=1e9', 400, b'Bad Request: seconds is a number from 1 to 604800'),
        ('host=0&seconds=%D9%A3x', 400, b'Bad Request: seconds is a number from 1 to 604800'),
    ],
)
def test_questions_about_the_past_that_make_no_sense_are_refused(server, query, status, text):
    assert ask(server, f'/api/v1/history?{query}')[::2] == (status, text)


@pytest.mark.parametrize(
    'path',
    [
        '/',
        '/static/main.js',
        '/api/v1/fleet',
        '/api/v1/fleet/history',
        '/api/v1/events',
        '/api/v1/history?host=0',
    ],
)
def test_everything_can_be_asked_for_without_its_body_and_nothing_changed(server, path):
    status, _, body = ask(server, path, 'HEAD')
    assert (status, body) == (200, b'')
    for method in ('POST', 'PUT', 'DELETE'):
        assert ask(server, path, method)[0] == 405


def test_events_come_as_they_happen_and_end_with_the_fleet():
    with (
        PageServer(HOSTS) as server,
        urllib.request.urlopen(f'{server.url}/api/v1/events', timeout=TIMEOUT) as stream,  # noqa: S310 - our server
    ):
        assert stream.headers['content-type'] == 'text/event-stream; charset=utf-8'
        assert stream.headers['cache-control'] == 'no-store'
        assert stream.readline() == b'retry: 2000\n'
        assert stream.readline() == b'event: fleet\n'
        assert json.loads(stream.readline().removeprefix(b'data: ')) == server.json('/api/v1/fleet')
        assert stream.readline() == b'\n'
        server.put(up('0', 'node01', free_gpu(0)))
        assert stream.readline() == b'event: hosts\n'
        assert json.loads(stream.readline().removeprefix(b'data: '))['totals']['free'] == 1
        server.close_fleet()
        assert stream.read() == b'\n'
        assert server.complaints == []
