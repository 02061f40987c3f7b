from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.fleet.web.host_names import HostNames, own_names

NAMES = HostNames(['localhost', 'Node02', 'node02.cluster.example.', ''])


@pytest.mark.parametrize(
    'host',
    [
        b'localhost',
        b'LOCALHOST:1080',
        b'localhost.',
        b'localhost.:80',
        b'localhost:',
        b'node02',
        b'node02.cluster.example:1080',
        b'node02.cluster.example.',
        b'127.0.0.1',
        b'192.0.2.7:1080',
        b'[::1]',
        b'[::1]:1080',
        b'[2001:db8::7]',
        b'[::ffff:192.0.2.7]:9',
    ],
)
def test_own_names_and_addresses_are_known_whatever_the_port(host):
    assert NAMES.contain(host)


@pytest.mark.parametrize(
    'host',
    [
        b'',
        b'.',
        b':1080',
        b'evil.example',
        b'node02.evil.example',
        b'localhost.evil.example',
        b'evil.example#localhost',
        b'evil.example@localhost',
        b'user@localhost',
        b'localhost localhost',
        b'localhost,evil.example',
        b'localhost/',
        b'localhost:80:80',
        b'localhost:abc',
        b'127.1',
        b'2130706433',
        b'0x7f.0.0.1',
        b'127.0.0.1.evil.example',
        b'::1',
        b'[::1',
        b'[127.0.0.1]',
        b'[localhost]',
        b'[]',
        b'localhos\xf4',
        b'localhost\n',
        b'localhost..',
    ],
)
def test_nothing_else_is(host):
    assert not NAMES.contain(host)


@given(st.binary(max_size=40))
def test_no_host_raises(host):
    NAMES.contain(host)


def test_the_machine_knows_what_it_is_called():
    assert {'localhost', socket.gethostname()} <= own_names()


def test_a_name_server_that_is_down_makes_nobody_wait():
    assert {'localhost', socket.gethostname()} <= own_names(patience=0)
