"""The examples of README.rst and of the core's pages in docs/."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from support.documentation_examples import EXAMPLES, ROOT, DocumentationExamples, check_output, pages, run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize('examples', pages('core'))
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


class TestReadme:
    """The commands of README.rst, in a copy of what the checkout has."""

    folder = DocumentationExamples.folder
    environment = DocumentationExamples.environment

    def test_its_commands_run_twice_in_order(self, folder: Path, environment: dict[str, str]) -> None:
        text = (ROOT / 'README.rst').read_text()
        commands = [*re.findall(r'^   \$ (gpu-tracker .+)', text, re.MULTILINE), 'gpu-tracker report']
        assert f'``{commands[-1]}`` writes' in text
        for number in (1, 2):
            for command in commands:
                run(['sh', '-c', command], folder, environment, command)
            assert (folder / f'run-{number}.html').exists()
