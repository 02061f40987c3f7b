"""The functions of ``gpu-tracker region --shell`` in the shells that are no part of the tier core."""

from __future__ import annotations

import pytest

from support.region_shells import CORE_SHELLS, SHELLS, RegionsInShell


@pytest.mark.parametrize('shell_name', [name for name in SHELLS if name not in CORE_SHELLS])
class TestShells(RegionsInShell):
    pass
