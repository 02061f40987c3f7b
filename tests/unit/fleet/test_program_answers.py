"""Bodies that both servers encode once for all clients."""

from __future__ import annotations

import asyncio
import gzip
from typing import TYPE_CHECKING

import pytest
from starlette.requests import Request

from gpu_tracker.fleet.program_answers import SharedBody, json_list

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.responses import Response


def request(accepted: str = '') -> Request:
    return Request({'type': 'http', 'method': 'GET', 'headers': [(b'accept-encoding', accepted.encode())]})


async def body_of(response: Response) -> bytes:
    return b''.join([piece async for piece in response.body_iterator])


class Hosts:
    """Yields items, and counts how often it was read to its end."""

    def __init__(self, *items: object) -> None:
        self.items = items
        self.reads = 0

    def __iter__(self) -> Iterator[object]:
        yield from self.items
        self.reads += 1


@pytest.mark.parametrize(
    ('items', 'text'), [((), b'[]'), (('a',), b'["a"]'), (({'b': 1}, None, 'é'), rb'[{"b": 1},null,"\u00e9"]')]
)
def test_a_list_plain_and_compressed(items: tuple[object, ...], text: bytes) -> None:
    async def ask() -> None:
        shared = SharedBody()
        plain = await shared.answer(request(), json_list(items), 1)
        assert (plain.headers['content-length'], plain.headers.get('content-encoding')) == (str(len(text)), None)
        assert await body_of(plain) == text
        packed = await shared.answer(request('br, gzip;q=0.5'), json_list(items), 1)
        body = await body_of(packed)
        assert (packed.headers['content-length'], packed.headers['content-encoding']) == (str(len(body)), 'gzip')
        assert gzip.decompress(body) == text
        refused = await shared.answer(request('gzip;q=0'), json_list(items), 1)
        assert refused.headers.get('content-encoding') is None

    asyncio.run(ask())


def test_a_long_list_is_complete() -> None:
    async def ask() -> None:
        items = [f'{number:x}' * 50 for number in range(5_000)]
        answer = await SharedBody().answer(request(), json_list(items), 1)
        body = await body_of(answer)
        assert body == ('["' + '","'.join(items) + '"]').encode()
        assert answer.headers['content-length'] == str(len(body))

    asyncio.run(ask())


def test_it_is_encoded_once_for_all_clients_of_a_round() -> None:
    async def ask() -> None:
        shared, hosts = SharedBody(), Hosts('a', 'b')
        answers = await asyncio.gather(*(shared.answer(request(), json_list(hosts), 1) for _ in range(8)))
        assert [await body_of(answer) for answer in answers] == [b'["a","b"]'] * 8
        assert hosts.reads == 1
        later = await shared.answer(request(), json_list(Hosts('c')), 2)
        assert await body_of(later) == b'["c"]'

    asyncio.run(ask())


def test_without_a_key_each_later_client_gets_a_new_list() -> None:
    async def ask() -> list[bytes]:
        shared = SharedBody()
        return [await body_of(await shared.answer(request(), json_list([item]), None)) for item in 'ab']

    assert asyncio.run(ask()) == [b'["a"]', b'["b"]']


def test_other_answers_come_between_two_hosts() -> None:
    async def ask() -> None:
        turns = 0

        async def take_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        other = asyncio.create_task(take_turns())
        await SharedBody().answer(request(), json_list(['host'] * 100), 1)
        other.cancel()
        assert turns >= 100

    asyncio.run(ask())


def test_a_client_that_leaves_takes_the_list_from_nobody_else() -> None:
    async def ask() -> bytes:
        shared = SharedBody()
        leaving = asyncio.create_task(shared.answer(request(), json_list('abc'), 1))
        staying = asyncio.create_task(shared.answer(request(), json_list('abc'), 1))
        await asyncio.sleep(0)
        leaving.cancel()
        return await body_of(await staying)

    assert asyncio.run(ask()) == b'["a","b","c"]'
