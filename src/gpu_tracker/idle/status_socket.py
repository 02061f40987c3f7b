"""The socket over which the running monitor reports its status.

Whoever connects gets the answer at once, one line of text, and then the end: nothing is read.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import functools
import os
import socket
import stat
import time
from typing import TYPE_CHECKING

from gpu_tracker.errors import GpuTrackerError
from gpu_tracker.idle.run_folder import check_length, make_folder, reason_of
from gpu_tracker.system.sockets import peer_of
from gpu_tracker.system.users import user_name

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

_MODE = 0o600
_BACKLOG = 64
_MOST_AT_A_TIME = 8
_TIMEOUT = 5.0
"""Seconds for which a client may take to read its answer."""
_LOCK_TIMEOUT = 5.0
"""Seconds to wait for another monitor that is just starting; it takes milliseconds."""
_LOCK_PAUSE = 0.01
_NO_STATUS = b'\n'
"""What a client gets where the answer has failed."""
_PAUSE = 1.0
"""Seconds after a client could not be taken, as where this process has too many open files."""


class MonitorRunningError(GpuTrackerError):
    """Another monitor listens where this one would."""


class NoMonitorError(GpuTrackerError):
    """Nobody listens where the monitor of this user would."""


class Server:
    """Answers clients until it is closed.

    :param listener: A listening socket that does not block, with a name that is a path.
    :param answer: Returns what each client gets, one line without its end, and not empty.
    """

    def __init__(self, listener: socket.socket, answer: Callable[[], str]) -> None:
        self.path: str = listener.getsockname()
        self._listener = listener
        self._answer = answer
        self._file = os.stat(self.path)
        self._slots = asyncio.Semaphore(_MOST_AT_A_TIME)
        self._answering: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.create_task(self._accept())

    async def close(self) -> None:
        """End all connections, and remove the socket's file unless another has taken its place."""
        try:
            # While this process listens, no other monitor replaces the file.
            if os.path.samestat(self._file, os.lstat(self.path)):
                os.unlink(self.path)
        except OSError:
            pass  # it or its folder is gone already, or the folder is not to be written to any more
        tasks = [self._accepting, *self._answering]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listener.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._slots.acquire()
            try:
                client, _ = await loop.sock_accept(self._listener)
            except OSError:
                self._slots.release()
                await asyncio.sleep(_PAUSE)
                continue
            task = loop.create_task(self._answer_client(client))
            self._answering.add(task)
            task.add_done_callback(functools.partial(self._done, client))
            await asyncio.sleep(0)  # accepting a waiting client suspends nothing, and there may be many

    def _done(self, client: socket.socket, task: asyncio.Task[None]) -> None:
        client.close()
        self._answering.discard(task)
        self._slots.release()

    async def _answer_client(self, client: socket.socket) -> None:
        try:
            answer = f'{self._answer()}\n'.encode(errors='backslashreplace')
        except Exception as error:  # noqa: BLE001 - whatever it is, who asks gets an answer and the monitor goes on
            answer = _NO_STATUS
            context = {'message': 'the status could not be told', 'exception': error}
            asyncio.get_running_loop().call_exception_handler(context)
        try:
            async with asyncio.timeout(_TIMEOUT):
                await asyncio.get_running_loop().sock_sendall(client, answer)
        except OSError:
            pass  # the client has gone, or does not read: a TimeoutError is one as well


async def serve(path: str, answer: Callable[[], str], lock_timeout: float = _LOCK_TIMEOUT) -> Server:
    """Listen on a Unix socket that only this user can connect to; its folder is made where it is missing.

    :param answer: Returns what each client gets, one line without its end, and not empty.
    :param lock_timeout: Seconds to wait for another monitor that is just starting.
    :raises MonitorRunningError: Another process listens there, or keeps the folder locked.
    :raises GpuTrackerError: The socket cannot be made, or not so that only this user can.
    """
    check_length(path)
    folder = os.path.dirname(path) or '.'
    make_folder(folder, os.geteuid())
    try:
        async with _alone_in(folder, lock_timeout):
            listener = _listening(path)
    except OSError as error:
        raise GpuTrackerError(f'the status socket {path} cannot be made: {reason_of(error)}') from None
    return Server(listener, answer)


