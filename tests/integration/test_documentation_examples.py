"""The examples of README.rst and of the core's pages in docs/."""

from __future__ import annotations

import pytest

from support.documentation_examples import EXAMPLES, DocumentationExamples, check_output, parameters


@pytest.mark.parametrize('example', parameters('core'))
class TestExamples(DocumentationExamples):
    pass


def test_pages_have_examples() -> None:
    languages = {example.language for example in EXAMPLES}
    assert languages == {'python', 'console'}


@pytest.mark.parametrize(
    ('expected', 'printed'),
    [
        ('Time: 0.001', 'Time: 12.5'),
        ('System core count: 12', 'System core count: 2'),
        ('first\n...\nlast', 'first\nanything\nat all\nlast'),
        ('version 6.0.0', 'version 6.0.0'),
    ],
)
def test_numbers_and_ellipses_are_free(expected: str, printed: str) -> None:
    check_output(printed, expected, 'here')


@pytest.mark.parametrize(('expected', 'printed'), [('Time: 0.001', 'Time: N/A'), ('Main: 1', 'Main: 1\nmore')])
def test_everything_else_is_not(expected: str, printed: str) -> None:
    with pytest.raises(AssertionError, match='here shows'):
        check_output(printed, expected, 'here')
