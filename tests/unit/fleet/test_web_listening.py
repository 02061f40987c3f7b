from __future__ import annotations

import socket

import pytest

from gpu_tracker.fleet.web.listener import listening_sockets, url
from gpu_tracker.system.sockets import Address, AddressTakenError, addresses


def of(*hosts: str) -> list[Address]:
    return [address for host in hosts for address in addresses(host, 0)]


def test_any_port_is_the_same_port_at_each_address():
    sockets = listening_sockets(of('127.0.0.1', '127.0.0.2'))
    port = sockets[0].getsockname()[1]
    assert [url('https', one) for one in sockets] == [f'https://127.0.0.1:{port}', f'https://127.0.0.2:{port}']
    for one in sockets:
        one.close()


def test_a_port_that_is_taken_at_one_address_is_given_up_at_all():
    with socket.create_server(('127.0.0.1', 0)) as other:
        port = other.getsockname()[1]
        wanted = [address._replace(port=port, place=(address.host, port)) for address in of('127.0.0.3', '127.0.0.1')]
        with pytest.raises(AddressTakenError, match=f'^port {port} of 127.0.0.1 is in use by another program'):
            listening_sockets(wanted)
    with socket.socket() as free:
        free.bind(('127.0.0.3', port))
