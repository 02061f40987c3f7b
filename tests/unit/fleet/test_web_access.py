from __future__ import annotations

import socket

import pytest

from gpu_tracker.errors import ParameterError
from gpu_tracker.fleet.web.access import AccessError, check_access, reachable_address
from gpu_tracker.fleet.web.credentials import Token
from gpu_tracker.system.sockets import Address

TOKEN = Token('0123456789abcdef')


def address(host: str) -> Address:
    family = socket.AF_INET6 if ':' in host else socket.AF_INET
    return Address(family, host, 1080, (host, 1080))


def test_loopback_needs_nothing():
    access = check_access(host='127.0.0.1', port=1080)
    assert [(one.host, one.port) for one in access.addresses] == [('127.0.0.1', 1080)]
    assert (access.credentials, access.tls, access.warnings, access.scheme) == (None, None, (), 'http')


def test_loopback_may_have_a_token_without_tls():
    access = check_access(host='127.0.0.2', port=0, credentials=TOKEN)
    assert access.credentials is TOKEN
    assert access.warnings == ()


def test_more_than_loopback_needs_a_secret_and_tls():
    with pytest.raises(AccessError) as refusal:
        check_access(host='0.0.0.0', port=1080)  # noqa: S104 - it is refused
    assert str(refusal.value) == (
        '--host: other machines can reach 0.0.0.0. The safe way is:\n'
        '  gpu-tracker agent --host=0.0.0.0 --make-token=token --tls-cert=tls.crt --tls-key=tls.key\n'
        'With --insecure everybody there can read which user runs what on which GPU'
    )
    with pytest.raises(AccessError, match='--password-file=passwords --tls-cert'):
        check_access(host='0.0.0.0', port=1080, credentials_option='--password-file')  # noqa: S104 - as above


def test_a_secret_alone_would_cross_the_network_for_all_to_read():
    with pytest.raises(AccessError) as refusal:
        check_access(host='0.0.0.0', port=1080, credentials=TOKEN, credentials_option='--password-file')  # noqa: S104
    assert str(refusal.value) == (
        '--host: other machines can reach 0.0.0.0; what --password-file holds would cross the network as plain text: '
        'give --tls-cert, or --insecure if everybody there may read which user runs what on which GPU'
    )


def test_who_insists_is_warned():
    access = check_access(host='0.0.0.0', port=1080, insecure=True)  # noqa: S104 - the warning is what is tested
    assert access.warnings == (
        '--insecure: everybody who can reach 0.0.0.0 can read which user runs what on which GPU',
    )
    access = check_access(host='0.0.0.0', port=1080, insecure=True, credentials=TOKEN)  # noqa: S104 - as above
    assert access.warnings == ('--insecure: what --token-file holds crosses the network of 0.0.0.0 as plain text',)


def test_there_is_nothing_to_warn_of_on_loopback():
    assert check_access(host='127.0.0.1', port=1080, insecure=True).warnings == ()


@pytest.mark.parametrize(
    ('hosts', 'reachable'),
    [
        (['127.0.0.1', '::1'], None),
        (['127.8.9.1'], None),
        (['127.0.0.1', '192.0.2.7'], '192.0.2.7'),
        (['::1', 'fe80::1%eth0'], 'fe80::1%eth0'),
        (['::'], '::'),
        (['0.0.0.0'], '0.0.0.0'),  # noqa: S104 - as above
    ],
)
def test_a_name_is_loopback_only_if_all_its_addresses_are(hosts, reachable):
    assert reachable_address(map(address, hosts)) == reachable


def test_a_host_of_another_machine_is_refused():
    with pytest.raises(
        ParameterError, match=r"^--host must be a host name or an IP address of this machine, not '192.0.2.77'$"
    ):
        check_access(host='192.0.2.77', port=0)


def test_the_host_that_was_given_is_one_of_the_servers_names():
    assert check_access(host='localhost', port=0, server_names=['gpus.example']).server_names == {
        'gpus.example',
        'localhost',
    }
