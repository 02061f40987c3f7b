"""Detachment of the process as a daemon in the old manner: in the background, and without a terminal."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

_DIED = 125
_INTERRUPTED = 130
_HIGHEST_OF_STDIO = 2


class Detached:
    """The daemon's link to the process that somebody waits for.

    :param link: Where that process reads its exit code.
    :param nowhere: ``/dev/null``, opened.
    """

    def __init__(self, link: int, nowhere: int) -> None:
        self._link: int | None = link
        self._nowhere = nowhere

    def ready(self) -> None:
        """Let go of standard input, output and error, and let the process that waits end with 0.

        :raises BrokenPipeError: where it has been interrupted or killed: the daemon is not wanted any more.
        """
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        for handle in range(_HIGHEST_OF_STDIO + 1):
            os.dup2(self._nowhere, handle)
        os.close(self._nowhere)
        self._send(0)

    def failed(self, code: int) -> None:
        """Let the process that waits end with this exit code, if one does; this one is to end by itself."""
        try:
            self._send(code)
        except BrokenPipeError:
            pass  # nobody waits any more

    def _send(self, code: int) -> None:
        link, self._link = self._link, None
        if link is None:
            return  # it has been sent already, and its descriptor may be something else by now
        try:
            os.write(link, bytes([code]))
        finally:
            os.close(link)


def detach() -> Detached:
    """Return in a new process without a terminal; the one that called waits for it and ends with its exit code.

    To be called before there is any thread or event loop. The working folder becomes ``/``. Standard error stays until
    the daemon is ready, so that it can say what stands in the way. A daemon that ends without a word makes 125.

    :raises OSError: where there can be no more processes.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()  # or each of the processes would write what is in it
    nowhere = _open_nowhere()
    reading, writing = os.pipe()
    first = os.fork()
    if first:
        os.close(writing)
        _wait(reading, first)
    os.close(reading)
    os.setsid()
    if os.fork():
        os._exit(0)  # without the leader of the session, nobody in it can be given a terminal
    os.chdir('/')
    os.umask(0o022)
    return Detached(writing, nowhere)


def _open_nowhere() -> int:
    """Return a descriptor of ``/dev/null`` that is none of standard input, output and error; closed ones become it."""
    while (handle := os.open(os.devnull, os.O_RDWR)) <= _HIGHEST_OF_STDIO:
        pass
    return handle


def _wait(reading: int, first: int) -> NoReturn:
    """End with the exit code that the daemon sends, without what is registered for the end: that is the daemon's."""
    try:
        code = os.read(reading, 1)
        os.waitpid(first, 0)
    except KeyboardInterrupt:
        os._exit(_INTERRUPTED)  # the daemon notices when it is ready
    except ChildProcessError:
        pass  # who has started this process ignores SIGCHLD, so the kernel has taken the child away already
    if code:
        os._exit(code[0])
    try:
        os.write(_HIGHEST_OF_STDIO, b'atopgpud: the daemon ended before it was ready\n')
    except OSError:
        pass  # nobody reads it; the exit code says it too
    os._exit(_DIED)
