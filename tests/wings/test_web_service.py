"""Connections as the server's own end has them."""

from __future__ import annotations

import asyncio
import socket

from gpu_tracker.fleet.web.access import Access
from gpu_tracker.fleet.web.capacity import Limits
from gpu_tracker.fleet.web.listener import Listener, listening_sockets
from gpu_tracker.fleet.web.service import Service
from gpu_tracker.system.sockets import addresses
from support.waiting import TIMEOUT


async def flood(scope, receive, send):
    await send({'type': 'http.response.start', 'status': 200, 'headers': []})
    while True:
        await send({'type': 'http.response.body', 'body': b'x' * 65536, 'more_body': True})


async def noted(condition):
    async with asyncio.timeout(TIMEOUT):
        while not condition():  # noqa: ASYNC110 - nothing there has an event
            await asyncio.sleep(0.001)


def test_the_end_cuts_off_who_does_not_read():
    async def main():
        access = Access(tuple(addresses('127.0.0.1', 0)))
        listening = listening_sockets(access.addresses)
        service = Service(listening, flood, access, Limits(end_time=0), [].append)
        service.open()
        with socket.create_connection(listening[0].getsockname()) as client:
            client.sendall(b'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n')
            connection = await made(service)
            await noted(lambda: connection._unread is not None)
            await service.close(asyncio.get_running_loop().create_future())
            assert service._listener.count == 0

    async def made(service):
        await noted(lambda: service._opened)
        return next(iter(service._opened))

    asyncio.run(main())


def test_what_is_accepted_answers_at_once_and_is_given_up_when_nobody_takes_the_answer():
    async def main():
        arrived = asyncio.get_running_loop().create_future()

        class Arrival(asyncio.Protocol):
            def __init__(self, place):
                self._place = place

            def connection_made(self, transport):
                arrived.set_result(transport)

            def connection_lost(self, error):
                self._place.leave()

        listening = listening_sockets(addresses('127.0.0.1', 0))
        place = listening[0].getsockname()
        listener = Listener(listening, Arrival, tls=None, limits=Limits(unread_time=12.5), complain=[].append)
        listener.open()
        with socket.create_connection(place):
            transport = await asyncio.wait_for(arrived, TIMEOUT)
            accepted = transport.get_extra_info('socket')
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            if hasattr(socket, 'TCP_USER_TIMEOUT'):
                assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 12500
            transport.abort()
            await noted(lambda: listener.count == 0)
        listener.close()

    asyncio.run(main())
