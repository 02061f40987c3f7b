"""Hosts that answer as no agent should: each is a row with its error, and nobody else has to wait."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

import pytest
from yarl import URL

from gpu_tracker.fleet.config.cluster import Cluster, ConfiguredHost, Token
from gpu_tracker.fleet.hosts.fleet import Fleet
from gpu_tracker.fleet.polling.http_client import HttpClient, Progress
from gpu_tracker.fleet.polling.poller import Poller, waiting_hosts
from support.fleet.hostile_agents import (
    GPU,
    Recorder,
    answer,
    closed_port,
    closes,
    drips,
    full_port,
    gzip_bomb,
    hangs,
    never_ends,
    report,
    says,
    says_and_closes,
    serving,
    url_of,
)
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from gpu_tracker.fleet.hosts.host import HostState
    from support.fleet.hostile_agents import Behaviour

KNOWN = 's3cret'
NO_REPORT = 'did not answer with a report: '
HEAD = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n'


def poller(*urls: str, deadline: float = TIMEOUT, token: str | None = None) -> Poller:
    hosts = tuple(ConfiguredHost(url, token=None if token is None else Token(token)) for url in urls)
    cluster = Cluster(hosts, interval=5, deadline=deadline)
    return Poller(cluster, Fleet(waiting_hosts(cluster), interval=5))


async def round_of(asking: Poller) -> list[HostState]:
    """Ask all hosts once."""
    client = HttpClient()
    try:
        await asking.round(client)
    finally:
        await client.close()
    return list(asking.fleet.states())


def error_of(behaviour: Behaviour) -> str | None:
    """Return what is told of a host that answers at once, in one way or another."""

    async def ask() -> str | None:
        async with serving(behaviour) as url:
            (state,) = await round_of(poller(url))
        assert state.state == 'down'
        return state.error

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ('body', 'why'),
    [
        (b'', 'the answer is not JSON'),
        (b'<html>hello</html>', 'the answer is not JSON'),
        (b'\xff\xfe\x00', 'the answer is not JSON'),
        (b'\0' * 100, 'the answer is not JSON'),
        (b'[' * 300_000, 'the answer is not JSON'),
        (b'[' + b'[],' * 1_350_000 + b'1]', 'the answer has more than 400000 texts, commas and brackets'),
        (b'{"a":' * 10_000, 'the answer is not JSON'),
        (b'9' * 1_000_000, 'the answer is not JSON'),
        (b'[]', 'the answer is not a JSON object'),
        (b'null', 'the answer is not a JSON object'),
        (b'{}', 'the answer has no hostname'),
        (report(hostname=''), 'the answer has no hostname'),
        (report(hostname=['node01']), 'the answer has no hostname'),
        (report(gpus=None), 'the answer has neither gpus nor driver_problem'),
        (report(gpus={}), 'gpus is not a list of objects'),
        (report(gpus=[1]), 'gpus is not a list of objects'),
        (report(gpus=[{}] * 257), 'gpus has more than 256 entries'),
        (report(gpus=[{'mig_devices': [{}] * 257}]), 'mig_devices has more than 256 entries'),
        (report(gpus=[{'processes': [{'pid': 1}] * 20_000}]), 'the answer has more than 20000 objects'),
    ],
)
def test_a_body_that_is_no_report(body: bytes, why: str):
    assert error_of(says(answer(body))) == NO_REPORT + why


@pytest.mark.parametrize(
    ('data', 'error'),
    [
        (answer(b'no', '401 Unauthorized'), 'answered 401: wrong or missing token'),
        (answer(b'no', '403 Forbidden'), 'answered 403: it may not be read from here'),
        (answer(b'no', '404 Not Found'), 'answered 404: no agent is there, but another program'),
        (
            answer(b'no', '421 Misdirected Request'),
            'answered 421: it does not know itself by this name; its option --server-name adds names',
        ),
        (answer(b'no', '500 Internal Server Error'), 'answered 500'),
        (answer(b'', '204 No Content'), 'answered 204'),
        (answer(b'', '302 Found', 'Location: http://127.0.0.1:1/'), 'answered 302: redirects are not followed'),
        (answer(b'', '302 Found'), 'answered 302: redirects are not followed'),
        (gzip_bomb(10_000_000), f'{NO_REPORT}it is compressed, which nobody asked for'),
        (
            answer(report(), '200 OK', 'Content-Encoding: identity, gzip'),
            f'{NO_REPORT}it is compressed, which nobody asked for',
        ),
        (HEAD + b'Content-Length: 99999999999999\r\n\r\n', f'{NO_REPORT}it is larger than 4 MiB'),
        (b'SSH-2.0-OpenSSH_9.2\r\n', 'did not answer in HTTP'),
        (b'\x15\x03\x01\x00\x02\x02\x50' * 10, 'did not answer in HTTP'),
        (HEAD + b'Content-Length: -1\r\n\r\n', 'did not answer in HTTP'),
        (HEAD + b'Content-Length: 5, 6\r\n\r\n', 'did not answer in HTTP'),
        (HEAD + b'A: ' + b'a' * 100_000 + b'\r\n\r\n', 'did not answer in HTTP'),
        (HEAD + b'A: a\r\n' * 10_000 + b'\r\n', 'did not answer in HTTP'),
        (HEAD + b'\x00\xff: \x00\r\n\r\n', 'did not answer in HTTP'),
    ],
)
def test_an_answer_that_is_none(data: bytes, error: str):
    assert error_of(says(data)) == error


@pytest.mark.parametrize(
    ('behaviour', 'error'),
    [
        (closes, 'the connection ended before the answer'),
        (says_and_closes(HEAD), 'the connection ended before the answer'),
        (says_and_closes(HEAD + b'Content-Length: 100\r\n\r\n{'), 'the connection ended in the middle of the answer'),
        (
            says_and_closes(HEAD + b'Transfer-Encoding: chunked\r\n\r\n5\r\n{"a"'),
            'the connection ended in the middle of the answer',
        ),
        (never_ends(HEAD + b'\r\n', b' ' * 65536), f'{NO_REPORT}it is larger than 4 MiB'),
        (
            never_ends(HEAD + b'Transfer-Encoding: chunked\r\n\r\n', b'10000\r\n' + b' ' * 65536 + b'\r\n'),
            f'{NO_REPORT}it is larger than 4 MiB',
        ),
    ],
)
def test_a_connection_that_ends_too_early_or_never(behaviour: Behaviour, error: str):
    assert error_of(behaviour) == error


def test_values_that_are_no_sensible_figures_are_unknown():
    odd = GPU | {'utilization_percent': float('nan'), 'memory_used_bytes': 10**400, 'temperature_celsius': 1e308}

    async def ask() -> HostState:
        body = report(gpus=[odd], hostname='\ud800').replace(b'1e+308', b'1e999')
        async with serving(says(answer(body))) as url:
            return (await round_of(poller(url)))[0]

    state = asyncio.run(ask())
    assert (state.state, state.error, state.name) == ('up', None, '?')
    assert state.report is not None
    assert state.report.gpus is not None
    (gpu,) = state.report.gpus
    assert (gpu.utilization_percent, gpu.memory_used_bytes, gpu.temperature_celsius) == (None, None, None)
    assert gpu.memory_total_bytes == 40_000_000_000


def test_one_deadline_ends_all_that_hang_or_drip():
    whole = answer(report())
    hanging = {
        'no answer within 1 s': [
            hangs(),
            hangs(b'HTTP/1.1'),
            drips(whole),
            never_ends(b'', b'HTTP/1.1 100 Continue\r\n\r\n'),
        ],
        'no whole answer within 1 s': [
            hangs(HEAD + b'Content-Length: 100\r\n\r\n'),
            hangs(whole[:-1]),
        ],
    }

    async def ask() -> None:
        async with contextlib.AsyncExitStack() as stack:
            expected = [error for error, behaviours in hanging.items() for _ in behaviours]
            servers = [serving(behaviour) for behaviours in hanging.values() for behaviour in behaviours]
            urls = [await stack.enter_async_context(server) for server in servers]
            urls.append(stack.enter_context(full_port()))
            asking = poller(*urls, deadline=1)
            begun = time.monotonic()
            states = await round_of(asking)
            assert time.monotonic() - begun < TIMEOUT
            assert {state.state for state in states} == {'down'}
            for state, error in zip(states, [*expected, 'no answer within 1 s'], strict=True):
                # On a machine that is very busy not even the head of an answer comes in time.
                assert state.error in {error, 'no answer within 1 s'}
            assert [asking.error_for_nvgpu(state.id) for state in states] == ['Connection timeout'] * len(states)
            assert not [task for task in asyncio.all_tasks() if 'Poller' in repr(task.get_coro())]

    asyncio.run(ask())


def test_a_host_that_hangs_keeps_no_other_from_being_shown():
    async def ask() -> None:
        async with serving(hangs()) as hanging, serving(says(answer(report()))) as good:
            asking = poller(hanging, good)
            task = asyncio.create_task(asking.run())
            while asking.fleet.states()[1].state == 'waiting':
                await asking.fleet.change(asking.fleet.version)
            assert [state.state for state in asking.fleet.states()] == ['waiting', 'up']
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(asyncio.wait_for(ask(), TIMEOUT))


def test_a_redirect_gets_neither_a_request_nor_the_token():
    async def ask() -> None:
        target = Recorder({})
        async with serving(target) as elsewhere:
            there = answer(b'', '307 Temporary Redirect', f'Location: {elsewhere}/api/v1/host')
            origin = Recorder({'/api/v1/host': there})
            async with serving(origin) as url:
                (state,) = await round_of(poller(url, token=KNOWN))
        assert state.error == 'answered 307: redirects are not followed'
        assert origin.header('Authorization') == ['Bearer s3cret']
        assert target.connections == 0

    asyncio.run(ask())


def test_what_a_host_says_in_its_status_line_is_no_markup_and_no_token():
    async def ask() -> None:
        recorder = Recorder({'/api/v1/host': answer(b'', '500 <b>\x1b[31m' + 'a' * 200)})
        async with serving(recorder) as url:
            asking = poller(url, token=KNOWN)
            (state,) = await round_of(asking)
        assert state.error == 'answered 500'
        told = asking.error_for_nvgpu('0')
        assert told is not None
        assert told.isprintable()
        assert len(told) < 200
        assert 's3cret' not in repr(asking.fleet.states())

    asyncio.run(ask())


def test_nobody_listens():
    async def ask() -> None:
        with closed_port() as bound:
            asking = poller(url_of(bound), 'http://no-such-host.invalid:1080')
            states = await round_of(asking)
        assert states[0].error == 'cannot connect: connection refused'
        assert states[1].error is not None
        assert states[1].error.startswith(('cannot connect: no machine', 'cannot connect: the name could not'))
        assert [asking.error_for_nvgpu(number) for number in '01'] == ['Host not available'] * 2

    asyncio.run(ask())


def test_who_begins_to_answer_is_told_from_who_says_nothing():
    async def test() -> None:
        begins, silent = Progress(), Progress()
        client = HttpClient()
        async with (
            serving(hangs(HEAD + b'Content-Length: 100\r\n\r\n')) as begun,
            serving(hangs(b'HTTP/1.1')) as not_begun,
        ):
            asking = [
                asyncio.create_task(client.get(URL(url), {}, None, progress))
                for url, progress in ((not_begun, silent), (begun, begins))
            ]
            while not begins.has_begun:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.001)
            assert not silent.has_begun
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
            await client.close()

    asyncio.run(asyncio.wait_for(test(), TIMEOUT))
