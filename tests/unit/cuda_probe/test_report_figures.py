"""Figures of a CUDA report as people read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.cuda_probe.report_tables import amount, count, duration, size


@pytest.mark.parametrize(
    ('size_bytes', 'text'),
    [
        (None, 'N/A'),
        (0, '0 B'),
        (999, '999 B'),
        (1000, '1.0 kB'),
        (1234, '1.2 kB'),
        (999_949, '999.9 kB'),
        (999_950, '1.0 MB'),
        (1_234_567_890, '1.2 GB'),
        (80_000_000_000, '80.0 GB'),
        (2**60, '1,152.9 PB'),
    ],
)
def test_sizes_have_decimal_units(size_bytes, text):
    assert size(size_bytes) == text


@pytest.mark.parametrize(
    ('number', 'text'),
    [
        (None, 'N/A'),
        (0.0, '0'),
        (0.04, '<0.1'),
        (0.05, '0.1'),
        (9.96, '10.0'),
        (87.31, '87.3'),
        (99.94, '99.9'),
        (99.95, '100'),
        (12_345.6, '12,346'),
    ],
)
def test_rates_and_shares_have_a_decimal_where_it_says_something(number, text):
    assert amount(number) == text


@pytest.mark.parametrize(
    ('seconds', 'text'),
    [
        (None, 'N/A'),
        (0.0, '0 s'),
        (1e-9, '<1 µs'),
        (0.0000045, '4.5 µs'),
        (0.0123, '12.3 ms'),
        (0.99996, '1.0 s'),
        (1234.56, '1,234.6 s'),
    ],
)
def test_durations_have_the_unit_that_fits(seconds, text):
    assert duration(seconds) == text


def test_counts():
    assert [count(None), count(0), count(1_234_567)] == ['N/A', '0', '1,234,567']


@given(st.integers(min_value=1, max_value=10**15))
def test_what_is_there_is_never_shown_as_nothing(number):
    assert not size(number).startswith('0')
    assert amount(number / 10**6) != '0'
    assert not duration(number / 10**9).startswith('0')


@given(st.integers(min_value=0, max_value=10**15))
def test_a_size_has_at_most_three_digits_before_the_point(number):
    assert len(size(number).split()[0].partition('.')[0]) <= 3
