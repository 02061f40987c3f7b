"""Sphinx configuration: python -m sphinx -W -b html docs docs/_build/html."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = 'gpu-tracker'
author = 'The gpu-tracker developers'
project_copyright = f'2026, {author}'
release = tomllib.loads((Path(__file__).parents[1] / 'pyproject.toml').read_text())['project']['version']

extensions = ['sphinx.ext.autodoc']
exclude_patterns = ['_build', '_*.rst.txt']
add_module_names = False  # all public names are imported from gpu_tracker, wherever they live
nitpicky = True
nitpick_ignore_regex = [
    (r'py:.*', r'(?!gpu_tracker).*'),  # no other project's index is fetched
]

maximum_signature_line_length = 100
autodoc_member_order = 'bysource'
autodoc_typehints = 'none'

html_theme = 'furo'
html_title = f'gpu-tracker {release}'
html_static_path = ['_static/narrow.css']
html_css_files = ['narrow.css']
html_search_scorer = str(Path(__file__).parent / '_static' / 'scorer.js')
html_copy_source = False
html_show_sourcelink = False


def hide_signature(_app: Sphinx, what: str, _name: str, found: object, *given: object) -> tuple[str, str] | None:
    """Hide the signature of a class that only gpu-tracker makes: it would repeat the list of fields."""
    _options, signature, _returned = given
    is_hidden = what in {'class', 'exception'} and signature and ':param ' not in (found.__doc__ or '')
    return ('', '') if is_hidden else None


def setup(app: Sphinx) -> None:
    """Register the hook."""
    app.connect('autodoc-process-signature', hide_signature)
