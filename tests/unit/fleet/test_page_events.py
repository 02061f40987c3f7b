"""Server-sent events of a fleet, and its JSON."""

from __future__ import annotations

import asyncio
import gzip
import json

import pytest
from starlette.applications import Starlette

from gpu_tracker.fleet.hosts.fleet import Fleet
from gpu_tracker.fleet.hosts.host import HostState
from gpu_tracker.fleet.page.encoded import PIECE, EncodedFleet, events
from gpu_tracker.fleet.page.routes import page_routes
from support.fleet.page_hosts import NOW, MadeUpSource, busy_gpu, free_gpu, up

NEVER = 60.0


class Stream:
    """Reads the events of a fleet one by one."""

    def __init__(self, fleet, silence=NEVER):
        self.fleet = fleet
        self.encoded = EncodedFleet(fleet)
        self._events = events(fleet, self.encoded, silence)

    async def text(self):
        pieces = []
        while not pieces or not pieces[-1].endswith(b'\n\n'):
            pieces.append(await asyncio.wait_for(anext(self._events), NEVER))
        return b''.join(pieces).decode('ascii')

    async def next(self):
        """Return the name of the next event and what it holds."""
        fields = dict(line.split(': ', 1) for line in (await self.text()).rstrip('\n').split('\n') if line[0] != ':')
        return fields['event'], json.loads(fields['data'])

    async def has_ended(self):
        return await anext(self._events, None) is None


def fleet_of(*hosts):
    return Fleet(hosts, interval=5.0, now=lambda: NOW)


def whole(encoded):
    return b''.join(encoded.pieces())


def large_fleet():
    """Return a fleet of which one piece does not hold a host."""
    return fleet_of(*(up(str(number), 'x' * 2 * PIECE, free_gpu(0)) for number in range(3)))


def names(data):
    return [host['name'] for host in data['hosts']]


def test_a_stream_begins_with_everything_and_goes_on_with_changes():
    async def look():
        fleet = fleet_of(up('0', 'one', free_gpu(0)), up('1', 'two', busy_gpu(0)))
        stream = Stream(fleet)
        name, everything = await stream.next()
        assert name == 'fleet'
        assert names(everything) == ['one', 'two']
        assert (everything['time'], everything['interval_seconds'], everything['totals']['free']) == (NOW, 5.0, 1)
        fleet.put(up('1', 'two', free_gpu(0)))
        name, changes = await stream.next()
        assert name == 'hosts'
        assert sorted(changes) == ['hosts', 'time', 'totals']
        assert (names(changes), changes['totals']['free']) == (['two'], 2)
        assert changes['hosts'][0]['gpus'][0]['status'] == 'free'

    asyncio.run(look())


def test_a_browser_is_told_when_to_come_back():
    first = asyncio.run(Stream(fleet_of()).text())
    assert first.startswith('retry: 2000\nevent: fleet\ndata: {"time":1800000000.0,"totals":{"hosts":0,')
    assert first.endswith('"interval_seconds":5.0,"hosts":[]}\n\n')
    assert first.count('\n') == 4


def test_a_reader_who_was_slow_gets_the_newest_state_once():
    async def look():
        fleet = fleet_of(up('0', 'one', free_gpu(0)), up('1', 'two', free_gpu(0)))
        stream = Stream(fleet)
        await stream.next()
        for load in range(50):
            fleet.put(up('0', 'one', busy_gpu(0, utilization_percent=float(load))))
        _, changes = await stream.next()
        assert names(changes) == ['one']
        assert changes['hosts'][0]['gpus'][0]['utilization_percent'] == 49.0
        fleet.put(up('1', 'two', busy_gpu(0)))
        _, changes = await stream.next()
        assert names(changes) == ['two']

    asyncio.run(look())


def test_a_stream_without_news_says_that_it_is_there():
    async def look():
        stream = Stream(fleet_of(up('0', 'one', free_gpu(0))), silence=0.01)
        await stream.next()
        text = await stream.text()
        assert text.startswith(': still here\nevent: hosts\ndata: ')
        assert text.endswith('"hosts":[]}\n\n')

    asyncio.run(look())


def test_a_host_that_is_no_more_makes_everything_be_told_anew():
    async def look():
        fleet = fleet_of(up('0', 'one', free_gpu(0)), up('1', 'two', free_gpu(0)))
        stream = Stream(fleet)
        await stream.next()
        fleet.remove('0')
        name, everything = await stream.next()
        assert (name, names(everything)) == ('fleet', ['two'])

    asyncio.run(look())


def test_a_stream_ends_when_the_fleet_is_closed():
    async def look():
        fleet = fleet_of(up('0', 'one'))
        stream = Stream(fleet)
        await stream.next()
        ending = asyncio.create_task(stream.has_ended())
        await asyncio.sleep(0)
        fleet.close()
        assert await asyncio.wait_for(ending, NEVER)

    asyncio.run(look())


