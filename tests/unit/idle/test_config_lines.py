"""The lines of a configuration file: which are read, and where everything stands."""

from __future__ import annotations

import pytest

from gpu_tracker.idle.config.document import Section, read_document
from support.idle.idle_configuration import errors


def sections(text):
    document = read_document(text)
    assert document.errors == ()
    return document.sections


def test_sections_keys_and_their_lines():
    assert sections('# c\n[a]\n\nX = 1 \n ; c\ny: 2 = 3\n[b]\nz=\n') == {
        'a': Section('a', 2, {'x': '1', 'y': '2 = 3'}, {'x': 4, 'y': 6}, {}),
        'b': Section('b', 7, {'z': ''}, {'z': 8}, {}),
    }


def test_values_may_go_on_in_lines_with_blanks_in_front():
    assert sections('[a]\nx=1\n  2\n\n  # not this\n  y=3\nz=4')['a'] == Section(
        'a', 1, {'x': '1\n2\n\ny=3', 'z': '4'}, {'x': 2, 'z': 7}, {}
    )


def test_blanks_in_front_of_all_keys_mean_nothing():
    assert sections('  [a]\n  x=1\n  y=2\n z=3\n')['a'].values == {'x': '1', 'y': '2', 'z': '3'}


def test_a_section_named_default_is_told_apart_from_what_stands_in_the_section_itself():
    read = sections('[a]\nx=1\n[DEFAULT]\nx=2\ny=3\n')
    assert read['a'] == Section('a', 1, {'x': '1', 'y': '3'}, {'x': 2}, {'x': 4, 'y': 5})
    assert [read['a'].line_of(key) for key in ('x', 'y', 'z')] == [2, 5, 1]
    assert read['DEFAULT'] == Section('DEFAULT', 3, {'x': '2', 'y': '3'}, {'x': 4, 'y': 5}, {})


@pytest.mark.parametrize('end', ['\n', '\r\n', '\r'])
def test_line_ends(end):
    assert sections(end.join(['[a]', 'x=1', ' 2', 'y=3']))['a'].lines == {'x': 2, 'y': 4}
    assert sections(end.join(['[a]', 'x=1', ' 2', 'y=3']))['a'].values == {'x': '1\n2', 'y': '3'}


def test_what_other_programs_take_for_line_ends_is_part_of_a_line():
    assert sections('[a]\nx=1\u2028y=2\x0bz=3\n')['a'].values == {'x': '1\u2028y=2\x0bz=3'}


def test_every_line_that_cannot_be_read_is_told_and_the_rest_is_read():
    text = 'x=1\njunk\n[a]\n=1\n:\njunk\n[half\n[]\nx=1\n[tty] junk\ny\0=2\n'
    assert errors(text) == [
        "f.conf:1: 'x=1' stands before the first [section]",
        "f.conf:2: 'junk' stands before the first [section]",
        "f.conf:4: [a] '=1' is neither a [section] nor key=value",
        "f.conf:5: [a] ':' is neither a [section] nor key=value",
        "f.conf:6: [a] 'junk' is neither a [section] nor key=value",
        "f.conf:7: [a] '[half' is neither a [section] nor key=value",
        "f.conf:8: [a] '[]' is neither a [section] nor key=value",
        'f.conf:11: [tty] holds a NUL character, as no text does',
    ]
    assert read_document(text).sections['a'].values == {'x': '1'}


def test_a_line_that_cannot_be_read_ends_no_value():
    assert errors('[a]\n  x=1\njunk\n   2\n') == ["f.conf:3: [a] 'junk' is neither a [section] nor key=value"]
    assert read_document('[a]\n  x=1\njunk\n   2\n').sections['a'].values == {'x': '1\n2'}


def test_of_what_stands_there_twice_the_last_is_read():
    document = read_document('[a]\nx=1\nX=2\n[b]\n[a]\nx=3\ny=4\n')
    assert [problem.describe('f') for problem in document.errors] == [
        'f:3: [a] x: stands in the section twice, first in line 2',
        'f:5: [a] stands in the file twice, first in line 1',
    ]
    assert document.sections['a'] == Section('a', 1, {'x': '3', 'y': '4'}, {'x': 6, 'y': 7}, {})
