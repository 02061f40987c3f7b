"""The daemon: its settings, and its parts put together."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.atopgpud.ledger import Ledger
from gpu_tracker.atopgpud.logs import Throttle
from gpu_tracker.atopgpud.observer import Drivers, Observer
from gpu_tracker.atopgpud.server import Server
from gpu_tracker.system import sockets
from gpu_tracker.system.sockets import tell_systemd

if TYPE_CHECKING:
    import logging
    import socket
    from collections.abc import Callable


class Settings(NamedTuple):
    """The daemon's settings."""

    host: str = '127.0.0.1'
    """A name or an address of this machine, where version 1 of the protocol is spoken."""
    port: int = 59123
    """0: any that is free."""
    socket_name: str = 'atopgpud_nvidia'
    """Of the kernel's own, without its leading null byte: where versions 1 and 2 are spoken."""
    interval: float = 1.0
    """Seconds between two readings."""
    enable_accounting: bool = False
    """Switch accounting mode of the GPUs on."""


_LEAST_MAX_AGE = 3.0
_MISSED_READINGS = 3
_FIRST_READINGS = 1.0
"""Seconds that the first clients wait at most for GPUs that are slow to answer."""
_CHECK = 1.0
"""Seconds between two checks of what hangs."""
_MOST_DEBUG_MESSAGES = 1000
"""A minute, on clients that come and go."""

_FAILED = 1


def run(settings: Settings, addresses: list[sockets.Address], log: logging.Logger, ready: Callable[[], None]) -> int:
    """Serve until SIGTERM ends it, and return the exit code: 0 also, at once, where there is no GPU.

    What stands in the way, as an address that is taken, is logged as an error, and the exit code is 1.

    :param addresses: Those of the host and port.
    :param ready: Called when clients are answered, or when there is nothing to do.
    :raises KeyboardInterrupt: SIGINT has ended it.
    """
    return asyncio.run(_Daemon(settings, addresses, log, ready).run())


class _Daemon:
    def __init__(
        self, settings: Settings, addresses: list[sockets.Address], log: logging.Logger, ready: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._addresses = addresses
        self._log = log
        self._ready = ready
        self._drivers = Drivers()
        self._ledger = Ledger(max(_LEAST_MAX_AGE, _MISSED_READINGS * settings.interval))
        self._observer = Observer(
            self._drivers, self._ledger, log, settings.interval, keep_accounts=settings.enable_accounting
        )
        self._faults = Throttle(log.warning)  # whatever clients can bring about again and again
        self._failures = Throttle(log.error)
        self._server = Server(self._ledger, self._faults, Throttle(log.debug, _MOST_DEBUG_MESSAGES))
        self._main: asyncio.Task[int] | None = None
        self._reopening: asyncio.Task[None] | None = None
        self._ended_by: signal.Signals | None = None
        self._has_left_out = False
        self._is_serving = False

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._log_failure)
        self._main = asyncio.create_task(self._serve())
        for number in (signal.SIGTERM, signal.SIGINT):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as a shell's "&" in a script has it for SIGINT
                loop.add_signal_handler(number, self._end, number)
        loop.add_signal_handler(signal.SIGHUP, self._open_again)
        try:
            return await self._main
        except asyncio.CancelledError:
            self._log.info('ended by %s', self._ended_by.name if self._ended_by else 'a cancellation')
        finally:
            tell_systemd('STOPPING=1')
            self._server.close()
            self._observer.stop()  # drivers are not closed: that may hang, and the kernel does it when the process ends
        if self._ended_by == signal.SIGINT:
            raise KeyboardInterrupt
        return 0

    async def _serve(self) -> int:
        count = await self._observer.open()
        if not count:
            if self._drivers.problems:
                return _FAILED
            self._log.info('there is no GPU here, no driver or no library of it: nothing to do')
            self._report_ready()
            return 0
        try:
            tcp = [sockets.tcp_socket(address) for address in self._addresses]
            unix = sockets.unix_socket(self._settings.socket_name)
        except sockets.AddressTakenError as error:
            self._log.error('%s', error)
            return _FAILED
        await self._observer.first_readings(_FIRST_READINGS)
        await self._server.listen(tcp, unix)
        self._log.info(
            'serving %d GPU%s on %s (version 1) and @%s (versions 1 and 2)',
            count,
            's' if count > 1 else '',
            ', '.join(_place(listener) for listener in tcp),
            self._settings.socket_name,
        )
        for address in self._addresses:
            if not address.is_loopback:
                self._log.warning(
                    'every client that can connect to %s can read which processes use the GPUs', address.host
                )
        self._is_serving = True
        self._report_ready()
        while True:
            await asyncio.sleep(_CHECK)
            self._check()

    def _report_ready(self) -> None:
        self._ready()
        tell_systemd('READY=1')

    def _check(self) -> None:
        self._observer.check()
        self._server.give_up_stalled(asyncio.get_running_loop().time())
        self._faults.report_left_out()
        self._failures.report_left_out()
        left_out = self._ledger.take_left_out()
        if left_out and not self._has_left_out:
            self._faults(f'an answer would be too long for atop: the {left_out} smallest processes were left out')
        if left_out is not None:
            self._has_left_out = left_out > 0

    def _end(self, number: signal.Signals) -> None:
        self._ended_by = number
        if self._main is not None:
            self._main.cancel()

    def _open_again(self) -> None:
        if not self._is_serving:
            return  # it is searching for GPUs right now
        if self._reopening is not None and not self._reopening.done():
            self._log.info('SIGHUP: already searching for GPUs')
            return
        self._log.info('SIGHUP: searching for GPUs again')
        self._reopening = asyncio.create_task(self._reopen())

    async def _reopen(self) -> None:
        tell_systemd(f'RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}')
        try:
            await self._observer.open_again()
        except Exception:  # noqa: BLE001 - those who are connected are answered all the same
            self._log.exception('SIGHUP: the search for GPUs failed')
        tell_systemd('READY=1')

    def _log_failure(self, _: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        self._failures(f'{context.get("message")}: {context.get("exception")!r}')


def _place(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f'[{host}]:{port}' if ':' in host else f'{host}:{port}'
