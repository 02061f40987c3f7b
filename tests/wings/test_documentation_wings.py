"""The examples of the wings' pages in docs/ that need no program from a package."""

from __future__ import annotations

import pytest

from support.documentation_examples import DocumentationExamples, pages


@pytest.mark.parametrize('examples', pages('wings'))
class TestExamples(DocumentationExamples):
    pass
