from __future__ import annotations

from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.fleet.web.credentials import Passwords, Token

TOKEN = Token('0123456789abcdef')
PASSWORDS = Passwords({'ann': 'open:sesame', 'bob': 'grün'})


def basic(text: str) -> bytes:
    return b'Basic ' + b64encode(text.encode())


@pytest.mark.parametrize(
    'header',
    [
        b'Bearer 0123456789abcdef',
        b'bearer 0123456789abcdef',
        b'BEARER   0123456789abcdef  ',
        basic(':0123456789abcdef'),
        basic('anybody:0123456789abcdef'),
    ],
)
def test_the_token_is_accepted_as_a_bearer_and_as_a_password(header):
    assert TOKEN.accepts(header)


@pytest.mark.parametrize(
    'header',
    [
        None,
        b'',
        b'Bearer',
        b'Bearer ',
        b'Bearer 0123456789abcde',
        b'Bearer 0123456789abcdef0',
        b'Bearer 0123456789ABCDEF',
        b'0123456789abcdef',
        b'Digest 0123456789abcdef',
        b'Basic 0123456789abcdef',
        basic('0123456789abcdef'),
        basic('0123456789abcdef:'),
        basic('a:b:0123456789abcdef'),
        b'Basic ' + b'=' * 17,
        b'Basic \xff\xfe',
        b'Bearer \xff\xfe',
        b'\0',
    ],
)
def test_anything_else_is_no_token(header):
    assert not TOKEN.accepts(header)


def test_passwords_are_accepted_with_their_own_names_only():
    assert PASSWORDS.accepts(basic('ann:open:sesame'))
    assert PASSWORDS.accepts(basic('bob:grün'))
    assert not PASSWORDS.accepts(basic('bob:open:sesame'))
    assert not PASSWORDS.accepts(basic('ann:open'))
    assert not PASSWORDS.accepts(basic('ann:'))
    assert not PASSWORDS.accepts(basic(':'))
    assert not PASSWORDS.accepts(basic(''))
    assert not PASSWORDS.accepts(b'Bearer open:sesame')
    assert not PASSWORDS.accepts(b'Bearer ann:open:sesame')
    assert not PASSWORDS.accepts(None)


def test_without_passwords_nothing_is_accepted():
    assert not Passwords({}).accepts(basic(':'))


def test_browsers_are_asked_for_a_password_in_both_cases():
    assert TOKEN.challenges == (b'Bearer realm="gpu-tracker"', b'Basic realm="gpu-tracker", charset="UTF-8"')
    assert PASSWORDS.challenges == (b'Basic realm="gpu-tracker", charset="UTF-8"',)


@given(
    st.binary(max_size=60)
    | st.binary(max_size=60).map(lambda value: b'Basic ' + value)
    | st.binary(max_size=60).map(lambda value: b'Basic ' + b64encode(value))
)
def test_no_header_raises_and_none_is_accepted_by_chance(header):
    assert not TOKEN.accepts(header)
    assert not PASSWORDS.accepts(header)
