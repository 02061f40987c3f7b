"""The URLs of agents: scheme, host and port, in one form."""

from __future__ import annotations

import pytest

from gpu_tracker.fleet.config.cluster import UrlError, agent_url, is_on_loopback

ACCEPTED = "must be 'self' or the URL of an agent, such as 'http://node02:1080'"


@pytest.mark.parametrize(
    ('given', 'expected'),
    [
        ('http://node02:1080', 'http://node02:1080'),
        ('http://node02:1080/', 'http://node02:1080'),
        ('HTTP://Node02.Example.ORG:1080/', 'http://node02.example.org:1080'),
        ('https://node02', 'https://node02'),
        ('https://node02:443', 'https://node02'),
        ('https://node02:80', 'https://node02:80'),
        ('http://gpu_box-1:1', 'http://gpu_box-1:1'),
        ('http://10.0.0.1:65535', 'http://10.0.0.1:65535'),
        ('http://[2001:DB8::1]:1080', 'http://[2001:db8::1]:1080'),
        ('http://[::1]', 'http://[::1]'),
        ('http://node02.:1080', 'http://node02.:1080'),
        ('http://node02:', 'http://node02'),
        ('http://[fe80::1%eth0]:1', 'http://[fe80::1%eth0]:1'),
    ],
)
def test_one_form(given: str, expected: str):
    assert agent_url(given) == expected


@pytest.mark.parametrize(
    ('given', 'expected'),
    [
        ('', f"{ACCEPTED}, beginning with http:// or https://, not ''"),
        ('node02', f"{ACCEPTED}, beginning with http:// or https://, not 'node02'"),
        ('node02:1080', f"{ACCEPTED}, beginning with http:// or https://, not 'node02:1080'"),
        ('ftp://node02', f"{ACCEPTED}, beginning with http:// or https://, not 'ftp://node02'"),
        ('file:///etc/passwd', f"{ACCEPTED}, beginning with http:// or https://, not 'file:///etc/passwd'"),
        ('http://', "must have a host name or an address after http://, not ''"),
        ('http://:1080', "must have a host name or an address after http://, not ''"),
        ('http://-node', "must have a host name or an address after http://, not '-node'"),
        ('http://a..b', "must have a host name or an address after http://, not 'a..b'"),
        ('http://nöde', "must have a host name or an address after http://, not 'nöde'"),
        ('http://a%62', "must have a host name or an address after http://, not 'a%62'"),
        ('http://' + 'a' * 300, f"must have a host name or an address after http://, not '{'a' * 100}'"),
        ('http://127.1', "must have an IPv4 address as four numbers, not '127.1'"),
        ('http://2130706433', "must have an IPv4 address as four numbers, not '2130706433'"),
        ('http://10.0.0.256', "must have an IPv4 address as four numbers, not '10.0.0.256'"),
        ('http://a.0x7f', "must have an IPv4 address as four numbers, not 'a.0x7f'"),
        ('http://[1', f'{ACCEPTED}, with a valid host'),
        ('http://[zz]', None),
        ('http://node02:0', "must have a port from 1 to 65535, not '0'"),
        ('http://node02:65536', "must have a port from 1 to 65535, not '65536'"),
        ('http://node02:abc', "must have a port from 1 to 65535, not 'abc'"),
        ('http://node02:-1', "must have a port from 1 to 65535, not '-1'"),
        ('http://node02:1080/gpus', "must have nothing after host and port, not 'http://node02:1080/gpus'"),
        ('http://node02//', "must have nothing after host and port, not 'http://node02//'"),
        ('http://node02?', "must have nothing after host and port, not 'http://node02'"),
        ('http://node02/?token=s3cret', "must have nothing after host and port, not 'http://node02/?...'"),
        ('http://node02#s3cret', "must have nothing after host and port, not 'http://node02'"),
        (
            'http://me:s3cret@node02:1080',
            "must not contain a user or a password ('http://...@node02:1080'): write a token into a token_file",
        ),
        (
            'http://s3cret@node02',
            "must not contain a user or a password ('http://...@node02'): write a token into a token_file",
        ),
        (
            'http://@node02',
            "must not contain a user or a password ('http://...@node02'): write a token into a token_file",
        ),
        ('http://node02 ', f'{ACCEPTED}, without blanks and control characters'),
        ('http://node02\n', f'{ACCEPTED}, without blanks and control characters'),
        ('http://node\t02', f'{ACCEPTED}, without blanks and control characters'),
        ('http://good\\@evil', f'{ACCEPTED}, without blanks and control characters'),
        ('http://a, http://b', f'{ACCEPTED}, without blanks and control characters'),
    ],
)
def test_what_is_refused(given: str, expected: str | None):
    with pytest.raises(UrlError) as raised:
        agent_url(given)
    if expected is not None:
        assert str(raised.value) == expected
    assert 's3cret' not in str(raised.value)


@pytest.mark.parametrize(
    ('url', 'expected'),
    [
        ('http://localhost:1', True),
        ('http://127.0.0.1', True),
        ('http://127.9.9.9:1', True),
        ('http://[::1]:1', True),
        ('http://10.0.0.1', False),
        ('http://node02', False),
        ('http://localhost.example.org', False),
        ('http://127.0.0.1.example.org', False),
        ('http://2130706433', False),
        ('http://0.0.0.0', False),
    ],
)
def test_what_is_on_loopback(url: str, expected: bool):
    assert is_on_loopback(url) is expected
