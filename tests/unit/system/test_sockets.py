from __future__ import annotations

import signal
import socket
import uuid

import pytest

from gpu_tracker.errors import GpuTrackerError, ParameterError
from gpu_tracker.system import sockets
from support.tracked_program import start
from support.waiting import TIMEOUT

EVERYWHERE = '0.0.0.0'  # noqa: S104 - it is never listened on for longer than a test
ANY_PORT = sockets.Address(socket.AF_INET, '127.0.0.1', 0, ('127.0.0.1', 0))


def address_of(listener: socket.socket) -> sockets.Address:
    place = listener.getsockname()
    return sockets.Address(listener.family, *place[:2], place)


def client_of(listener: socket.socket) -> socket.socket:
    client = socket.socket(listener.family)
    client.connect(listener.getsockname())
    return client


def test_an_address_stands_for_itself():
    assert sockets.addresses('127.0.0.1', 59123) == [
        (socket.AF_INET, '127.0.0.1', 59123, ('127.0.0.1', 59123)),
    ]
    assert sockets.addresses(EVERYWHERE, 0) == [(socket.AF_INET, EVERYWHERE, 0, (EVERYWHERE, 0))]


def test_a_name_stands_for_its_addresses_each_of_them_once():
    found = sockets.addresses('localhost', 59123)
    assert (socket.AF_INET, '127.0.0.1', 59123, ('127.0.0.1', 59123)) in found
    assert len(found) == len(set(found))


@pytest.mark.parametrize(
    'host',
    [
        '192.0.2.1',  # for documentation only, RFC 5737
        '::ffff:127.0.0.1',  # would be IPv4 on a socket of IPv6, and ours speak only one of them
        'a..b',
        'x' * 64,
    ],
)
def test_a_host_that_is_not_of_this_machine_is_refused(host):
    with pytest.raises(ParameterError) as caught:
        sockets.addresses(host, 59123)
    assert str(caught.value) == f'--host must be a host name or an IP address of this machine, not {host!r}'


def test_an_error_of_another_kind_is_told_of():
    def fail(*_, **__):
        raise ValueError('no look-up')

    with pytest.raises(ValueError, match='no look-up'):
        sockets.addresses('node02', 1080, fail)


HANGING_LOOK_UP = """
import threading
from gpu_tracker.system import sockets

def hang(*_, **__):
    print(threading.current_thread().daemon, flush=True)
    threading.Event().wait()

sockets.addresses('node02', 1080, hang)
"""


def test_ctrl_c_ends_the_wait_for_a_name_server_that_is_down():
    with start(HANGING_LOOK_UP, stderr=-1) as program:
        try:
            # In the main thread a look-up of the C library's would hear of no signal.
            assert program.stdout.readline() == 'True\n'
            program.send_signal(signal.SIGINT)
            assert program.wait(TIMEOUT) == -signal.SIGINT
        finally:
            program.kill()


def test_small_answers_are_sent_at_once():
    """As asyncio has it, where a socket tells its protocol."""
    with sockets.tcp_socket(ANY_PORT) as listener, client_of(listener), listener.accept()[0] as accepted:
        assert accepted.proto == socket.IPPROTO_TCP


def test_what_is_accepted_is_kept_alive_so_that_a_client_that_vanishes_is_noticed():
    with sockets.tcp_socket(ANY_PORT) as listener, client_of(listener), listener.accept()[0] as accepted:
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1


def test_a_port_that_another_program_has():
    with sockets.tcp_socket(ANY_PORT) as listener:
        address = address_of(listener)
        with pytest.raises(sockets.AddressTakenError) as caught:
            sockets.tcp_socket(address)
    assert isinstance(caught.value, GpuTrackerError)
    assert (
        str(caught.value)
        == f'port {address.port} of 127.0.0.1 is in use by another program ("ss -lp" shows which program)'
    )


def test_a_port_is_free_at_once_after_a_daemon_that_has_closed_connections():
    """The side that closes first keeps a connection in TIME_WAIT for a minute."""
    with sockets.tcp_socket(ANY_PORT) as listener, client_of(listener) as client:
        address = address_of(listener)
        listener.accept()[0].close()
        assert client.recv(1) == b''
    with socket.socket() as other, pytest.raises(OSError, match='in use'):
        other.bind(address.place)
    sockets.tcp_socket(address).close()


def test_one_port_for_both_families():
    try:
        with socket.socket(socket.AF_INET6) as trial:
            trial.bind(('::1', 0))
    except OSError:
        pytest.skip('this machine has no IPv6')
    with sockets.tcp_socket(sockets.Address(socket.AF_INET6, '::', 0, ('::', 0, 0, 0))) as listener:
        port = listener.getsockname()[1]
        with sockets.tcp_socket(sockets.Address(socket.AF_INET, EVERYWHERE, port, (EVERYWHERE, port))) as other:
            assert other.getsockname()[1] == port


def test_a_unix_socket_has_a_name_of_exactly_these_bytes():
    name = f'test-{uuid.uuid4()}-é'
    with sockets.unix_socket(name) as listener:
        assert listener.getsockname() == b'\0' + name.encode()
        client_of(listener).close()


def test_the_name_of_a_unix_socket_that_another_program_has_and_that_is_free_after_it():
    name = f'test-{uuid.uuid4()}'
    with sockets.unix_socket(name), pytest.raises(sockets.AddressTakenError) as caught:
        sockets.unix_socket(name)
    assert str(caught.value) == f'the socket @{name} is in use by another program ("ss -lp" shows which program)'
    sockets.unix_socket(name).close()
