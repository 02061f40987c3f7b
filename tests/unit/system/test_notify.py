from __future__ import annotations

import socket
import uuid
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.system.sockets import tell_systemd
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def manager() -> Iterator[socket.socket]:
    """Make a service manager's socket that is not bound yet."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.settimeout(TIMEOUT)
        yield channel


def test_a_state_reaches_a_socket_that_has_a_path(manager, tmp_path):
    manager.bind(str(tmp_path / 'notify'))
    tell_systemd('READY=1', {'NOTIFY_SOCKET': str(tmp_path / 'notify')})
    assert manager.recv(4096) == b'READY=1'


def test_a_state_reaches_an_abstract_socket(manager):
    name = f'notify-{uuid.uuid4()}'
    manager.bind(f'\0{name}')
    tell_systemd('RELOADING=1\nMONOTONIC_USEC=12', {'NOTIFY_SOCKET': f'@{name}'})
    assert manager.recv(4096) == b'RELOADING=1\nMONOTONIC_USEC=12'


@pytest.mark.parametrize(
    'environment',
    [
        {},
        {'NOTIFY_SOCKET': ''},
        {'NOTIFY_SOCKET': 'vsock:2:1234'},
        {'NOTIFY_SOCKET': '/nowhere/notify'},
        {'NOTIFY_SOCKET': '/' + 200 * 'x'},
    ],
)
def test_where_nobody_listens_nothing_happens(environment):
    tell_systemd('READY=1', environment)


def test_a_manager_that_does_not_read_blocks_nobody(manager, tmp_path):
    manager.bind(str(tmp_path / 'notify'))
    for _ in range(3000):
        tell_systemd('STATUS=busy', {'NOTIFY_SOCKET': str(tmp_path / 'notify')})
    assert manager.recv(4096) == b'STATUS=busy'
