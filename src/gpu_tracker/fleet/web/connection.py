"""How much, and for how long, one client may occupy."""

from __future__ import annotations

from email.utils import formatdate
from typing import TYPE_CHECKING

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from gpu_tracker.fleet.web import gate
from gpu_tracker.fleet.web.gate import GONE, IS_TRUSTED, MAY_READ, WAS_WRONG

if TYPE_CHECKING:
    import asyncio

    import uvicorn
    from uvicorn.server import ServerState

    from gpu_tracker.fleet.web.capacity import Limits, Slot

LAST_MOMENT = 0.5
"""Seconds that what is cancelled or cut off at the end has to note it."""


class Connection(H11Protocol):
    """Answers requests, one after the other.

    :param limits: The times after which it gives the client up.
    :param slot: Takes note of what the client does, and is left when the connection is closed.
    """

    def __init__(self, config: uvicorn.Config, state: ServerState, limits: Limits, slot: Slot) -> None:
        told = {MAY_READ: self._note_may_read, WAS_WRONG: self._note_was_wrong}
        super().__init__(config, state, {GONE: self._is_gone, IS_TRUSTED: self._is_trusted, **told})
        # The option of uvicorn is an int.
        self.timeout_keep_alive = min(limits.stranger_idle_time, limits.idle_time)  # type: ignore[assignment]
        self._limits = limits
        self._slot = slot
        self._head_timer: asyncio.TimerHandle | None = None
        self._unread_timer: asyncio.TimerHandle | None = None
        self._unread = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's
        """Begin, and wait for a request."""
        super().connection_made(transport)
        self._slot.give_up = self._give_up
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        """Take bytes of the client's."""
        super().data_received(data)
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Take note that it is closed."""
        try:
            super().connection_lost(exc)
        finally:
            self._unset_keepalive_if_required()
            self._stop_head_timer()
            self._stop_unread_timer()
            self._slot.leave()

    def pause_writing(self) -> None:
        """Take note that the client does not take its answer as fast as it comes."""
        super().pause_writing()
        self._unread = self.transport.get_write_buffer_size()
        self._unread_timer = self.loop.call_later(self._limits.unread_time, self._check_unread)

    def resume_writing(self) -> None:
        """Take note that the client has taken most of what was there."""
        super().resume_writing()
        self._stop_unread_timer()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._slot.waiting_since = self.loop.time()
        super().on_response_complete()

    def shutdown(self) -> None:
        """End after the answer that is being given, if one is."""
        try:
            super().shutdown()
        except h11.LocalProtocolError:
            self.transport.abort()  # the client has broken the protocol, and is being told so

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, with the headers that all answers have."""
        if self.conn.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            self.transport.abort()  # in the middle of an answer there is nothing else to say
            return
        body = f'{msg}\n'.encode()
        headers = gate.completed(
            [
                (b'content-type', b'text/plain; charset=utf-8'),
                (b'content-length', b'%d' % len(body)),
                (b'connection', b'close'),
            ],
            formatdate(usegmt=True).encode(),
        )
        events = [h11.Response(status_code=400, headers=headers, reason=b'Bad Request'), h11.Data(data=body)]
        for event in [*events, h11.EndOfMessage()]:
            self.transport.write(self.conn.send(event) or b'')
        if self.cycle is not None:
            self.cycle.disconnected = True  # a request whose body is no HTTP is answered by this alone
            self.cycle.message_event.set()
        self.transport.close()

    def abort(self) -> None:
        """End at once."""
        self.transport.abort()

    def _is_gone(self) -> bool:
        return self.transport.is_closing()

    def _is_trusted(self) -> bool:
        return self._slot.may_read

    def _note_was_wrong(self) -> None:
        self._slot.may_read = False

    def _note_may_read(self) -> None:
        """Take note that the client gets an answer to which not everybody has a right."""
        self._slot.may_read = True
        self._slot.waiting_since = None
        self.timeout_keep_alive = self._limits.idle_time  # type: ignore[assignment] # as above

    def _give_up(self) -> None:
        """End between two requests; what is left of the last answer still goes out to whom it is for."""
        if self._slot.may_read:
            self.transport.close()
        else:
            self.transport.abort()

    def _watch_head(self) -> None:
        """Wait for the rest of a request's head no longer than is allowed, counted from its first byte."""
        if self.conn.their_state is not h11.IDLE:
            self._stop_head_timer()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(self._limits.head_time, self.abort)

    def _stop_head_timer(self) -> None:
        if self._head_timer:
            self._head_timer.cancel()
            self._head_timer = None

    def _check_unread(self) -> None:
        """Drop a client that has taken nothing since the last check."""
        size = self.transport.get_write_buffer_size()
        if size >= self._unread:
            self.abort()
            return
        self._unread = size
        self._unread_timer = self.loop.call_later(self._limits.unread_time, self._check_unread)

    def _stop_unread_timer(self) -> None:
        if self._unread_timer:
            self._unread_timer.cancel()
            self._unread_timer = None