@contextlib.asynccontextmanager
async def _alone_in(folder: str, lock_timeout: float) -> AsyncIterator[None]:
    """Keep other monitors from replacing the file meanwhile; two could find a stale one at the same time.

    Another one that is just starting keeps the lock for milliseconds.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        end = time.monotonic() + lock_timeout
        while not _is_locked(descriptor):
            if time.monotonic() > end:
                raise MonitorRunningError(f'{folder} has been locked by another process for {lock_timeout:g} s')
            await asyncio.sleep(_LOCK_PAUSE)
        yield
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int) -> bool:
    """Lock a folder, unless another process has locked it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _listening(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.settimeout(0)
        # Linux gives the file the mode that the socket has, without the rights that the umask takes. So nobody else can
        # connect at any time, and the umask, which all threads share, stays as it is.
        os.fchmod(listener.fileno(), _MODE)
        _remove_stale(path)
        listener.bind(path)
        os.chmod(path, _MODE)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def _remove_stale(path: str) -> None:
    """Remove a socket that nobody listens on, as a killed monitor leaves it."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise GpuTrackerError(f'the status socket {path} cannot be made: the path exists, but is not a socket')
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        trial.settimeout(0)
        try:
            trial.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
        except BlockingIOError:
            raise MonitorRunningError(f'another idle monitor is running: it listens at {path}') from None
        else:
            raise MonitorRunningError(f'another idle monitor ({_peer(trial)}) is running: it listens at {path}')


def ask(path: str, timeout: float = _TIMEOUT) -> str:
    """Return the answer of the monitor that listens at the path.

    :param timeout: Seconds within which it has to come.
    :raises NoMonitorError: Nobody listens there.
    :raises GpuTrackerError: This user may not ask, no whole answer comes in time, or the monitor failed to give one.
    """
    check_length(path)
    deadline = time.monotonic() + timeout
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(timeout)
        try:
            client.connect(path)
        except (FileNotFoundError, NotADirectoryError):
            raise NoMonitorError(f'no idle monitor of this user is running (no socket at {path})') from None
        except ConnectionRefusedError:
            raise NoMonitorError(f'no idle monitor of this user is running (no process listens at {path})') from None
        except PermissionError:
            raise GpuTrackerError(
                f'the idle monitor at {path} answers only {_owner(path)}, not {user_name(os.geteuid())}'
            ) from None
        except (TimeoutError, BlockingIOError):  # at once where too many wait already, unix(7)
            raise GpuTrackerError(
                f'too many clients are waiting for the idle monitor at {path}: try again later'
            ) from None
        except OSError as error:
            raise GpuTrackerError(f'cannot connect to the idle monitor at {path}: {reason_of(error)}') from None
        return _whole_answer(client, deadline, f'the idle monitor ({_peer(client)}) at {path}', timeout)


def _whole_answer(client: socket.socket, deadline: float, monitor: str, timeout: float) -> str:
    """Return what comes until the end, without the line end that marks it as whole."""
    answer = bytearray()
    try:
        while True:
            client.settimeout(max(deadline - time.monotonic(), 0.001))
            part = client.recv(65536)
            if not part:
                break
            answer += part
    except TimeoutError:
        raise GpuTrackerError(f'{monitor} does not answer within {timeout:g} s') from None
    except OSError as error:
        raise GpuTrackerError(f'{monitor} does not answer: {reason_of(error)}') from None
    if not answer.endswith(b'\n'):
        raise GpuTrackerError(f'{monitor} closed the connection before the end of its answer')
    if answer == _NO_STATUS:
        raise GpuTrackerError(
            f'{monitor} could not report its status. The reason is on the standard error of the monitor'
        )
    return answer[:-1].decode(errors='replace')


def _peer(connected: socket.socket) -> str:
    try:
        return peer_of(connected).in_words(user_name)
    except OSError:
        return 'of an unknown process'


def _owner(path: str) -> str:
    try:
        return user_name(os.stat(path).st_uid)
    except OSError:
        return 'its user'  # not even its folder is open to this user
