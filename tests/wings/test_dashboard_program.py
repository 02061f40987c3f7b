"""``gpu-tracker dashboard`` with agents of all kinds, from its start to its end."""

from __future__ import annotations

import base64
import contextlib
import json
from typing import TYPE_CHECKING

from support.fleet.dashboard_program import Dashboard
from support.fleet.hostile_agents import (
    Recorder,
    answer,
    closed_port,
    drips,
    full_port,
    hangs,
    report,
    says,
    serving_beside,
    url_of,
)

if TYPE_CHECKING:
    from pathlib import Path

OURS = '/api/v1/host'
REPORT = answer(report())
SLOW = '--deadline=60'


def nvgpu_file(folder: Path, *urls: str) -> str:
    path = folder / 'agents.cfg'
    path.write_text(f'AGENTS = {list(urls)!r}\n')
    return str(path)


def test_hosts_of_all_kinds_on_one_page(tmp_path: Path):
    with contextlib.ExitStack() as stack:
        good, garbage = stack.enter_context(serving_beside(says(REPORT), says(answer(b'<b>hello</b>'))))
        dead = url_of(stack.enter_context(closed_port()))
        config = nvgpu_file(tmp_path, 'self', f'{good}/', garbage, dead)
        shown = stack.enter_context(Dashboard(f'--config={config}', SLOW))
        hosts = shown.hosts()
        assert [(host['state'], host['error']) for host in hosts[1:]] == [
            ('up', None),
            ('down', 'did not answer with a report: the answer is not JSON'),
            ('down', 'cannot connect: connection refused'),
        ]
        assert [host['name'] for host in hosts[1:]] == [
            'node01',
            *(url.removeprefix('http://') for url in (garbage, dead)),
        ]
        assert hosts[1]['gpus'][0]['memory_total_bytes'] == 40_000_000_000
        told = shown.json('/cluster_status')
        assert told[1]['hostname'] == 'node01'
        assert told[1]['gpus'][0]['is_available'] is True
        assert told[2:] == [{'error': 'Bad response (200: the answer is not JSON)'}, {'error': 'Host not available'}]
        assert shown.json('/sd') == [
            {
                'targets': [url.removeprefix('http://') for url in (good, garbage, dead)],
                'labels': {'__scheme__': 'http'},
            }
        ]
        assert shown.get('/healthz') == (200, 'ok\n')
        assert [shown.get(path)[0] for path in ('/api/v1/fleet/', '/sd/', '/static/')] == [404] * 3
        assert '<title>' in shown.get('/')[1]
        assert shown.end() == 0


def test_a_host_in_the_file_that_nvgpu_s_variable_names_dies_and_comes_back(tmp_path: Path):
    with closed_port() as bound, contextlib.ExitStack() as stack:
        given = {'NVGPU_CLUSTER_CFG': nvgpu_file(tmp_path, url_of(bound))}
        shown = stack.enter_context(Dashboard(SLOW, '--interval=0.5', changes=given))
        (host,) = shown.until(['down'])
        assert host['error'] == 'cannot connect: connection refused'
        with serving_beside(says(REPORT), listener=bound):
            (host,) = shown.until(['up'])
            assert (host['error'], host['last_seen']) == (None, None)
        (host,) = shown.until(['down'])
        assert host['error'] is not None
        assert host['last_seen'] > 1e9
        assert host['gpus'][0]['uuid'] == 'GPU-a'


def test_it_ends_in_time_while_agents_hang_and_a_page_is_open(tmp_path: Path):
    behaviours = [hangs(), hangs(b'HTTP/1.1 200 OK\r\n\r\n{'), drips(REPORT), says(REPORT)]
    with serving_beside(*behaviours) as urls, full_port() as full:
        config = nvgpu_file(tmp_path, *urls, full)
        with Dashboard(f'--config={config}', SLOW) as shown, shown.asked('/api/v1/events') as events:
            assert events.status == 200
            assert b'event: fleet\n' in iter(events.readline, b'')
            assert shown.end() == 0
            assert len(shown.log.splitlines()) == 1, shown.log


def test_a_token_reaches_its_host_and_nobody_else(tmp_path: Path):
    knows, strange = Recorder({OURS: REPORT}), Recorder({OURS: answer(b'', '401 Unauthorized')})
    (tmp_path / 'token').write_text('s3cret\n')
    (tmp_path / 'token').chmod(0o600)
    config = tmp_path / 'cluster.toml'
    with serving_beside(knows, strange) as (one, two):
        config.write_text(
            f"hosts = [{{url = '{one}', token_file = 'token', name = 'front'}}]\n[groups.old]\nhosts = ['{two}']\n"
        )
        with Dashboard(f'--config={config}', SLOW) as shown:
            hosts = shown.hosts()
            told = json.dumps([hosts, shown.json('/sd'), shown.json('/cluster_status')]) + shown.log
            groups = [each['labels'] for each in shown.json('/sd')]
    assert [(host['name'], host['group']) for host in hosts] == [('front', None), (two.removeprefix('http://'), 'old')]
    assert hosts[1]['error'] == 'answered 401: wrong or missing token'
    assert set(knows.header('Authorization')) == {'Bearer s3cret'}
    assert strange.header('Authorization') == []
    assert 's3cret' not in told
    assert groups == [{'__scheme__': 'http', 'name': 'front'}, {'__scheme__': 'http', 'group': 'old'}]


def test_a_password_is_needed_for_all_but_the_health(tmp_path: Path):
    passwords = tmp_path / 'passwords'
    passwords.write_text('ann:correct horse\n')
    passwords.chmod(0o600)
    config = nvgpu_file(tmp_path)
    known = f'Basic {base64.b64encode(b"ann:correct horse").decode()}'
    with Dashboard(f'--config={config}', f'--password-file={passwords}') as shown:
        for path in ('/', '/sd', '/cluster_status', '/api/v1/fleet', '/api/v1/events'):
            assert shown.get(path)[0] == 401
        assert shown.get('/healthz')[0] == 200
        assert shown.json('/api/v1/fleet', Authorization=known)['hosts'] == []
        assert shown.json('/sd', Authorization=known) == []
