"""Looking up names, where name servers are slow, silent or wrong."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from gpu_tracker.fleet.resolver import Place, Resolver
from support.waiting import TIMEOUT

V4 = (int(socket.AF_INET), '10.0.0.1')
V6 = (int(socket.AF_INET6), '2001:db8::1')


class NameServer:
    """Answers as told, when told."""

    def __init__(self, **answers: tuple[Place, ...] | OSError) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.silent: dict[str, threading.Event] = {}

    def __call__(self, name: str) -> tuple[Place, ...]:
        self.asked.append(name)
        if name in self.silent:
            self.silent[name].wait(TIMEOUT)
        answer = self.answers[name]
        if isinstance(answer, OSError):
            raise answer
        return answer


def run(test):
    asyncio.run(asyncio.wait_for(test(), TIMEOUT))


async def until(condition):
    while not condition():  # noqa: ASYNC110 - what it waits for happens in a thread
        await asyncio.sleep(0.001)


def test_addresses_are_kept():
    async def test() -> None:
        names = NameServer(node02=(V4, V6))
        resolver = Resolver(names, clock=lambda: 0.0)
        for _ in range(3):
            found = await resolver.resolve('node02', 1080)
            assert [(one['family'], one['host'], one['port']) for one in found] == [(*V4, 1080), (*V6, 1080)]
        assert names.asked == ['node02']
        await resolver.close()

    run(test)


def test_a_name_is_looked_up_anew_beside_its_use():
    async def test() -> None:
        now = [0.0]
        names = NameServer(node02=(V4,))
        resolver = Resolver(names, clock=lambda: now[0])
        await resolver.resolve('node02')
        now[0] = 121.0
        names.silent['node02'] = threading.Event()
        names.answers['node02'] = (V6,)
        assert (await resolver.resolve('node02'))[0]['host'] == '10.0.0.1'
        assert (await resolver.resolve('node02'))[0]['host'] == '10.0.0.1'
        names.silent['node02'].set()
        await until(lambda: not resolver._running)
        assert (await resolver.resolve('node02'))[0]['host'] == '2001:db8::1'
        assert names.asked == ['node02'] * 2
        await resolver.close()

    run(test)


def test_a_name_that_was_known_outlives_a_name_server_that_fails():
    async def test() -> None:
        now = [0.0]
        names = NameServer(node02=(V4,))
        resolver = Resolver(names, clock=lambda: now[0])
        await resolver.resolve('node02')
        names.answers['node02'] = socket.gaierror(socket.EAI_AGAIN, 'Temporary failure')
        for number in range(2, 6):
            now[0] = 1000.0
            assert (await resolver.resolve('node02'))[0]['host'] == '10.0.0.1'
            await until(lambda: not resolver._running)
            assert len(names.asked) == number
        await resolver.close()

    run(test)


def test_an_unknown_name_is_an_error_each_time():
    async def test() -> None:
        names = NameServer(node02=socket.gaierror(socket.EAI_NONAME, 'Name or service not known'))
        resolver = Resolver(names)
        for _ in range(2):
            with pytest.raises(socket.gaierror):
                await resolver.resolve('node02')
        assert names.asked == ['node02'] * 2
        await resolver.close()

    run(test)


def test_names_that_hang_hold_up_no_other_and_not_the_end():
    async def test() -> None:
        names = NameServer(good=(V4,), **{f'hangs{number}': (V4,) for number in range(31)})
        release = threading.Event()
        names.silent = dict.fromkeys((name for name in names.answers if name != 'good'), release)
        resolver = Resolver(names, long=TIMEOUT)
        hanging = [asyncio.create_task(resolver.resolve(name)) for name in names.silent]
        assert (await resolver.resolve('good'))[0]['host'] == '10.0.0.1'
        for task in hanging[:10]:
            task.cancel()
        await resolver.close()
        done = await asyncio.gather(*hanging, return_exceptions=True)
        assert {type(error) for error in done} == {asyncio.CancelledError}
        release.set()

    run(test)


def test_many_names_that_hang_hold_up_no_other_for_long():
    async def test() -> None:
        names = NameServer(good=(V4,), **{f'hangs{number}': (V4,) for number in range(100)})
        release = threading.Event()
        names.silent = dict.fromkeys((name for name in names.answers if name != 'good'), release)
        resolver = Resolver(names, long=0.01)
        hanging = [asyncio.create_task(resolver.resolve(name)) for name in names.silent]
        assert (await resolver.resolve('good'))[0]['host'] == '10.0.0.1'
        assert resolver.is_looking_up('hangs99')
        assert not resolver.is_looking_up('good')
        release.set()
        assert len(await asyncio.gather(*hanging)) == 100
        assert not resolver.is_looking_up('hangs99')
        await resolver.close()

    run(test)


def test_who_gives_up_takes_the_answer_from_nobody():
    async def test() -> None:
        names = NameServer(node02=(V4,))
        names.silent['node02'] = threading.Event()
        resolver = Resolver(names)
        hasty, patient = (asyncio.create_task(resolver.resolve('node02')) for _ in range(2))
        await until(lambda: names.asked)
        hasty.cancel()
        names.silent['node02'].set()
        assert (await patient)[0]['host'] == '10.0.0.1'
        assert names.asked == ['node02']
        await resolver.close()

    run(test)
