from __future__ import annotations

import os
import pty
import socket
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.atopgpud.logs import Throttle, one_line, open_log
from support.cli_program import shell
from support.tracked_program import environment, run
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Iterator


class StandardError:
    """A pipe in its place."""

    def __init__(self) -> None:
        self._reading, self.handle = os.pipe()
        os.set_blocking(self._reading, False)

    def shown(self) -> str:
        try:
            return os.read(self._reading, 1_000_000).decode()
        except BlockingIOError:
            return ''

    def break_pipe(self) -> None:
        os.close(self._reading)
        self._reading = -1

    def close(self) -> None:
        for handle in (self._reading, self.handle):
            if handle >= 0:
                os.close(handle)


@pytest.fixture
def stderr() -> Iterator[StandardError]:
    pipe = StandardError()
    yield pipe
    pipe.close()


@pytest.fixture
def address(tmp_path) -> str:
    return str(tmp_path / 'log')


def listen(address: str, kind: socket.SocketKind = socket.SOCK_DGRAM) -> socket.socket:
    """Return the socket of a system log."""
    channel = socket.socket(socket.AF_UNIX, kind)
    channel.settimeout(TIMEOUT)
    channel.bind(address)
    return channel


def waiting(system_log: socket.socket) -> list[bytes]:
    """Return the messages that have come."""
    system_log.setblocking(False)
    found = []
    try:
        while True:
            found.append(system_log.recv(65536))
    except BlockingIOError:
        return found


def test_messages_go_to_the_system_log_with_facility_daemon_and_their_priority(address, stderr):
    with listen(address) as system_log:
        log = open_log(verbose=True, address=address, handle=stderr.handle)
        log.debug('a')
        log.info('%d GPUs', 2)
        log.warning('c')
        log.error('d')
        log.critical('e')
        me = b'atopgpud[%d]: ' % os.getpid()
        assert waiting(system_log) == [
            b'<31>' + me + b'a',
            b'<30>' + me + b'2 GPUs',
            b'<28>' + me + b'c',
            b'<27>' + me + b'd',
            b'<26>' + me + b'e',
        ]
    assert stderr.shown() == 'atopgpud: error: d\natopgpud: critical: e\n'
    assert (log.name, log.propagate) == ('atopgpud', False)


def test_debug_messages_come_only_where_they_are_asked_for(address, stderr):
    with listen(address) as system_log:
        log = open_log(verbose=False, address=address, handle=stderr.handle)
        log.debug('a')
        log.info('b')
        assert waiting(system_log) == [b'<30>atopgpud[%d]: b' % os.getpid()]


def test_a_log_that_is_opened_again_writes_each_message_once(address, stderr):
    with listen(address) as system_log:
        open_log(verbose=False, address=address, handle=stderr.handle)
        open_log(verbose=False, address=address, handle=stderr.handle).info('b')
        assert len(waiting(system_log)) == 1


def test_each_process_logs_under_its_own_pid(address):
    with listen(address) as system_log:
        pids = run(
            """
import os, sys
from gpu_tracker.atopgpud.logs import open_log
log = open_log(verbose=False, address=sys.argv[1])
log.info('parent')
child = os.fork()
if child:
    os.waitpid(child, 0)
    print(os.getpid(), child)
else:
    log.info('child')
""",
            address,
        ).stdout.split()
        assert [message.decode() for message in waiting(system_log)] == [
            f'<30>atopgpud[{pids[0]}]: parent',
            f'<30>atopgpud[{pids[1]}]: child',
        ]


def test_without_a_system_log_standard_error_says_so_once_and_gets_the_messages(address, stderr):
    log = open_log(verbose=False, address=address, handle=stderr.handle)
    log.warning('one')
    log.info('two')
    assert stderr.shown() == (
        f'atopgpud: no system log at {address} (No such file or directory): messages go to standard error\n'
        'atopgpud: warning: one\n'
        'atopgpud: info: two\n'
    )


def test_a_daemon_without_a_system_log_says_that_it_will_be_silent(address, stderr):
    open_log(verbose=False, to_background=True, address=address, handle=stderr.handle)
    assert stderr.shown() == (
        f'atopgpud: no system log at {address} (No such file or directory): '
        'messages go to standard error until clients are answered, and then nowhere\n'
    )


def test_a_system_log_that_goes_and_comes_back_misses_only_what_was_said_meanwhile(address, stderr):
    with listen(address) as system_log:
        log = open_log(verbose=False, address=address, handle=stderr.handle)
        log.info('before')
        assert len(waiting(system_log)) == 1
    log.info('meanwhile')
    os.unlink(address)
    with listen(address) as system_log:
        log.info('after')
        assert waiting(system_log) == [b'<30>atopgpud[%d]: after' % os.getpid()]
    assert stderr.shown() == 'atopgpud: info: meanwhile\n'


