"""The connection of a client: uvicorn's protocol, and one deadline for the client's next step."""

from __future__ import annotations

import asyncio
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

import h11

from gpu_tracker.fleet.web.gate import CLIENT, completed

if TYPE_CHECKING:
    import uvicorn

    from gpu_tracker.fleet.web.capacity import Limits, Slot

LAST_MOMENT = 0.5
"""Seconds for cancelled tasks and closed connections to end."""


class Connection(asyncio.Protocol):
    """Passes bytes to uvicorn's protocol and closes the connection of a client that takes too long.

    :param opened: Holds this connection from its beginning to its end.
    """

    def __init__(self, server: uvicorn.Server, limits: Limits, slot: Slot, opened: set[Connection]) -> None:
        self.slot = slot
        self._opened = opened
        self._limits = limits
        make: Any = server.config.http_protocol_class  # which uvicorn's server calls alike
        self._protocol = make(config=server.config, server_state=server.server_state, app_state={CLIENT: self})
        self._head = (limits.head_time, self.abort)
        self._step: tuple[float, Any] | None = self._head
        """Seconds for the client's next step and what follows them; None while it is being answered."""
        self._unread: int | None = None
        """Bytes that the client had left unread at the last check; None: it reads as fast as they come."""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as asyncio's servers
        """Wait for a request."""
        self._transport = transport
        self._opened.add(self)
        self.slot.give_up = self._give_up
        self._protocol.connection_made(_Completing(transport))
        self._set_timer()

    def data_received(self, data: bytes) -> None:
        """Pass bytes on; the time for the head of a later request begins with its first byte."""
        if self._step and self._step is not self._head:
            self._step = self._head
            self._set_timer()
        try:
            self._protocol.data_received(data)
        except h11.LocalProtocolError:  # no HTTP in the middle of an answer: it is too late for a status
            self.abort()

    def connection_lost(self, _: Exception | None) -> None:
        """Leave the slot."""
        self.slot.leave()
        self._opened.discard(self)
        self._step = self._unread = None
        self._set_timer()
        self._protocol.connection_lost(None)  # with an error uvicorn would keep its timer, and so this connection

    def pause_writing(self) -> None:
        """Check from now on that the client reads."""
        self._protocol.pause_writing()
        self._unread = self._transport.get_write_buffer_size()
        self._set_timer()

    def resume_writing(self) -> None:
        """Stop checking: the client has read most of its answer."""
        self._protocol.resume_writing()
        self._unread = None
        self._set_timer()

    @property
    def is_gone(self) -> bool:
        """Whether nobody reads answers any more."""
        return self._transport.is_closing()

    def begin_answer(self) -> None:
        """Stop the deadline: the head of a request is complete."""
        self._step = None
        self._set_timer()

    def end_answer(self) -> None:
        """Wait for the next request."""
        self.slot.waiting_since = asyncio.get_running_loop().time()
        seconds = self._limits.idle_time
        self._step = (seconds if self.slot.may_read else min(seconds, self._limits.stranger_idle_time), self._give_up)
        self._set_timer()

    def shutdown(self) -> None:
        """Close when the present answer is complete, or now."""
        if not self.is_gone:
            self._protocol.shutdown()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    def _give_up(self) -> None:
        """Close between two requests; a client that may read still gets the rest of its answer."""
        (self._transport.close if self.slot.may_read else self._transport.abort)()

    def _set_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
        step = self._step if self._unread is None else (self._limits.unread_time, self._check_unread)
        self._timer = asyncio.get_running_loop().call_later(*step) if step else None

    def _check_unread(self) -> None:
        before, self._unread = self._unread, self._transport.get_write_buffer_size()
        if before is not None and self._unread >= before:
            self.abort()
        else:
            self._set_timer()


class _Completing:
    """A transport that adds the headers of all answers to uvicorn's own, such as its 400."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a transport has
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write; uvicorn writes the head of an answer by itself."""
        if data.startswith(b'HTTP/1.1 ') and data.endswith(b'\r\n\r\n') and b'\r\nx-content-type-options: ' not in data:
            headers = completed([], formatdate(usegmt=True).encode())
            data = data[:-2] + b''.join(b'%s: %s\r\n' % header for header in headers) + b'\r\n'
        self._transport.write(data)
