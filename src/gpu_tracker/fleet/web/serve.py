"""The server from its start to the signal that ends it, with threads that keep nobody from ending."""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import signal
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from gpu_tracker.errors import GpuTrackerError
from gpu_tracker.fleet.web.capacity import Limits
from gpu_tracker.fleet.web.connection import LAST_MOMENT
from gpu_tracker.fleet.web.listener import allow_many_files, listening_sockets, url
from gpu_tracker.fleet.web.service import Complaints, Service
from gpu_tracker.system.sockets import tell_systemd

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from gpu_tracker.fleet.web.access import Access
    from gpu_tracker.fleet.web.gate import Application

Parameters = ParamSpec('Parameters')
Result = TypeVar('Result')

MOST_THREADS = 16
_STANDARD_ERROR = 2
_RELOAD: signal.Signals | None = getattr(signal, 'SIGHUP', None)
"""None on Windows, which has no such signal."""


class DaemonThreads(ThreadPoolExecutor):
    """What asyncio runs beside its loop, such as the look-up of a host's name.

    The interpreter waits at its end for the threads of the usual executor, and a look-up takes as long as a name server
    that is down makes it take. asyncio accepts no executor but a ThreadPoolExecutor; nothing of it is used here.
    """

    def __init__(self) -> None:
        super().__init__(1)  # starts no thread before it gets work, and gets none
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._started = 0
        self._free = 0
        self._counting = threading.Lock()

    def submit(
        self, function: Callable[Parameters, Result], /, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Future[Result]:
        """Have a thread call the function, and return what will have its result."""
        future: Future[Result] = Future()

        def job() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(function(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
                future.set_exception(error)

        with self._counting:
            if self._free:
                self._free -= 1
            elif self._started < MOST_THREADS:
                self._started += 1
                threading.Thread(target=self._work, daemon=True).start()
        self._jobs.put(job)
        return future

    def _work(self) -> None:
        while True:
            self._jobs.get()()
            with self._counting:
                self._free += 1


class BackgroundError(GpuTrackerError):
    """What a server needs beside its clients has ended."""


def serve(
    application: Application,
    access: Access,
    *,
    ready: Callable[[list[str]], None],
    complain: Callable[[str], None],
    background: Callable[[], Coroutine[Any, Any, None]] | None = None,
    on_stop: Callable[[], None] | None = None,
    reload: Callable[[], Awaitable[Access]] | None = None,
    limits: Limits | None = None,
) -> None:
    """Serve until SIGTERM, or SIGINT, after which KeyboardInterrupt is raised; needs the main thread.

    SIGHUP has it reload, or end where the terminal has gone to which it writes.

    It ends within 5 s of the signal, whatever clients and ``background`` do, and at once after a second one.

    :param application: ASGI; gets HTTP requests only, and no lifespan events.
    :param ready: Told the URLs, with their real ports, when clients can come.
    :param complain: Takes lines about what went wrong with a client or a request.
    :param background: Runs beside the answering, and is cancelled when that ends. It has to go on for ever.
    :param on_stop: Called first when the end has begun: streams of events should end here.
    :param reload: Reads what was configured again, for SIGHUP; what it raises is reported, and all stays as it was. It
        may take for ever, and is cancelled where another SIGHUP comes.
    :param limits: By default those of :class:`.Limits`.
    :raises AddressTakenError: Another program has the port.
    :raises BackgroundError: ``background`` has ended; one of its own GpuTrackerErrors is passed on as it is.
    """
    loop = asyncio.new_event_loop()
    loop.set_default_executor(DaemonThreads())
    complaints = Complaints(complain)
    loop.set_exception_handler(lambda _, context: complaints(_internal_error(context)))
    _silence_loggers()
    allow_many_files()
    try:
        ended_by = loop.run_until_complete(
            _serve(application, access, ready, complain, background, on_stop, reload, limits or Limits())
        )
    finally:
        _abandon(loop)
    if ended_by == signal.SIGINT:
        raise KeyboardInterrupt


async def _serve(
    application: Application,
    access: Access,
    ready: Callable[[list[str]], None],
    complain: Callable[[str], None],
    background: Callable[[], Coroutine[Any, Any, None]] | None,
    on_stop: Callable[[], None] | None,
    reload: Callable[[], Awaitable[Access]] | None,
    limits: Limits,
) -> signal.Signals:
    """Serve, and return the signal that has ended it."""
    signals = _signals()
    sockets = listening_sockets(access.addresses)
    urls = [url(access.scheme, socket) for socket in sockets]
    service = Service(sockets, application, access, limits, complain)
    service.open()
    loop = asyncio.get_running_loop()
    signalled = loop.create_task(_end_of(signals, service, reload, complain))
    work = loop.create_task(background()) if background else None
    try:
        ready(urls)
        tell_systemd('READY=1')
        await asyncio.wait({signalled, work} if work else {signalled}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        tell_systemd('STOPPING=1')
        if on_stop:
            on_stop()
        hurry = loop.create_task(signals.get())
        await service.close(hurry)
    if not signalled.done() and work:
        raise _why_ended(work)
    if work:
        work.cancel()
        await asyncio.wait({work}, timeout=LAST_MOMENT)
    return signalled.result()


async def _end_of(
    signals: asyncio.Queue[signal.Signals],
    service: Service,
    reload: Callable[[], Awaitable[Access]] | None,
    complain: Callable[[str], None],
) -> signal.Signals:
    """Return the signal that ends a server; those before it have it reload."""
    has_terminal = os.isatty(_STANDARD_ERROR)
    reloads = None if reload is None else _Reloads(service, reload, complain)
    while True:
        number = await signals.get()
        if number != _RELOAD or reloads is None or (has_terminal and not os.isatty(_STANDARD_ERROR)):
            return number
        reloads.begin()


class _Reloads:
    """Reads what was configured again, beside the waiting for signals: reading a file may take for ever.

    A later reload takes the place of one that still reads.
    """

    def __init__(
        self, service: Service, reload: Callable[[], Awaitable[Access]], complain: Callable[[str], None]
    ) -> None:
        self._service = service
        self._reload = reload
        self._complain = complain
        self._reading: asyncio.Task[None] | None = None
        self._running: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()

    def begin(self) -> None:
        """Begin a reload; what goes wrong with it is reported, and the server goes on."""
        if self._reading is not None:
            self._reading.cancel()
            self._complain('SIGHUP: the reload before this one was given up, since it had not read all files yet')
        self._reading = asyncio.get_running_loop().create_task(self._in_turn())
        self._running.add(self._reading)
        self._reading.add_done_callback(self._running.discard)

    async def _in_turn(self) -> None:
        async with self._turn:
            await self._run()

    async def _run(self) -> None:
        try:
            access = await self._reload()
        except GpuTrackerError as error:
            self._failed(str(error))
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, the server goes on with what it has
            self._failed(_described(error))
            return
        self._reading = None  # the rest takes a moment only, and has to be done to its end
        try:
            await self._service.update(access)
        except Exception as error:  # noqa: BLE001 - as above
            self._complain(f'SIGHUP: {_described(error)}')
        else:
            self._complain('SIGHUP: certificates, secrets and hosts were read again')

    def _failed(self, reason: str) -> None:
        self._reading = None
        self._complain(f'SIGHUP: nothing changes: {reason}')


def _described(error: Exception) -> str:
    return f'internal error: {type(error).__name__}: {error}'


def _signals() -> asyncio.Queue[signal.Signals]:
    """Return where the signals come that end a server, or have it reload."""
    signals: asyncio.Queue[signal.Signals] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, _RELOAD):
        if number is None or (number == _RELOAD and signal.getsignal(number) == signal.SIG_IGN):
            continue  # Windows, and nohup(1)
        try:
            loop.add_signal_handler(number, signals.put_nowait, number)
        except NotImplementedError:  # Windows: signals wake the loop there by themselves
            signal.signal(number, lambda received, _: _received(loop, signals, received))
    return signals


def _received(loop: asyncio.AbstractEventLoop, signals: asyncio.Queue[signal.Signals], number: int) -> None:
    loop.call_soon_threadsafe(signals.put_nowait, signal.Signals(number))


def _why_ended(work: asyncio.Task[None]) -> GpuTrackerError:
    error = None if work.cancelled() else work.exception()
    if isinstance(error, GpuTrackerError):
        return error
    cause = f'{type(error).__name__}: {error}' if error else 'it has ended'
    return BackgroundError(f'internal error: a background task ended: {cause}')


def _internal_error(context: dict[str, Any]) -> str:
    """Return a line of what asyncio tells about an error that nobody has handled."""
    error = context.get('exception')
    return f'internal error: {context["message"]}' + (f': {type(error).__name__}: {error}' if error else '')


def _silence_loggers() -> None:
    """Keep uvicorn's and asyncio's messages, which hold what clients send, from the terminal; ours say what matters."""
    for name in ('uvicorn', 'asyncio'):
        logger = logging.getLogger(name)
        logger.addHandler(logging.NullHandler())
        logger.propagate = False


def _abandon(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel what still runs, give it a moment, and close the loop even over what does not end."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.set_exception_handler(lambda _loop, _context: None)  # nobody wants to know of what is cut off
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks, timeout=LAST_MOMENT))
    loop.close()
