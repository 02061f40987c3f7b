"""A package that offers something under an entry point, as one that is installed does."""

from __future__ import annotations

from pathlib import Path

from support.tracked_program import PACKAGE_PARENT

TESTS = Path(__file__).resolve().parents[2]


def offer(folder: Path, group: str, source: str) -> dict[str, str]:
    """Make a package that offers its ``opened`` as ``cuda``, as one that is installed does.

    :param group: Of the entry point.
    :param source: Of its module, in which ``opened`` is a function.
    :return: The variables with which it is installed.
    """
    (folder / 'stand_in.py').write_text(source)
    information = folder / 'stand_in-1.0.dist-info'
    information.mkdir()
    (information / 'METADATA').write_text('Metadata-Version: 2.1\nName: stand-in\nVersion: 1.0\n')
    (information / 'entry_points.txt').write_text(f'[{group}]\ncuda = stand_in:opened\n')
    return {'PYTHONPATH': f'{PACKAGE_PARENT}:{folder}:{TESTS}'}
