from __future__ import annotations

import asyncio

import pytest
import uvicorn

from gpu_tracker.fleet.web.capacity import Capacity, Limits, Slot
from gpu_tracker.fleet.web.connection import Connection
from gpu_tracker.fleet.web.gate import CLIENT


class Transport(asyncio.Transport):
    """A client that takes its answer as told: what is left at each look."""

    def __init__(self, *sizes: int):
        super().__init__()
        self.sizes = list(sizes)
        self.written = b''
        self.is_aborted = asyncio.Event()
        self.is_closed = False

    def get_write_buffer_size(self):
        return self.sizes.pop(0) if len(self.sizes) > 1 else self.sizes[0]

    def is_closing(self):
        return self.is_closed or self.is_aborted.is_set()

    def write(self, data):
        self.written += data

    def abort(self):
        self.is_aborted.set()

    def close(self):
        self.is_closed = True


async def nothing(scope, receive, send):
    """Answer nobody."""


def connection(
    transport: Transport, application=nothing, **limits: float
) -> tuple[Connection, Slot, set[asyncio.Task]]:
    limits = {'head_time': 1e6} | limits  # nobody is dropped for something else than what the test is about
    slot = Capacity(Limits(), [].append).take('127.0.0.1', 0.0)
    config = uvicorn.Config(application, http='h11', ws='none', lifespan='off', interface='asgi3', log_config=None)
    config.load()
    server = uvicorn.Server(config)
    made = Connection(server, Limits(**limits), slot, set())
    made.connection_made(transport)
    return made, slot, server.server_state.tasks


def test_who_takes_some_of_an_answer_between_two_looks_has_more_time():
    async def main():
        transport = Transport(100, 80, 60, 60)
        made, slot, _ = connection(transport, unread_time=0.001)
        made.pause_writing()
        await asyncio.wait_for(transport.is_aborted.wait(), 60)
        assert transport.sizes == [60]  # it was looked at four times
        made.connection_lost(None)
        assert slot._capacity is None

    asyncio.run(main())


def test_what_is_written_meanwhile_is_not_taken_for_reading():
    async def main():
        transport = Transport(100, 120)
        made, _, _ = connection(transport, unread_time=0.001)
        made.pause_writing()
        await asyncio.wait_for(transport.is_aborted.wait(), 60)
        made.connection_lost(None)

    asyncio.run(main())


def test_who_has_taken_its_answer_is_left_alone():
    async def main():
        transport = Transport(100)
        made, _, _ = connection(transport, unread_time=0.001)
        made.begin_answer()
        made.pause_writing()
        made.resume_writing()
        assert made._timer is None
        made.connection_lost(None)

    asyncio.run(main())


@pytest.mark.parametrize('sent', [b'hello\r\n\r\n', b'GET / HTTP/1.1\r\n\r\n'])
def test_what_is_no_http_is_answered_once_and_the_connection_closed(sent):
    async def main():
        transport = Transport(0)
        made, _, _ = connection(transport)
        made.data_received(sent)
        assert transport.written.startswith(b'HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain')
        assert transport.is_closed
        made.shutdown()
        made.connection_lost(None)

    asyncio.run(main())


@pytest.mark.parametrize('are_one', [True, False])
def test_a_body_that_is_no_http_is_answered_once_and_by_nobody_else(are_one: bool) -> None:
    async def main():
        errors = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        transport = Transport(0)

        async def application(scope, receive, send):
            await asked.wait()
            await answer(send)

        asked = asyncio.Event()
        made, _, running = connection(transport, application)
        head, body = b'GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n', b'zz\r\n'
        if are_one:
            made.data_received(head + body)
        else:
            made.data_received(head)
            await asyncio.sleep(0)
            made.data_received(body)
        tasks = list(running)
        asked.set()
        assert await asyncio.gather(*tasks, return_exceptions=True) == [None]
        assert transport.written.startswith(b'HTTP/1.1 400 Bad Request\r\n')
        assert transport.written.count(b'HTTP/1.1 ') == 1
        assert transport.is_closed
        made.connection_lost(None)
        assert errors == []

    asyncio.run(main())


def test_what_is_no_http_in_the_middle_of_an_answer_ends_the_connection():
    async def main():
        async def application(scope, receive, send):
            await send({'type': 'http.response.start', 'status': 200, 'headers': []})
            begun.set()
            await asyncio.Event().wait()

        begun = asyncio.Event()
        transport = Transport(0)
        made, _, running = connection(transport, application)
        made.data_received(b'GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n')
        await asyncio.wait_for(begun.wait(), 60)
        made.data_received(b'zz\r\n')
        assert transport.is_aborted.is_set()
        assert transport.written.count(b'HTTP/1.1 ') == 1
        made.connection_lost(None)
        for task in list(running):
            task.cancel()

    asyncio.run(main())


async def answer(send):
    await send({'type': 'http.response.start', 'status': 200, 'headers': [(b'content-length', b'0')]})
    await send({'type': 'http.response.body'})


@pytest.mark.parametrize('error', [None, ConnectionResetError()])
def test_nothing_is_left_of_a_connection_that_has_ended(error):
    async def main():
        async def application(scope, receive, send):
            await answer(send)
            scope['state'][CLIENT].end_answer()

        transport = Transport(0)
        made, slot, running = connection(transport, application)
        made.data_received(b'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n')
        await asyncio.gather(*running)
        made.connection_lost(error)
        assert slot._capacity is None
        assert [timer for timer in asyncio.get_running_loop()._scheduled if not timer.cancelled()] == []

    asyncio.run(main())


@pytest.mark.parametrize('may_read', [False, True])
def test_a_client_that_may_read_is_waited_for_longer_between_requests(may_read):
    async def main():
        transport = Transport(0)
        made, slot, _ = connection(transport, stranger_idle_time=0.001, idle_time=0.002 if may_read else 1e6)
        slot.may_read = may_read
        slot.waiting_since = None
        made.begin_answer()
        assert made._timer is None
        made.end_answer()
        assert slot.waiting_since == pytest.approx(asyncio.get_running_loop().time(), abs=60)
        async with asyncio.timeout(60):
            while not transport.is_closing():  # noqa: ASYNC110 - a fake transport has no event for both ends
                await asyncio.sleep(0.001)
        assert transport.is_aborted.is_set() != may_read
        made.connection_lost(None)

    asyncio.run(main())


def test_a_stranger_is_cut_off_for_others_and_who_may_read_gets_what_is_left():
    async def main():
        transport = Transport(0)
        made, slot, _ = connection(transport)
        slot.give_up()
        assert transport.is_aborted.is_set()
        made.connection_lost(None)
        transport = Transport(0)
        made, slot, _ = connection(transport)
        slot.may_read = True
        slot.give_up()
        assert transport.is_closed
        assert not transport.is_aborted.is_set()
        made.connection_lost(None)

    asyncio.run(main())
