"""References in values mean what they meant to configparser, where they meant anything."""

from __future__ import annotations

import configparser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.idle.config.document import Interpolation, ValueUnusableError

KEYS = 'abcd'
PIECES = st.sampled_from(['%(a)s', '%(b)s', '%(C)s', '%(d)s', '%(e)s', '%%', '%', '%(', ')s', 'x', ' y'])
VALUES = st.dictionaries(
    st.sampled_from(KEYS), st.lists(PIECES, max_size=5).map(''.join).map(str.strip), max_size=len(KEYS)
)


@pytest.mark.parametrize(
    ('written', 'expected'),
    [
        ('', ''),
        ('50%', '50%'),
        ('50%%', '50%'),
        ('%%%', '%%'),
        ('%%(a)s', '%(a)s'),
        ('%(a)s/%(A)s', '1/1'),
        ('%(a)d %(a) %a %()s', '%(a)d %(a) %a %()s'),
        ('%(gone)s %d', '%(gone)s %d'),
        ('%(b)s', '1 and 1'),
    ],
)
def test_a_value(written, expected):
    assert Interpolation({'a': '1', 'b': '%(a)s and %(a)s', 'x': written}).get('x') == expected


def test_a_key_that_is_absent():
    assert Interpolation({}).get('x') is None


def test_what_is_fine_is_not_spoilt_by_what_is_not():
    values = Interpolation({'a': '%(a)s', 'b': 'fine', 'c': '%(b)s'})
    for _ in range(2):
        with pytest.raises(ValueUnusableError, match=r'^%\(a\)s refers to itself$'):
            values.get('a')
        assert values.get('c') == 'fine'


@given(VALUES)
def test_any_values(written):
    parser = configparser.ConfigParser()
    parser.read_string('[section]\n' + ''.join(f'{key}={value}\n' for key, value in written.items()))
    values = Interpolation(written)
    for key in written:
        try:
            found = values.get(key)
        except ValueUnusableError:
            found = None
        try:
            assert parser['section'][key] == found
        except configparser.InterpolationError:
            pass


def test_ten_references_lead_as_far_as_they_do_with_configparser():
    written = {f'a{n}': f'%(a{n + 1})s' for n in range(10)} | {'a10': 'end'}
    parser = configparser.ConfigParser()
    parser.read_dict({'section': written})
    assert parser['section']['a0'] == Interpolation(written).get('a0') == 'end'
