from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.recording.writing.region_lines import parse
from gpu_tracker.regions import text


def written(attributes):
    line = f'B\t7\t-\t42\t43\t-\t1000\t-\t-\tname\t{text.attributes_field(attributes)}\n'
    return json.loads(parse(line.encode('utf-8', 'replace')).attributes or '{}')


class Odd:
    def __str__(self):
        raise ValueError('no text')


def test_numbers_truth_values_and_texts_stay_what_they_are():
    given_values = {'i': 3, 'f': 1.5, 't': True, 'n': None, 's': 'a"b\\c\n\t\x00', 'u': 'é€😀'}
    assert written(given_values) == given_values


def test_other_values_become_texts():
    assert written({'l': [1], 'nan': float('nan'), 'big': 1 << 70, 'odd': Odd()}) == {
        'l': '[1]',
        'nan': 'nan',
        'big': '1180591620717411303424',
        'odd': '(Odd)',
    }


def test_what_is_too_much_is_left_out_and_marked():
    found = written({'a': 1, 'b': 'x' * 900, 'c': 'y' * 900, 'd': 'z' * 900, 'e': 2})
    assert found == {'a': 1, 'b': 'x' * 900, 'c': 'y' * 900, '(truncated)': True}


def test_a_name_is_whole_up_to_a_thousand_characters():
    assert text.field('n' * 1000, text.LONGEST_NAME) == 'n' * 1000
    assert text.field('n' * 1001, text.LONGEST_NAME) == 'n' * 999 + '…'


@given(st.dictionaries(st.text(min_size=1, max_size=30), st.one_of(st.text(), st.integers(), st.floats(), st.none())))
def test_attributes_are_json_and_bounded(attributes):
    found = text.attributes_field(attributes)
    assert len(written(attributes)) <= len(attributes)
    assert isinstance(found, str)
