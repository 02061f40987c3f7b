from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.fleet.web.host_names import HostNames

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


def test_a_name_that_is_not_known_is_noted_and_can_be_added():
    names, unknown = HostNames(['localhost']), []
    names.on_unknown = lambda: unknown.append(1)
    assert names.contain(b'localhost')
    assert names.contain(b'192.0.2.7')
    assert unknown == []
    assert not names.contain(b'node02.cluster.example')
    assert unknown == [1]
    names.add('Node02.Cluster.example.')
    assert names.contain(b'node02.cluster.example:1080')
    assert unknown == [1]
