"""The examples of the wings' pages in docs/ that need no program from a package."""

from __future__ import annotations

import pytest

from support.documentation_examples import DocumentationExamples, parameters


@pytest.mark.parametrize('example', parameters('wings'))
class TestExamples(DocumentationExamples):
    pass