def test_a_system_log_that_does_not_read_blocks_nobody_and_no_message_is_lost(address, stderr):
    with listen(address) as system_log:
        log = open_log(verbose=False, address=address, handle=stderr.handle)
        for number in range(1500):
            log.info('%d', number)
        taken = [message.rpartition(b' ')[2].decode() for message in waiting(system_log)]
    shown = [line.removeprefix('atopgpud: info: ') for line in stderr.shown().splitlines()]
    assert taken
    assert taken + shown == [str(number) for number in range(1500)]


def test_a_system_log_may_be_a_stream(address, stderr):
    with listen(address, socket.SOCK_STREAM) as system_log:
        system_log.listen()
        log = open_log(verbose=False, address=address, handle=stderr.handle)
        system_log.accept()[0].close()  # only to see whether it is there
        log.info('a')
        with system_log.accept()[0] as connection:
            assert connection.recv(65536) == b'<30>atopgpud[%d]: a\0' % os.getpid()
    assert stderr.shown() == ''


def test_a_stream_that_accepts_nobody_blocks_nobody(address, stderr):
    with listen(address, socket.SOCK_STREAM) as system_log:
        system_log.listen(0)
        log = open_log(verbose=False, address=address, handle=stderr.handle)
        log.info('a')
        log.info('b')
    assert stderr.shown().endswith('atopgpud: info: b\n')


def test_a_terminal_shows_the_messages_as_well(address):
    screen, terminal = pty.openpty()
    with listen(address) as system_log:
        open_log(verbose=False, address=address, handle=terminal).info('a')
        assert len(waiting(system_log)) == 1
    assert os.read(screen, 1000) == b'atopgpud: info: a\r\n'
    os.close(screen)
    os.close(terminal)


def test_a_broken_standard_error_harms_nobody(address, stderr):
    stderr.break_pipe()
    open_log(verbose=False, address=address, handle=stderr.handle).info('a')


def test_a_closed_standard_error_harms_nobody(address):
    words = [sys.executable, '-c', 'import sys; from gpu_tracker.atopgpud.logs import open_log\n']
    words[2] += 'open_log(verbose=False, address=sys.argv[1]).info("a"); print("well")'
    finished = shell('shift 3; exec "$@" 2>&-', *words, address, env=environment())
    assert (finished.returncode, finished.stdout) == (0, 'well\n')


def test_a_standard_error_that_nobody_reads_blocks_nobody(address, stderr):
    log = open_log(verbose=False, address=address, handle=stderr.handle)
    for _ in range(2000):
        log.info(100 * 'x')
    assert len(stderr.shown().splitlines()) < 2000


def test_a_traceback_is_one_line(address, stderr):
    with listen(address) as system_log:
        log = open_log(verbose=False, address=address, handle=stderr.handle)
        try:
            os.stat('/nowhere')
        except OSError:
            log.exception('it failed')
        message = waiting(system_log)[0].decode()
    assert message.startswith(f'<27>atopgpud[{os.getpid()}]: it failed\\nTraceback ')
    assert message.endswith("FileNotFoundError: [Errno 2] No such file or directory: '/nowhere'")


def test_what_does_not_print_is_shown_as_an_escape():
    assert one_line('GPU „0“\r\n\x1b[2J\x00\u202e\udcff') == 'GPU „0“\\r\\n\\x1b[2J\\x00\\u202e\\udcff'


@given(st.text(st.characters(categories=['L', 'C', 'Z', 'So']), max_size=50), st.integers(0, 400))
def test_any_text_becomes_one_line_of_a_bounded_length(text, times):
    shown = one_line(times * text)
    assert shown.isprintable()
    assert len(shown.encode()) <= 4000


class Clock:
    """Stands still until it is set."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_throttle_says_only_so_much_in_a_period_and_then_how_much_it_left_out():
    said: list[str] = []
    clock = Clock()
    throttle = Throttle(said.append, limit=2, period=60.0, clock=clock)
    for number in range(5):
        throttle(f'fault {number}')
    clock.now = 1059.9
    throttle('fault 5')
    assert said == ['fault 0', 'fault 1']
    clock.now = 1060.0
    throttle('fault 6')
    assert said == ['fault 0', 'fault 1', '4 more messages like these were left out', 'fault 6']


def test_a_throttle_tells_what_it_left_out_once_also_where_nothing_follows():
    said: list[str] = []
    clock = Clock()
    throttle = Throttle(said.append, clock=clock)
    for _ in range(10_000):
        throttle('nonsense')
    throttle.report_left_out()
    assert said == 10 * ['nonsense']
    clock.now = 1060.0
    throttle.report_left_out()
    clock.now = 1200.0
    throttle.report_left_out()
    assert said == [*(10 * ['nonsense']), '9990 more messages like these were left out']


def test_a_throttle_leaves_nothing_out_where_little_is_said():
    said: list[str] = []
    clock = Clock()
    throttle = Throttle(said.append, limit=1, period=1.0, clock=clock)
    for number in range(5):
        clock.now += 1
        throttle(str(number))
    assert said == ['0', '1', '2', '3', '4']
