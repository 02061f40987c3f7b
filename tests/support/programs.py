"""Programs and packages that tests need, with the Debian packages of programs."""

from __future__ import annotations

import shutil
import sys

import pytest

PACKAGES = {
    'atopsar': 'atop',
    'cc': 'gcc',
    'groff': 'groff-base',
    'ip': 'iproute2',
    'ksh93': 'ksh93u+m',
    'lksh': 'mksh',
    'promtool': 'prometheus',
    'readelf': 'binutils',
    'setpriv': 'util-linux',
    'strip': 'binutils',
    'systemd-analyze': 'systemd',
    'systemd-nspawn': 'systemd-container',
    'unshare': 'util-linux',
}
"""Debian's package of each program that is not in a package of its own name."""


def need_package(name: str) -> None:
    """Skip the test if a package for Python is missing. The group engines installs ray on older Pythons only."""
    if name == 'ray' and sys.version_info >= (3, 13):
        pytest.skip('this machine has Python 3.13 or newer', allow_module_level=True)
    pytest.importorskip(name, reason=f'needs the package {name}')


def need_program(*names: str) -> None:
    """Skip the test if one of these programs is missing."""
    for name in names:
        if shutil.which(name) is None:
            pytest.skip(f"needs {name}, from Debian's package {PACKAGES.get(name, name)}")
