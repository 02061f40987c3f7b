"""``gpu-tracker explain``: what a message means, and what to do."""

from __future__ import annotations

import re
from importlib.resources import files

from gpu_tracker.cli import options, output

TEXT = """
Explains a message by the name at its end.

Usage:
  gpu-tracker explain [<name>]

Options:
  -h --help             Print this text.
  -v --version          Print the version.

Without a name, all names are listed.
"""

_ENTRY = re.compile(r'^\.\. _([a-z-]+):\n\n.+\n~+\n\n((?:.*\n)*?)(?=\n\.\. _|\n.+\n-{3,}\n|\Z)', re.MULTILINE)


def run(values: options.Values) -> int:
    """Print the entry that ``values`` ask for, and return the exit code."""
    entries = entries_of((files('gpu_tracker.cli') / 'messages.rst').read_text(encoding='utf-8'))
    name = values['<name>']
    if name is None:
        return output.print_text(''.join(f'{name}\n' for name in entries))
    if name not in entries:
        raise options.UsageError(f'explain has no entry {name}{options.did_you_mean(str(name), entries)}')
    return output.print_text(f'{entries[str(name)]}\n')


def entries_of(page: str) -> dict[str, str]:
    """Return the plain text of each entry of the page by its name."""
    return {name: _plain(text) for name, text in _ENTRY.findall(page)}


def _plain(text: str) -> str:
    text = re.sub(r'\.\. code-block:: \w+\n\n', '', text)
    text = re.sub(r':ref:`([a-z-]+)`', r'"gpu-tracker explain \1"', text)
    text = re.sub(r':doc:`([^`<]+) <[a-z]+>`', r'see the page "\1" of the documentation', text)
    return re.sub(r'``|(?<![\w*])\*(?=\w)|(?<=\w)\*(?=:)', '', text).strip()
