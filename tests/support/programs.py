"""Programs that tests start, with the packages that have them."""

from __future__ import annotations

import shutil

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


def need_program(*names: str) -> None:
    """Skip the test if one of these programs is missing."""
    for name in names:
        if shutil.which(name) is None:
            pytest.skip(f"needs {name}, from Debian's package {PACKAGES.get(name, name)}")
