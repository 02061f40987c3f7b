"""How to add an extra or a package to this very installation: on the index gpu-tracker is another project's name.

So the packages of an extra are named one by one. This is imported if an extra is missing: reading metadata takes 20 ms.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from importlib import metadata
from importlib.util import find_spec
from typing import TYPE_CHECKING

from gpu_tracker.version import __version__

if TYPE_CHECKING:
    from importlib.metadata import Distribution

_NAME = 'gpu-tracker'
_OF_EXTRA = re.compile(r"""(?:\s*\band\s+)?\bextra\s*==\s*['"]([^'"]+)['"]""")
"""What binds a requirement to an extra, at the end of its marker."""
_SPECIAL = re.compile(r'[^\w.:/\\=-]')
"""What cmd and PowerShell may take for something else; no path or requirement has a double quote."""


def install_command(extra: str) -> str:
    """Return the command line that installs what an extra needs for this interpreter; without it, what to install.

    :param extra: Its name, such as ``fleet``.
    """
    distribution = _installed()
    requirements = [] if distribution is None else packages_of(extra, distribution)
    if not requirements:
        checkout = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        if not os.path.isfile(os.path.join(checkout, 'pyproject.toml')):
            return f"install what the extra '{extra}' in gpu-tracker's pyproject.toml names"
        requirements = [f'{checkout}[{extra}]']
    installer = '' if distribution is None else _installer_of(distribution)
    return _line([*_pip(installer, has_pip=find_spec('pip') is not None), *requirements])


def package_command(package: str) -> str:
    """Return the command line that installs a package that no extra names for this interpreter."""
    distribution = _installed()
    installer = '' if distribution is None else _installer_of(distribution)
    return _line([*_pip(installer, has_pip=find_spec('pip') is not None), package])


def _installed() -> Distribution | None:
    """Return the metadata of this package; None where there is none, or that of another one of its name."""
    try:
        found = metadata.distribution(_NAME)
    except metadata.PackageNotFoundError:
        return None
    return found if found.version == __version__ else None


def _installer_of(distribution: Distribution) -> str:
    return (distribution.read_text('INSTALLER') or '').strip()


def packages_of(extra: str, distribution: Distribution) -> list[str]:
    """Return the requirements of an extra; those of the extras that it names are in place of these."""
    found = []
    for line in distribution.requires or ():
        requirement, _, marker = line.partition(';')
        bound = _OF_EXTRA.search(marker)
        if bound is None or bound[1] != extra:
            continue
        name, _, others = requirement.strip().partition('[')
        if name == _NAME:
            for other in others.rstrip(']').split(','):
                found += packages_of(other.strip(), distribution)
            continue
        condition = (marker[: bound.start()] + marker[bound.end() :]).strip()
        found.append(requirement.strip() + (f'; {condition}' if condition else ''))
    return found


def _pip(installer: str, *, has_pip: bool) -> list[str]:
    """Return the words before the requirements; an environment may have been made without a pip of its own."""
    interpreter = sys.executable or 'python'
    if has_pip:
        return [interpreter, '-m', 'pip', 'install']
    if installer == 'uv':
        return ['uv', 'pip', 'install', '--python', interpreter]
    return ['pip', '--python', interpreter, 'install']


def _line(words: list[str]) -> str:
    """Return words as the system's shell takes them."""
    if sys.platform == 'win32':
        return ' '.join(f'"{word}"' if _SPECIAL.search(word) else word for word in words)
    return shlex.join(words)
