"""Figures as short texts, bars and lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.views.live.quantities import (
    ASCII,
    BLOCKS,
    BYTES,
    BYTES_PER_SECOND,
    PERCENT,
    WATTS,
    amount,
    amount_of,
    bar,
    duration,
    line,
    symbols_of,
)


@pytest.mark.parametrize(
    ('value', 'unit', 'shown'),
    [
        (None, BYTES, 'N/A'),
        (float('nan'), BYTES, 'N/A'),
        (0, BYTES, '0 B'),
        (999, BYTES, '999 B'),
        (1000, BYTES, '1.00 kB'),
        (999_499, BYTES, '999 kB'),
        (999_500, BYTES, '1.00 MB'),
        (9_994_000, BYTES, '9.99 MB'),
        (9_996_000, BYTES, '10.0 MB'),
        (99_960_000, BYTES, '100 MB'),
        (1.234e9, BYTES, '1.23 GB'),
        (5e22, BYTES, '50,000 EB'),
        (2_500_000, BYTES_PER_SECOND, '2.50 MB/s'),
        (187.4, PERCENT, '187%'),
        (0.0, PERCENT, '0%'),
        (302.4, WATTS, '302 W'),
        (45.06, WATTS, '45.1 W'),
    ],
)
def test_amounts(value: float | None, unit: str, shown: str) -> None:
    assert amount(value, unit) == shown


@pytest.mark.parametrize(
    ('value', 'whole', 'unit', 'shown'),
    [
        (5.37e9, 42.9e9, BYTES, '5.37 of 42.9 GB'),
        (512e6, 42.9e9, BYTES, '512 MB of 42.9 GB'),
        (2e9, None, BYTES, '2.00 GB'),
        (None, 42.9e9, BYTES, 'N/A'),
        (0, 42.9e9, BYTES, '0 B of 42.9 GB'),
        (140.0, 400.0, PERCENT, '140% of 400%'),
        (80.0, 100.0, PERCENT, '80%'),
    ],
)
def test_amounts_of_a_whole(value: float | None, whole: float | None, unit: str, shown: str) -> None:
    assert amount_of(value, whole, unit) == shown


@given(st.floats(min_value=0, max_value=9.99e20), st.sampled_from([BYTES, BYTES_PER_SECOND]))
def test_sizes_take_nine_columns(value: float, unit: str) -> None:
    assert len(amount(value, unit)) <= 9


@pytest.mark.parametrize(
    ('seconds', 'shown'),
    [
        (None, 'N/A'),
        (0.0, '0 ms'),
        (0.34, '340 ms'),
        (0.9994, '999 ms'),
        (0.9996, '999 ms'),
        (1.0, '1.0 s'),
        (12.37, '12.3 s'),
        (59.99, '59.9 s'),
        (60.0, '1 min 00 s'),
        (134.9, '2 min 14 s'),
        (3599.9, '59 min 59 s'),
        (3600.0, '1 h 00 min'),
        (11_100.0, '3 h 05 min'),
        (86_400.0 * 2 + 3 * 3600, '2 d 03 h'),
    ],
)
def test_durations(seconds: float | None, shown: str) -> None:
    assert duration(seconds) == shown


@pytest.mark.parametrize(
    ('value', 'whole', 'shown'),
    [(0.0, 10.0, '----'), (5.0, 10.0, '##--'), (10.0, 10.0, '####'), (99.0, 10.0, '####'), (-1.0, 10.0, '----')],
)
def test_a_bar_is_as_full_as_the_value_is_of_the_whole(value: float, whole: float, shown: str) -> None:
    assert bar(value, whole, 4, ASCII) == shown


def test_a_bar_of_what_is_unknown_is_blank() -> None:
    assert bar(None, 10.0, 4, BLOCKS) == bar(1.0, None, 4, BLOCKS) == bar(0.0, 0.0, 4, BLOCKS) == '    '
    assert bar(6.0, 10.0, 5, BLOCKS) == '███░░'


def test_a_line_has_eight_levels_up_to_its_top() -> None:
    values = [None, 0.0, 1.0, 1.1, 4.0, 7.9, 8.0, 9.0]
    assert line(values, 8.0, BLOCKS) == ' ▁▁▂▄███'
    assert line(values, 8.0, ASCII) == ' __.-###'
    assert line([0.0, None, 0.0], 0.0, BLOCKS) == '▁ ▁'
    assert line([None], None, BLOCKS) == ' '


@pytest.mark.parametrize(
    ('variables', 'symbols'),
    [
        ({}, BLOCKS),
        ({'LANG': 'en_US.UTF-8', 'TERM': 'xterm'}, BLOCKS),
        ({'LC_CTYPE': 'C.utf8'}, BLOCKS),
        ({'LC_ALL': '', 'LANG': 'de_DE.utf-8'}, BLOCKS),
        ({'LC_ALL': 'C', 'LANG': 'en_US.UTF-8'}, ASCII),
        ({'LANG': 'de_DE.ISO-8859-1'}, ASCII),
        ({'TERM': 'linux'}, ASCII),
    ],
)
def test_blocks_are_for_terminals_that_can_show_them(variables: dict[str, str], symbols: object) -> None:
    assert symbols_of(variables) is symbols