class CountedReport:
    """A report that notes when it is encoded."""

    agent = driver_problem = claims_problem = jobs = None
    gpus = ()

    def __init__(self, name, encoded):
        self._name = name
        self._encoded = encoded

    @property
    def hostname(self):
        self._encoded.append(self._name)
        return self._name

    def _replace(self, **changes):
        return self


def test_a_host_is_encoded_once_for_all_readers():
    encoded = []

    def counted(host_id, name):
        return HostState(host_id, name, report=CountedReport(name, encoded))

    async def look():
        fleet = fleet_of(counted('0', 'one'), counted('1', 'two'))
        together = EncodedFleet(fleet)
        streams = [events(fleet, together, NEVER) for _ in range(5)]
        for stream in streams:
            await anext(stream)
        assert encoded == ['one', 'two']
        fleet.put(counted('1', 'other'))
        for stream in streams:
            await anext(stream)
        assert encoded == ['one', 'two', 'other']

    asyncio.run(look())


def test_everything_has_the_time_at_which_it_was_asked_for():
    time = [NOW]
    encoded = EncodedFleet(Fleet([], interval=5.0, now=lambda: time[0]))
    assert json.loads(whole(encoded.everything()))['time'] == NOW
    time[0] += 3600
    assert json.loads(whole(encoded.everything()))['time'] == NOW + 3600


def test_a_large_fleet_is_encoded_once_whenever_it_is_asked_for():
    time = [NOW]
    encoded = EncodedFleet(Fleet([up('0', 'one')], interval=5.0, now=lambda: time[0]))
    first = encoded.everything()
    time[0] += 1
    second = encoded.everything()
    assert first.rest is second.rest
    assert len(first.beginning) < 100


def test_a_large_event_goes_out_in_pieces():
    async def look():
        fleet = large_fleet()
        pieces = []
        async for piece in events(fleet, EncodedFleet(fleet), NEVER):
            assert len(piece) <= PIECE
            pieces.append(piece)
            if piece.endswith(b'\n\n'):
                fleet.close()
        assert len(pieces) > 6
        data = b''.join(pieces).partition(b'data: ')[2]
        assert len(json.loads(data)['hosts']) == 3

    asyncio.run(look())


async def answered(application, accepted=b''):
    """Return what is sent for the whole fleet."""
    sent = []

    async def receive():
        await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    path = '/api/v1/fleet'
    scope = {'type': 'http', 'method': 'GET', 'path': path, 'raw_path': path.encode(), 'query_string': b''}
    scope |= {'headers': [(b'accept-encoding', accepted)], 'asgi': {'spec_version': '2.3'}}
    await application(scope, receive, send)
    return sent


def test_the_whole_fleet_is_encoded_once_a_round():
    async def look():
        fleet = fleet_of(HostState('0', 'node01'), HostState('1', 'node02'))
        application = Starlette(routes=page_routes(MadeUpSource(fleet), 'fleet'))

        async def states():
            body = b''.join(message.get('body', b'') for message in await answered(application))
            return [host['state'] for host in json.loads(body)['hosts']]

        assert await states() == ['waiting', 'waiting']
        fleet.put(HostState('0', 'node01', state='down'))
        assert await states() == ['waiting', 'waiting']
        fleet.end_round()
        assert await states() == ['down', 'waiting']
        fleet.remove('1')
        assert await states() == ['down']

    asyncio.run(look())


@pytest.mark.parametrize('accepted', [b'', b'gzip'])
def test_a_large_answer_goes_out_in_pieces(accepted):
    async def look():
        sent = await answered(Starlette(routes=page_routes(MadeUpSource(large_fleet()), 'fleet')), accepted)
        bodies = [message.get('body', b'') for message in sent[1:]]
        assert max(map(len, bodies)) <= PIECE
        body = b''.join(bodies)
        headers = dict(sent[0]['headers'])
        assert int(headers[b'content-length']) == len(body)
        assert headers.get(b'content-encoding', b'') == accepted
        if accepted:
            body = gzip.decompress(body)
        assert len(body) > 6 * PIECE
        assert len(json.loads(body)['hosts']) == 3

    asyncio.run(look())


@pytest.mark.parametrize('name', ['a\nb', 'a\r\ndata: x', '\u2028', '\u202e', '</script>', '"', 'é', '\ud800'])
def test_no_name_ends_a_line_of_an_event(name):
    encoded = whole(EncodedFleet(fleet_of(HostState('0', name))).everything())
    assert encoded.isascii()
    assert b'\n' not in encoded
    assert b'\r' not in encoded
    assert json.loads(encoded)['hosts'][0]['name'] == name
