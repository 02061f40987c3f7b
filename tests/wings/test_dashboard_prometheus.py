"""``gpu-tracker dashboard --prometheus`` as a process, with somebody in the place of Prometheus."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from support.fleet.dashboard_program import Dashboard
from support.fleet.fake_prometheus import fake_prometheus
from support.fleet.prometheus_samples import NOW, gpu, sample

if TYPE_CHECKING:
    from pathlib import Path

UP = sample(1.0, group='vision')
TOLD = [
    sample(name_='gpu_tracker_agent_info', version='6.0.0'),
    sample(1.0, name_='gpu_tracker_driver_up'),
    sample(NOW - 3, name_='gpu_tracker_reading_timestamp_seconds'),
]
FREE = sample(index='0', status='free')


def test_it_shows_what_prometheus_tells_and_sends_its_token(tmp_path: Path) -> None:
    token = tmp_path / 'token'
    token.write_text('s3cret-of-16-signs\n')
    token.chmod(0o600)

    def shown(url: str) -> None:
        options = (f'--prometheus={url}/', f'--prometheus-token-file={token}', '--interval=0.5', '--deadline=60')
        with Dashboard(*options) as dashboard:
            (host,) = dashboard.until(['up'])
            assert (host['name'], host['group'], host['agent']) == ('node01', 'vision', 'gpu-tracker 6.0.0')
            assert (host['url'], host['error']) == (None, None)
            assert [(found['uuid'], found['status']) for found in host['gpus']] == [('GPU-0', 'free')]
            fleet = dashboard.json('/api/v1/fleet')
            assert (fleet['interval_seconds'], fleet['totals']['free'], fleet['totals']['gpus']) == (0.5, 1, 1)
            assert dashboard.json(f'/api/v1/history?host={host["id"]}')['step_seconds'] == 10
            assert dashboard.get('/sd')[0] == 404
            assert '<title>' in dashboard.get('/')[1]
            assert dashboard.end() == 0
            assert 's3cret' not in dashboard.log

    async def story() -> None:
        async with fake_prometheus() as place:
            place.tell_one_host(UP, TOLD, [gpu('0')], [FREE])
            await asyncio.to_thread(shown, place.url)
            assert {headers['Authorization'] for headers in place.headers} == {'Bearer s3cret-of-16-signs'}
            assert {form['path'] for form in place.asked} == {'/api/v1/query', '/api/v1/query_range'}

    asyncio.run(story())


def test_without_prometheus_it_says_so_and_knows_no_number_of_gpus() -> None:
    async def story() -> str:
        async with fake_prometheus() as place:
            return place.url  # where nobody is by then

    url = asyncio.run(story())
    with Dashboard(f'--prometheus={url}') as dashboard:
        (host,) = dashboard.until(['down'])
        assert host['error'] == f'Prometheus at {url}: it cannot be reached: Connection refused'
        totals = dashboard.json('/api/v1/fleet')['totals']
        assert [totals[key] for key in ('hosts', 'gpus', 'free', 'in_use', 'unseen', 'unknown')] == [1, *[None] * 5]
