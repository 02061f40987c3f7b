"""The socket over which the running monitor tells its status, with real sockets and real processes."""

from __future__ import annotations

import asyncio
import fcntl
import gc
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.errors import GpuTrackerError
from gpu_tracker.idle import status_socket
from gpu_tracker.idle.status_socket import MonitorRunningError, NoMonitorError, ask, serve
from gpu_tracker.system.users import user_name
from support.tracked_program import as_root, environment
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

ME = user_name(os.geteuid())
STRANGER = 54321

MONITOR = """
import asyncio, os, sys
from gpu_tracker.idle.status_socket import serve

async def main():
    await serve(sys.argv[1], lambda: f'from {os.getpid()}')
    print('ready', flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""

ASK_AS_STRANGER = """
import os, sys
from gpu_tracker.errors import GpuTrackerError
from gpu_tracker.idle.status_socket import ask
os.setgroups([])
os.setresgid(54321, 54321, 54321)
os.setresuid(54321, 54321, 54321)
try:
    print(ask(sys.argv[1]))
except GpuTrackerError as error:
    print(type(error).__name__, error)
"""


@pytest.fixture
def path() -> Iterator[str]:
    """Give a path that is short enough wherever pytest keeps its folders; its folder is not made yet."""
    folder = tempfile.mkdtemp()
    yield f'{folder}/run/idle.sock'
    shutil.rmtree(folder)


@asynccontextmanager
async def serving(path: str, answer: str = 'an answer') -> AsyncIterator[status_socket.Server]:
    server = await serve(path, lambda: answer)
    try:
        yield server
    finally:
        await server.close()


@contextmanager
def monitor(path: str) -> Iterator[subprocess.Popen[str]]:
    """Run a monitor of its own process, which listens."""
    with subprocess.Popen(
        [sys.executable, '-c', MONITOR, path], stdout=subprocess.PIPE, text=True, env=environment()
    ) as process:
        try:
            assert process.stdout.readline() == 'ready\n'
            yield process
        finally:
            process.kill()


async def asked(path: str) -> str:
    """Ask from a thread, as a client of another process would."""
    return await asyncio.wait_for(asyncio.to_thread(ask, path, TIMEOUT), TIMEOUT)


def connected(path: str) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(TIMEOUT)
    client.connect(path)
    return client


def stale(path: str) -> None:
    """Leave a socket on which nobody listens."""
    os.mkdir(os.path.dirname(path), 0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)


def test_everybody_who_asks_gets_what_is_true_at_that_moment(path):
    async def main():
        numbers = iter(range(100))
        server = await serve(path, lambda: f'ä {next(numbers)}')
        assert [await asked(path) for _ in range(3)] == ['ä 0', 'ä 1', 'ä 2']
        await server.close()

    asyncio.run(main())
    assert not os.path.lexists(path)


@pytest.mark.parametrize('umask', [0, 0o022, 0o777])
def test_only_the_user_may_connect_whatever_the_umask(path, umask):
    async def main():
        old = os.umask(umask)
        try:
            if umask == 0o777:
                os.mkdir(os.path.dirname(path))
                os.chmod(os.path.dirname(path), 0o700)
            async with serving(path):
                assert os.umask(umask) == umask  # it is what all threads of the process share
                assert oct(os.stat(path).st_mode) == '0o140600'
                assert oct(os.stat(os.path.dirname(path)).st_mode) == '0o40700'
        finally:
            os.umask(old)

    asyncio.run(main())


@as_root
def test_another_user_is_not_permitted_to_ask(path):
    with monitor(path):
        os.chmod(os.path.dirname(os.path.dirname(path)), 0o711)  # noqa: S103 - that is the point

        def answer():
            words = [sys.executable, '-c', ASK_AS_STRANGER, path]
            return subprocess.run(words, env=environment(), check=True, capture_output=True, text=True).stdout

        assert answer() == f'GpuTrackerError the idle monitor at {path} answers only its user, not {STRANGER}\n'
        os.chmod(os.path.dirname(path), 0o711)  # noqa: S103 - as above
        assert answer() == f'GpuTrackerError the idle monitor at {path} answers only root, not {STRANGER}\n'


def test_where_no_monitor_runs(path):
    with pytest.raises(NoMonitorError) as caught:
        ask(path)
    assert str(caught.value) == f'no idle monitor of this user is running (no socket at {path})'
    stale(path)
    with pytest.raises(NoMonitorError) as caught:
        ask(path)
    assert str(caught.value) == f'no idle monitor of this user is running (no process listens at {path})'
    with pytest.raises(NoMonitorError, match='no socket at'):
        ask(f'{path}/idle.sock')


def test_a_killed_monitor_leaves_a_socket_that_the_next_one_replaces(path):
    with monitor(path) as first:
        assert ask(path) == f'from {first.pid}'
        first.send_signal(signal.SIGKILL)
        first.wait(TIMEOUT)
    assert os.path.lexists(path)
    with monitor(path) as second:
        assert ask(path) == f'from {second.pid}'


def test_a_second_monitor_is_told_who_listens_and_the_first_goes_on(path):
    async def main():
        with pytest.raises(MonitorRunningError) as caught:
            await serve(path, str)
        return str(caught.value)

    with monitor(path) as first:
        expected = f'another idle monitor (pid {first.pid}, {ME}) is running: it listens at {path}'
        assert asyncio.run(main()) == expected
        assert ask(path) == f'from {first.pid}'


def test_a_monitor_that_is_too_busy_to_take_anybody_is_a_monitor_all_the_same(path):
    async def main():
        with pytest.raises(MonitorRunningError, match='another idle monitor is running: it listens at'):
            await serve(path, str)

    os.mkdir(os.path.dirname(path), 0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(0)
        with connected(path):
            asyncio.run(main())
            with pytest.raises(GpuTrackerError, match=r'^too many clients are waiting for the idle monitor at'):
                ask(path)


def test_who_starts_while_another_is_just_starting_waits_for_it(path):
    async def main():
        starting = asyncio.create_task(serve(path, str))
        await asyncio.sleep(0)
        assert not starting.done()
        os.close(other)
        await (await starting).close()

    stale(path)
    other = os.open(os.path.dirname(path), os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    asyncio.run(main())


def test_two_that_start_at_the_same_time_do_not_replace_each_other(path):
    async def main():
        with pytest.raises(MonitorRunningError, match=r'has been locked by another process for 0.02 s'):
            await serve(path, str, lock_timeout=0.02)

    stale(path)
    other = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        fcntl.flock(other, fcntl.LOCK_EX)
        asyncio.run(main())
    finally:
        os.close(other)
    assert os.path.lexists(path)


def test_what_is_no_socket_is_left_where_it_is(path):
    async def main():
        with pytest.raises(GpuTrackerError) as caught:
            await serve(path, str)
        return str(caught.value)

    os.mkdir(os.path.dirname(path), 0o700)
    Path(path).write_text('mine')
    assert asyncio.run(main()) == f'the status socket {path} cannot be made: the path exists, but is not a socket'
    assert Path(path).read_text() == 'mine'
    with pytest.raises(NoMonitorError, match='no process listens at'):
        ask(path)


def test_a_folder_that_others_may_write_to_is_not_used(path):
    async def main():
        with pytest.raises(GpuTrackerError, match=r'cannot be trusted: others may write to it \(mode 0777\)'):
            await serve(path, str)

    os.mkdir(os.path.dirname(path))
    os.chmod(os.path.dirname(path), 0o777)  # noqa: S103 - that is the point
    asyncio.run(main())


def test_a_path_without_a_folder_is_in_the_working_folder(path, monkeypatch):
    async def main():
        async with serving('x.sock'):
            assert await asked('x.sock') == 'an answer'

    folder = os.path.dirname(path)
    os.mkdir(folder, 0o700)
    monkeypatch.chdir(folder)
    asyncio.run(main())
    assert os.listdir(folder) == []


def test_a_sticky_folder_that_all_may_write_to_will_do(path):
    async def main():
        async with serving(path):
            assert oct(os.stat(path).st_mode) == '0o140600'
            assert await asked(path) == 'an answer'

    os.mkdir(os.path.dirname(path))
    os.chmod(os.path.dirname(path), 0o1777)  # noqa: S103 - that is the point
    asyncio.run(main())


def test_a_path_that_is_too_long_is_an_error_before_anything_is_made(path):
    long = f'{os.path.dirname(path)}/{"x" * 107}'

    async def main():
        await serve(long, str)

    for use in (lambda: asyncio.run(main()), lambda: ask(long)):
        with pytest.raises(GpuTrackerError, match=r'has \d+ bytes, but the system allows only 107'):
            use()
    assert not os.path.exists(os.path.dirname(path))


def test_clients_that_say_nothing_or_much_or_go_at_once_hurt_nobody(path):
    async def main():
        async with serving(path):
            silent = [connected(path) for _ in range(20)]
            chatty = connected(path)
            chatty.send(b'x' * 10_000)
            connected(path).close()
            assert await asked(path) == 'an answer'
            # What was sent and never read makes the kernel tell of a reset, after the answer.
            for client in silent:
                with client:
                    assert await asyncio.to_thread(client.recv, 100) == b'an answer\n'
            chatty.close()
            assert await asked(path) == 'an answer'

    asyncio.run(main())


def test_clients_that_do_not_read_a_long_answer_keep_others_waiting_only_for_a_while(path, monkeypatch):
    long = 'x' * 1_000_000  # more than a socket takes

    async def main(*answers):
        left = iter(answers)
        server = await serve(path, lambda: next(left))
        clients = [connected(path) for _ in answers[1:]]
        assert await asked(path) == answers[-1]
        for client in clients:
            client.close()
        await server.close()

    asyncio.run(main(*[long] * status_socket._MOST_AT_A_TIME))
    monkeypatch.setattr(status_socket, '_MOST_AT_A_TIME', 2)
    monkeypatch.setattr(status_socket, '_TIMEOUT', 0.5)
    asyncio.run(main(long, long, 'short'))  # which does not have to be read within that time


def test_an_answer_that_fails_is_told_to_who_asks_and_to_the_loop_and_ends_nothing_else(path):
    divisors = iter([0, 1])
    told = []

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        server = await serve(path, lambda: f'{1 // next(divisors)}')
        with pytest.raises(GpuTrackerError) as caught:
            await asked(path)
        assert await asked(path) == '1'
        await server.close()
        return str(caught.value)

    assert asyncio.run(main()) == (
        f'the idle monitor (pid {os.getpid()}, {ME}) at {path} could not report its status. '
        'The reason is on the standard error of the monitor'
    )
    gc.collect()
    assert [(context['message'], type(context['exception'])) for context in told] == [
        ('the status could not be told', ZeroDivisionError)
    ]


def test_closing_ends_what_is_under_way_and_leaves_the_file_of_another(path):
    async def main():
        server = await serve(path, lambda: 'x' * 5_000_000)
        client = connected(path)
        await asyncio.to_thread(client.recv, 1)
        os.rename(path, f'{path}.old')
        async with serving(path, 'of the other'):
            await server.close()
            assert await asked(path) == 'of the other'
        with client:
            while client.recv(2**20):
                pass

    asyncio.run(main())
    assert not os.path.lexists(path)


def test_closing_where_the_folder_is_gone(path):
    async def main():
        server = await serve(path, str)
        shutil.rmtree(os.path.dirname(path))
        await server.close()

    asyncio.run(main())


@contextmanager
def fake_monitor(path: str) -> Iterator[socket.socket]:
    os.mkdir(os.path.dirname(path), 0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        yield listener


def test_a_monitor_that_does_not_answer_in_time(path):
    with fake_monitor(path), pytest.raises(GpuTrackerError) as caught:
        ask(path, 0.05)
    expected = f'the idle monitor (pid {os.getpid()}, {ME}) at {path} does not answer within 0.05 s'
    assert str(caught.value) == expected


@pytest.mark.parametrize('part', [b'', b'{"monitor": '])
def test_a_monitor_that_ends_in_the_middle_of_its_answer(path, part):
    with fake_monitor(path) as listener:

        async def main():
            task = asyncio.create_task(asyncio.to_thread(ask, path, TIMEOUT))
            client = await asyncio.to_thread(lambda: listener.accept()[0])
            client.send(part)
            client.close()
            with pytest.raises(GpuTrackerError, match='closed the connection before the end of its answer'):
                await task

        asyncio.run(main())


def test_many_descriptors_in_use_stop_the_answers_only_for_a_while(path, monkeypatch):
    monkeypatch.setattr(status_socket, '_PAUSE', 0.05)

    class Refusing:
        """A listener that fails a few times, as where the process has too many open files."""

        failures = 2

        def __init__(self, listener):
            self._listener = listener

        def __getattr__(self, name):
            return getattr(self._listener, name)

        def accept(self):
            if Refusing.failures:
                Refusing.failures -= 1
                raise OSError(24, 'Too many open files')
            return self._listener.accept()

    async def main():
        async with serving(path) as server:
            server._listener = Refusing(server._listener)
            assert await asked(path) == 'an answer'
        assert eventually(lambda: Refusing.failures == 0)

    asyncio.run(main())
