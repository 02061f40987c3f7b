"""A fleet from Prometheus, over HTTP, with a Prometheus that answers what the test wants."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Self

import pytest
from aiohttp import web

from gpu_tracker.fleet.hosts.history import Series
from gpu_tracker.fleet.prometheus import queries
from gpu_tracker.fleet.prometheus.client import Client, Endpoint, endpoint
from gpu_tracker.fleet.prometheus.queries import PrometheusError
from gpu_tracker.fleet.prometheus.source import PrometheusSource
from support.fleet.fake_prometheus import fake_prometheus
from support.fleet.prometheus_samples import NOW, gpu, sample
from support.waiting import TIMEOUT

TOLD = [
    sample(name_='gpu_tracker_agent_info', version='6.0.0'),
    sample(1.0, name_='gpu_tracker_driver_up'),
]
FREE = sample(index='0', status='free')


class Running:
    """A source that runs on an endpoint, with rounds as fast as they go."""

    def __init__(self, url: str) -> None:
        self.source = PrometheusSource(endpoint(url), interval=0.01, now=lambda: NOW)

    async def __aenter__(self) -> Self:
        self._task = asyncio.get_running_loop().create_task(self.source.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self._task

    async def until(self, condition):
        """Return all hosts as soon as they are as wanted."""
        async with asyncio.timeout(TIMEOUT):
            while not condition(self.source.fleet.states()):
                assert not self._task.done(), self._task.exception()
                await self.source.fleet.change(self.source.fleet.version)
        return self.source.fleet.states()


def is_state(state):
    return lambda hosts: [host.state for host in hosts] == [state]


def is_down_with(error):
    """Return the condition for one host; a round that began before Prometheus was told may see a part of that."""
    return lambda hosts: [(host.state, host.error) for host in hosts] == [('down', error)]


async def failure(url, **options):
    """Return what is said of a query that fails."""
    client = Client(endpoint(url), **options)
    try:
        with pytest.raises(PrometheusError) as caught:
            await client.now('up')
        return str(caught.value)
    finally:
        await client.close()


def test_a_fleet_is_taken_from_prometheus_and_follows_it():
    async def story():
        async with fake_prometheus() as prometheus, Running(prometheus.url) as running:
            (host,) = await running.until(is_state('down'))
            assert host.error == f'Prometheus at {prometheus.url} has no target with an agent of gpu-tracker'
            prometheus.tell_one_host(sample(1.0, group='vision'), TOLD, [gpu('0')], [FREE])
            (host,) = await running.until(is_state('up'))
            assert (host.id, host.name, host.group, host.report.gpus[0].status) == ('0', 'node01', 'vision', 'free')
            assert running.source.fleet.totals().free == 1
            async with asyncio.timeout(TIMEOUT):
                while running.source.fleet.totals_history.past(10).hosts_up != [1]:  # noqa: ASYNC110 - nothing tells of it
                    await asyncio.sleep(0)
            prometheus.tell_one_host(sample(0.0, group='vision'), [], [], [])
            (host,) = await running.until(is_down_with('Prometheus cannot scrape its agent'))
            assert host.last_seen == NOW - 3
            prometheus.tell_one_host(sample(1.0, group='vision'), TOLD, [gpu('0')], [FREE])
            await running.until(is_state('up'))

    asyncio.run(story())


def test_a_round_is_a_few_queries_of_one_moment_by_post():
    async def story():
        async with fake_prometheus() as prometheus:
            prometheus.tell_one_host(sample(), TOLD, [gpu('0')], [FREE])
            async with Running(prometheus.url) as running:
                await running.until(is_state('up'))
        assert prometheus.asked_for[:2] == [queries.AGENTS_BEFORE, queries.targets(['gpu-tracker'])]
        assert {form['time'] for form in prometheus.asked[2:18]} == {'1800000000.000'}
        assert set(prometheus.asked_for[2:18]) == {
            queries.scraped(['gpu-tracker']),
            queries.spacing(['gpu-tracker']),
            queries.AGENTS,
            queries.PROCESSES_BY_PID,
            queries.PROCESSES_BY_USER,
            queries.NOW.gpus,
            queries.NOW.statuses,
            *queries.NOW.figures,
        }
        assert {(form['method'], form['path'], form['timeout']) for form in prometheus.asked[:18]} == {
            ('POST', '/api/v1/query', '10s')
        }

    asyncio.run(story())


def test_a_host_that_was_down_before_is_shown_as_it_was():
    async def story():
        async with fake_prometheus() as prometheus:
            before = queries.before(['node01:1080'])
            prometheus.tell_one_host(sample(0.0), [], [], [])
            prometheus.tell(queries.AGENTS_BEFORE, sample(NOW - 5000))
            prometheus.tell(before.gpus, gpu('0'))
            prometheus.tell(before.statuses, FREE)
            async with Running(prometheus.url) as running:
                (host,) = await running.until(lambda hosts: hosts and hosts[0].name == 'node01')
        assert (host.state, host.last_seen, host.report.gpus[0].type) == ('down', NOW - 5000, 'NVIDIA H100')
        assert prometheus.asked_for.count(before.gpus) == 1

    asyncio.run(story())


def test_a_prometheus_that_goes_takes_all_hosts_down_until_it_is_back():
    async def story():
        async with contextlib.AsyncExitStack() as stack:
            async with fake_prometheus() as prometheus:
                prometheus.tell_one_host(sample(), TOLD, [gpu('0')], [FREE])
                running = await stack.enter_async_context(Running(prometheus.url))
                await running.until(is_state('up'))
            (host,) = await running.until(is_state('down'))
            assert host.error.startswith(f'Prometheus at {prometheus.url}: it ')
            assert (host.last_seen, host.report.gpus[0].status) == (NOW - 3, 'free')
            assert running.source.fleet.totals().unknown == 1
            async with fake_prometheus(port=prometheus.port) as prometheus:
                prometheus.tell_one_host(sample(), TOLD, [gpu('0')], [FREE])
                (host,) = await running.until(is_state('up'))
                assert host.error is None

    asyncio.run(story())


def test_a_source_ends_also_where_a_query_fails_at_the_moment_in_which_it_is_cancelled():
    class Failing:
        url = 'http://prometheus'

        def __init__(self) -> None:
            self.asked = asyncio.Event()

        async def now(self, *_):
            self.asked.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise PrometheusError('it went') from None

        async def close(self):
            pass

    async def story():
        async with asyncio.timeout(TIMEOUT), Running('http://prometheus') as running:
            running.source._client = Failing()
            await running.source._client.asked.wait()

    asyncio.run(story())


def test_a_query_that_is_under_way_at_a_reload_is_answered():
    async def story():
        async with fake_prometheus() as prometheus:
            prometheus.tell_one_host(sample(), TOLD, [gpu('0')], [FREE])
            async with asyncio.timeout(TIMEOUT), Running(prometheus.url) as running:
                await running.until(is_state('up'))
                source, former = running.source, running.source._client
                gate = prometheus.gate = asyncio.Event()
                query = asyncio.create_task(former.now('up'))
                await prometheus.is_awaited.wait()
                source.update(endpoint(prometheus.url))
                (closing,) = source._closing
                await asyncio.sleep(0)
                gate.set()
                assert await query == []
                await asyncio.wait([closing])
                assert former._session is None
                assert source._client is not former

    asyncio.run(story())


def test_the_past_is_taken_from_prometheus():
    async def story():
        async with fake_prometheus() as prometheus:
            prometheus.tell_one_host(sample(), TOLD, [gpu('0')], [FREE])
            labels = {'uuid': 'GPU-0', 'index': '0'}
            prometheus.results[queries.utilization_over('gpu-tracker', 'node01:1080', 10)] = [
                {'metric': labels, 'values': [[NOW - 20, '29'], [NOW, '31']]}
            ]
            async with Running(prometheus.url) as running:
                await running.until(is_state('up'))
                past = await running.source.past('0', 30)
                assert await running.source.past('7', 30) is None
            assert (past.step, past.end) == (10, NOW)
            assert past.gpus == {'GPU-0': Series([29.0, None, 31.0], [None, None, None])}
            ranges = [form for form in prometheus.asked if 'node01' in form['query'] and 'start' in form]
            assert [(form['start'], form['end'], form['step']) for form in ranges] == [
                ('1799999980.000', '1800000000.000', '10.000')
            ] * 2

    asyncio.run(story())


def test_the_past_of_the_fleet_begins_with_what_prometheus_has_kept():
    async def story():
        async with fake_prometheus() as prometheus:
            prometheus.tell_one_host(sample(), TOLD, [gpu('0')], [FREE])
            for query, value in ((queries.FLEET_UTILIZATION, 29), (queries.FLEET_MEMORY, 31)):
                prometheus.results[query] = [{'metric': {}, 'values': [[NOW - 60, f'{value}'], [NOW - 50, 'NaN']]}]
            async with Running(prometheus.url) as running, asyncio.timeout(TIMEOUT):
                history = running.source.fleet.totals_history
                while 1 not in history.past(1800).hosts_up:  # noqa: ASYNC110 - nothing tells of it
                    await asyncio.sleep(0)
                past = history.past(1800)
            assert [value for value in past.utilization if value is not None] == [29.0]
            assert past.memory[past.utilization.index(29.0)] == 31.0
            assert 0 not in past.utilization[:-1]
            asked = [form for form in prometheus.asked if form['query'] == queries.FLEET_MEMORY]
            assert [(form['start'], form['end'], form['step']) for form in asked] == [
                ('1799998210.000', '1800000000.000', '10.000')
            ]

    asyncio.run(story())


def test_where_prometheus_tells_no_past_there_is_none():
    async def story():
        async with fake_prometheus() as prometheus, Running(prometheus.url) as running:
            await running.until(is_state('down'))
            assert (await running.source.past('prometheus', 1800)).gpus == {}
            prometheus.tell_one_host(sample(), TOLD, [gpu('0')], [FREE])
            await running.until(is_state('up'))
            prometheus.response = lambda: web.Response(status=503)
            assert (await running.source.past('0', 1800)).gpus == {}

    asyncio.run(story())


@pytest.mark.parametrize(
    ('response', 'said'),
    [
        (lambda: web.Response(text='<html>'), 'the answer is not JSON'),
        (lambda: web.json_response({}), 'the answer is not the result of a query'),
        (
            lambda: web.json_response({'status': 'error', 'error': 'query timed\x1b out'}, status=503),
            'it refuses a query: query timed? out',
        ),
        (
            lambda: web.Response(status=404),
            'there is no Prometheus at this URL, or it is not ready (HTTP status 404)',
        ),
        (
            lambda: web.Response(status=302, headers={'Location': 'http://127.0.0.1:1/'}),
            'there is no Prometheus at this URL, or it is not ready (HTTP status 302)',
        ),
        (
            lambda: web.Response(status=401),
            'it does not accept the credentials (HTTP status 401): they stand in its URL or in a token file',
        ),
        (lambda: web.Response(body=b'a' * 1001), 'its answer is longer than 1000 bytes'),
    ],
)
def test_an_answer_that_cannot_be_used_is_told(response, said):
    async def story():
        async with fake_prometheus() as prometheus:
            prometheus.response = response
            return await failure(prometheus.url, most_bytes=1000), prometheus.url

    text, url = asyncio.run(story())
    assert text == f'Prometheus at {url}: {said}'


def test_a_prometheus_that_is_not_there_is_told():
    with socket.socket() as place:
        place.bind(('127.0.0.1', 0))  # nobody else has it, and nobody listens
        url = f'http://127.0.0.1:{place.getsockname()[1]}'
        assert asyncio.run(failure(url)) == f'Prometheus at {url}: it cannot be reached: Connection refused'


def test_a_name_that_does_not_exist_is_told():
    text = asyncio.run(failure('http://prometheus.invalid:9090'))
    assert text.startswith('Prometheus at http://prometheus.invalid:9090: it cannot be reached: ')


def test_a_prometheus_that_hangs_is_given_up():
    async def story():
        async with fake_prometheus() as prometheus:
            return await failure(f'{prometheus.url}/hangs', deadline=0.05), prometheus.url

    text, url = asyncio.run(story())
    assert text == f'Prometheus at {url}/hangs: it has not answered within 0.05 s'


def test_what_is_no_http_is_told():
    async def story():
        async def talk(_, writer):
            writer.write(b'220 mail.example.org ESMTP\r\n')
            writer.close()

        async with await asyncio.start_server(talk, '127.0.0.1', 0) as server:
            return await failure(f'http://127.0.0.1:{server.sockets[0].getsockname()[1]}')

    assert ': it does not answer as it should: ' in asyncio.run(story())


def test_credentials_are_sent_and_never_shown(tmp_path):
    async def story():
        async with fake_prometheus() as prometheus:
            with_password = prometheus.url.replace('//', '//alice:secret@')
            (tmp_path / 'token').write_text('abc')
            (tmp_path / 'token').chmod(0o600)
            for place in (endpoint(with_password), endpoint(prometheus.url, token_file=str(tmp_path / 'token'))):
                client = Client(place)
                assert await client.now('up') == []
                await client.close()
            assert [headers['Authorization'] for headers in prometheus.headers] == [
                'Basic YWxpY2U6c2VjcmV0',
                'Bearer abc',
            ]
            prometheus.response = lambda: web.Response(status=500)
            assert 'secret' not in await failure(with_password)

    asyncio.run(story())


def test_a_client_that_is_closed_can_ask_again():
    async def story():
        async with fake_prometheus() as prometheus:
            client = Client(Endpoint(prometheus.url))
            for _ in range(2):
                assert await client.now('up') == []
                await client.close()

    asyncio.run(story())
