from __future__ import annotations

import asyncio
import queue
import socket
import threading

import pytest

from gpu_tracker.fleet.web.host_names import FullName, HostNames
from support.waiting import TIMEOUT

NEVER = 1000.0


class NameServer:
    """Knows nothing until it has been asked as often as told."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    def look_up(self, name):
        self.asked.append(name)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_the_full_name_is_answered_to():
    async def main():
        names, server = HostNames([]), NameServer('node02.cluster.example')
        await asyncio.wait_for(FullName(names, server.look_up).find(), TIMEOUT)
        assert server.asked == [socket.gethostname()]
        assert names.contain(b'node02.cluster.example')

    asyncio.run(main())


@pytest.mark.parametrize('unknown', ['node02', 'localhost.localdomain', OSError('down'), UnicodeError('too long')])
def test_it_is_looked_up_again_while_it_is_not_known(unknown):
    async def main():
        names, server = HostNames([]), NameServer(unknown, unknown, 'node02.cluster.example')
        await asyncio.wait_for(FullName(names, server.look_up, pauses=(0, 0, NEVER)).find(), TIMEOUT)
        assert len(server.asked) == 3
        assert names.contain(b'node02.cluster.example')

    asyncio.run(main())


def test_after_a_while_only_a_client_that_is_refused_is_cause_for_a_look():
    async def main():
        names, server = HostNames([]), NameServer('node02', 'node02', 'node02.cluster.example')
        finding = asyncio.create_task(FullName(names, server.look_up, pauses=(), longest_pause=0).find())
        for looks in (1, 2):
            await _asked(server, looks)
            await asyncio.sleep(0.01)
            assert len(server.asked) == looks
            assert not names.contain(b'node02.cluster.example')
        await asyncio.wait_for(finding, TIMEOUT)
        assert names.contain(b'node02.cluster.example')

    asyncio.run(main())


def test_many_refused_clients_are_no_cause_for_many_looks():
    async def main():
        names, server = HostNames([]), NameServer('node02', 'node02')
        finding = asyncio.create_task(FullName(names, server.look_up, pauses=(), longest_pause=NEVER).find())
        await _asked(server, 1)
        names.contain(b'evil.example')
        await _asked(server, 2)
        for _ in range(100):
            names.contain(b'evil.example')
            await asyncio.sleep(0)
        finding.cancel()
        assert len(server.asked) == 2

    asyncio.run(main())


def test_a_name_server_that_is_down_keeps_nobody_waiting():
    async def main():
        go_on, asked, names = threading.Event(), queue.SimpleQueue(), HostNames(['localhost'])

        def hang(name):
            asked.put(threading.current_thread())
            if threading.current_thread() is not threading.main_thread():
                go_on.wait(TIMEOUT)
            return name

        finding = asyncio.create_task(FullName(names, hang).find())
        await asyncio.sleep(0)
        looking = asked.get(timeout=TIMEOUT)
        assert looking.daemon
        assert not finding.done()
        finding.cancel()
        go_on.set()

    asyncio.run(main())


async def _asked(server, times):
    async with asyncio.timeout(TIMEOUT):
        while len(server.asked) < times:  # noqa: ASYNC110 - the look-up is in a thread
            await asyncio.sleep(0.001)
