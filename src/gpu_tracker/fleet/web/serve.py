"""Serves an application until a signal ends it.

The whole of a command, once its options are checked::

    from gpu_tracker.cli import serving                      # cli/serving.py

    with serving.extra_needed('agent'):                      # starlette, uvicorn, ... are imported in here only
        from gpu_tracker.fleet.web.serve import serve
    access = serving.access(values, serving.token(values['--token-file']), '--token-file')

    def run(complain):                                       # gets whole lines, printable, not too many; never blocks
        serve(app, access,
              ready=lambda urls: complain(f'agent: serving {" and ".join(urls)}'),
              complain=complain,
              background=source.run,                         # a coroutine function that never returns, or None
              on_stop=fleet.close)                           # in the event loop, when the end begins

    return serving.served(run, access)                       # after Ctrl-C KeyboardInterrupt is raised

``serve`` puts the :class:`~gpu_tracker.fleet.web.gate.Gate` around the application: routes need no authorization, no
look at the Host header, no security headers (a header that the application sets itself stays).
"""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import TYPE_CHECKING, Any

from gpu_tracker.errors import GpuTrackerError
from gpu_tracker.fleet.web.complaints import Complaints
from gpu_tracker.fleet.web.daemon_threads import DaemonThreads
from gpu_tracker.fleet.web.limits import LAST_MOMENT, Limits
from gpu_tracker.fleet.web.listening import listening_sockets, url
from gpu_tracker.fleet.web.open_files import allow_many_files
from gpu_tracker.fleet.web.service import Service
from gpu_tracker.notify import tell_systemd

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from gpu_tracker.fleet.web.access import Access
    from gpu_tracker.fleet.web.gate import Application


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
    limits: Limits | None = None,
) -> None:
    """Serve until SIGTERM, or SIGINT, after which KeyboardInterrupt is raised; needs the main thread.

    It ends within 5 s of the signal, whatever clients and ``background`` do, and at once after a second one.

    :param application: ASGI; gets HTTP requests only, and no lifespan events.
    :param ready: Told the URLs, with their real ports, when clients can come.
    :param complain: Takes lines about what went wrong with a client or a request.
    :param background: Runs beside the answering, and is cancelled when that ends. It has to go on for ever.
    :param on_stop: Called first when the end has begun: streams of events should end here.
    :param limits: By default those of :class:`~gpu_tracker.fleet.web.limits.Limits`.
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
            _serve(application, access, ready, complain, background, on_stop, limits or Limits())
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
    limits: Limits,
) -> signal.Signals:
    """Serve, and return the signal that has ended it."""
    signals = _signals()
    sockets = listening_sockets(access.addresses)
    urls = [url(access.scheme, socket) for socket in sockets]
    service = Service(sockets, application, access, limits, complain)
    service.open()
    loop = asyncio.get_running_loop()
    signalled = loop.create_task(signals.get())
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


def _signals() -> asyncio.Queue[signal.Signals]:
    """Return where the signals come that end a server."""
    signals: asyncio.Queue[signal.Signals] = asyncio.Queue()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, signals.put_nowait, number)
    return signals


def _why_ended(work: asyncio.Task[None]) -> GpuTrackerError:
    error = None if work.cancelled() else work.exception()
    if isinstance(error, GpuTrackerError):
        return error
    cause = f'{type(error).__name__}: {error}' if error else 'it has ended'
    return BackgroundError(f'internal error: what works in the background cannot go on: {cause}')


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
