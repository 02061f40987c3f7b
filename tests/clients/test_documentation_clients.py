"""The examples of docs/ that start atop or curl, or probe a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.cuda.probed_program import opened
from support.documentation_examples import CLIENTS, PROBED, DocumentationExamples, pages
from support.programs import need_program

if TYPE_CHECKING:
    from support.documentation_examples import Example


@pytest.mark.parametrize('examples', pages('clients'))
class TestExamples(DocumentationExamples):
    @pytest.fixture(autouse=True)
    def needs(self, examples: list[Example]) -> None:
        for words in {words for words in CLIENTS for example in examples if words in example.code}:
            if words in PROBED:
                with opened():
                    pass
            else:
                need_program(words.split()[1])
