"""No text makes the reader of configuration files fail, and it reads what configparser reads."""

from __future__ import annotations

import configparser

from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.idle.config.document import read_document
from gpu_tracker.idle.config.key_table import KEYS, template
from gpu_tracker.idle.config.parser import parse
from gpu_tracker.idle.config.values import gpus
from support.idle.idle_configuration import ALICE, ROOT

names = st.sampled_from(
    ['defaults', 'gpu-a', 'gpu-b', 'gpu-', 'process-a', 'process-b', 'process-', 'tty', 'DEFAULT', 'x', ' tty', 'a]']
)
keys = st.sampled_from(sorted({key.name for of_kind in KEYS.values() for key in of_kind} | {'x', 'GPUS', '[x', ''}))
pieces = st.sampled_from(
    [
        *(
            '0',
            '1',
            '5:1',
            '-1',
            '1e999',
            '9' * 30,
            'nan',
            'ALL',
            'off',
            'True',
            'A=1',
            '{gpu}',
            'a',
            'é',
            'bob',
            '~bob',
        ),
        *('%(', ')s', '%%', '%(dir)s', '%(x)s'),
        *(',', ' ', '"', "'", '\\', ';', '#', '%', '=', ':', '~', '/'),
        *('\n ', '\n', '\t', '\0', '\x1b', '\u2028', '\x1f'),
    ]
)
written = st.lists(pieces, max_size=6).map(''.join)
lines = st.one_of(
    st.builds('{}[{}]{}'.format, st.sampled_from(['', ' ']), names, st.sampled_from(['', ' ; c', ' x', '='])),
    st.builds('{}{}{}{}'.format, st.sampled_from(['', '', ' ', '  ']), keys, st.sampled_from(['=', ' : ']), written),
    written,
)
texts = st.lists(lines, max_size=12).map('\n'.join)


def check(text, caller):
    parsed = parse(text, caller)
    for problems in (parsed.errors, parsed.warnings):
        numbers = [problem.line or 0 for problem in problems]
        assert numbers == sorted(numbers)
        assert all(number <= text.count('\n') + text.count('\r') + 1 for number in numbers)
        assert all(problem.describe('f').isprintable() for problem in problems)
    if not parsed.errors:
        usable(parsed.settings)


def usable(settings):
    """Assert what everybody who gets settings relies on."""
    assert settings.interval >= 0.1
    for program in settings.programs:
        assert program.command[0]
        assert program.folder.startswith('/')
        assert program.log is None or program.log.startswith('/')
        assert program.gpus is None or program.gpus
        assert program.stop_grace >= 0
        assert program.idle_before_start >= 0
        assert 0 <= program.restart_backoff <= 300
        assert all(settings.section_of(gpu) is not None for gpu in program.gpus or ())
    assert all(section.gpus is None or section.gpus for section in settings.gpus)


@given(st.text())
def test_any_text(text):
    check(text, ROOT)


@given(texts, st.sampled_from([ROOT, ALICE, ROOT._replace(folder=None)]))
def test_any_lines_that_look_like_a_configuration(text, caller):
    check(text, caller)


@given(st.data())
def test_a_template_with_some_of_its_lines_changed(data):
    edited = template().split('\n')
    for place in data.draw(st.lists(st.integers(0, len(edited) - 1), max_size=3)):
        edited[place] = data.draw(lines)
    check('\n'.join(edited), ROOT)


@given(texts)
def test_what_is_read_is_what_configparser_reads(text):
    document = read_document(text)
    if document.errors:
        return
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(text)
    found = {name: dict(section.values) for name, section in document.sections.items() if name != 'DEFAULT'}
    assert found == {name: dict(parser[name]) for name in parser.sections()}


@given(st.lists(st.tuples(st.integers(0, 99), st.none() | st.integers(0, 9)), min_size=1, unique=True))
def test_gpus_read_back_as_they_are_written(numbers):
    text = ', '.join(str(number) if mig is None else f'{number}:{mig}' for number, mig in numbers)
    assert gpus(text) == tuple(numbers)
