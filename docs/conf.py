"""Sphinx configuration: python -m sphinx -W -b html docs docs/_build/html."""

from __future__ import annotations

import tomllib
from pathlib import Path

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

html_theme = 'furo'
html_title = f'gpu-tracker {release}'
html_copy_source = False
html_show_sourcelink = False
