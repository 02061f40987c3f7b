"""Manual pages of all commands, made from their help texts: ``python -m gpu_tracker.cli.man_pages FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_tracker import __version__
from gpu_tracker.cli import COMMANDS
from gpu_tracker.cli.help_texts import NEW_LINE, OPTION_LISTS, help_of, meanings_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_tracker.cli.help_texts import HelpText

_PROGRAM = 'gpu-tracker'
_LISTS = {*OPTION_LISTS, 'Commands', 'Other commands'}
"""Headings of lists of names and meanings. Other indented text is shown unchanged."""


def pages() -> dict[str, str]:
    """Return the pages by the names of their files, as groff and mandoc read them."""
    found = {}
    for name in ('', *COMMANDS):
        text = help_of(name)
        usual = next(other for other in COMMANDS if COMMANDS[other] == COMMANDS[name]) if name else name
        found[f'{_title(name)}.1'] = _page(text) if usual == name else f'.so man1/{_title(usual)}.1\n'
    return found


def _title(name: str) -> str:
    return f'{_PROGRAM}-{name}' if name else _PROGRAM


def _page(text: HelpText) -> str:
    title = _title(text.name)
    lines = [
        f'.TH {title.upper().replace("-", chr(92) + "-")} 1 "" "{_PROGRAM} {__version__}" "User Commands"',
        '.SH NAME',
        f'{_plain(title)} \\- {_plain(text.summary[0].lower() + text.summary[1:])}',
    ]
    usage = next(lines for heading, lines in text.blocks if heading == 'Usage')
    lines += ['.SH SYNOPSIS', '.nf', *(_plain(line.removeprefix('  ')) for line in usage), '.fi', '.SH DESCRIPTION']
    later: list[str] = []
    for heading, block in text.blocks:
        if heading == 'Usage':
            continue
        if heading in _LISTS:
            later += [f'.SH {heading.upper()}', *_entries(block)]
        else:
            lines += [] if lines[-1].startswith('.SH') else ['.PP']
            lines += _paragraph(heading, block)
    return '\n'.join([*lines, *later, '.SH SEE ALSO', *_others(text.name)]) + '\n'


def _paragraph(heading: str, block: list[str]) -> Iterator[str]:
    if heading:
        yield f'{_plain(heading)}:'
    if heading or any(line.startswith('  ') for line in block):
        yield from ('.nf', *(_plain(line) for line in block), '.fi')
    else:
        yield from (_plain(line) for line in block)


def _entries(block: list[str]) -> Iterator[str]:
    for form, meaning in meanings_of(block):
        first, *indented = meaning.split(NEW_LINE)
        yield from ('.TP', f'\\fB{_plain(form)}\\fR', _plain(first))
        for line in indented:
            yield from ('.br', _plain(line))


def _others(name: str) -> Iterator[str]:
    titles = [_title(other) for other in ('', *COMMANDS) if other != name]
    for title in titles:
        yield f'.BR {_plain(title)} (1){"," if title != titles[-1] else ""}'


def _plain(text: str) -> str:
    """Return ``text`` escaped for groff."""
    escaped = text.replace('\\', '\\e')
    for sign, name in {'-': '\\-', "'": '\\(aq', '`': '\\(ga', '^': '\\(ha', '~': '\\(ti'}.items():
        escaped = escaped.replace(sign, name)
    return f'\\&{escaped}' if escaped.startswith('.') else escaped


if __name__ == '__main__':
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for file_name, page in pages().items():
        (folder / file_name).write_text(page, encoding='ascii')
