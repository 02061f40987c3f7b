"""A table of resources whose line for ``cuda`` names a stand-in, for programs of their own."""

from __future__ import annotations

from pathlib import Path

import gpu_tracker
from gpu_tracker.resources import entry_of
from support.tracked_program import PACKAGE_PARENT

TESTS = Path(__file__).resolve().parents[1]


def with_stand_in(folder: Path, part: str, source: str) -> dict[str, str]:
    """Make a copy of the package, of links, whose table names ``opened`` of a module with ``source``.

    :param part: What of the line for ``cuda`` names it: ``opener`` or ``metrics``.
    :return: The variables with which that copy is imported.
    """
    (folder / 'stand_in.py').write_text(source)
    package = Path(gpu_tracker.__file__).resolve().parent
    copy = folder / 'gpu_tracker'
    (copy / 'resources').mkdir(parents=True)
    for original, links in ((package, copy), (package / 'resources', copy / 'resources')):
        for path in original.iterdir():
            if path.name not in ('resources', '__pycache__') and path != package / 'resources' / '__init__.py':
                (links / path.name).symlink_to(path)
    table = (package / 'resources' / '__init__.py').read_text()
    named = getattr(entry_of('cuda'), part)
    assert table.count(repr(named)) == 1
    (copy / 'resources' / '__init__.py').write_text(table.replace(named, 'stand_in:opened'))
    return {'PYTHONPATH': f'{folder}:{PACKAGE_PARENT}:{TESTS}'}
