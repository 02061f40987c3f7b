"""Text that fits a terminal, and durations in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.gpus.claim import remaining
from gpu_tracker.gpus.table_cells import ago
from gpu_tracker.system.terminal_text import cut, padded, printable, shortened, width_of


@pytest.mark.parametrize(
    ('text', 'clean'),
    [
        ('python -u train.py', 'python -u train.py'),
        ('tränen 涙 é', 'tränen 涙 é'),
        ('\x1b]0;title\x07', '?]0;title?'),
        ('\x9b2J', '?2J'),
        ('a\tb\nc\rd\x7fe\x00', 'a?b?c?d?e?'),
        ('\u202egpj.exe\u2069', '?gpj.exe?'),
        ('zero\u200bwidth', 'zero?width'),
        ('\udcff', '?'),
    ],
)
def test_what_is_not_to_be_printed_is_replaced(text, clean):
    assert printable(text) == clean


@given(st.text())
def test_what_is_left_is_printable_and_as_long(text):
    assert printable(text).isprintable()
    assert len(printable(text)) == len(text)


@pytest.mark.parametrize(
    ('text', 'width'), [('', 0), ('train.py', 8), ('訓練.py', 7), ('\uff37', 2), ('e\u0301', 1), ('°C', 2), ('…', 1)]
)
def test_the_columns_that_a_text_takes(text, width):
    assert width_of(text) == width


@pytest.mark.parametrize(
    ('text', 'width', 'short'),
    [
        ('train.py', 8, 'train.py'),
        ('train.py', 7, 'train.…'),
        ('train.py', 1, '…'),
        ('訓練計画', 8, '訓練計画'),
        ('訓練計画', 7, '訓練計…'),
        ('訓練計画', 6, '訓練…'),
        ('e\u0301e\u0301e\u0301', 2, 'e\u0301…'),
        ('', 1, ''),
    ],
)
def test_what_is_too_wide_ends_in_an_ellipsis(text, width, short):
    assert shortened(text, width) == short


def test_a_text_can_be_cut_that_would_fit():
    assert cut('ab', 5) == 'ab…'


@given(st.text().map(printable), st.integers(min_value=1, max_value=30), st.booleans())
def test_a_cell_is_exactly_as_wide_as_its_column(text, width, to_the_right):
    assert width_of(padded(shortened(text, width), width, to_the_right=to_the_right)) == width


def test_where_the_blanks_go():
    assert padded('涙', 4, to_the_right=True) == '  涙'
    assert padded('涙', 4, to_the_right=False) == '涙  '


@pytest.mark.parametrize(
    ('seconds', 'words'),
    [
        (-3600, 'just now'),
        (0, 'just now'),
        (9.9, 'just now'),
        (10, '10 seconds ago'),
        (59.9, '59 seconds ago'),
        (60, 'a minute ago'),
        (119, 'a minute ago'),
        (120, '2 minutes ago'),
        (3599, '59 minutes ago'),
        (3600, 'an hour ago'),
        (14 * 3600 + 1800, '14 hours ago'),
        (24 * 3600 - 1, '23 hours ago'),
        (24 * 3600, 'a day ago'),
        (2 * 24 * 3600, '2 days ago'),
        (400 * 24 * 3600, '400 days ago'),
    ],
)
def test_an_age_in_words(seconds, words):
    assert ago(seconds) == words


@pytest.mark.parametrize(
    ('seconds', 'words'),
    [
        (-1, '0 s'),
        (0, '0 s'),
        (0.1, '1 s'),
        (57.2, '58 s'),
        (120, '120 s'),
        (120.1, '3 min'),
        (7200, '120 min'),
        (7201, '3 h'),
        (86_400, '24 h'),
    ],
)
def test_a_time_that_remains_in_words(seconds, words):
    assert remaining(seconds) == words
