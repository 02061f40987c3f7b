"""Makes a random program from a seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.random_programs.acts import ACTS, GIVING_BACK, OF_TWINS
from support.random_programs.drafts import Writer

if TYPE_CHECKING:
    from support.random_programs.script import Program


def generate(seed: int) -> Program:
    """Return the program of a seed."""
    return Writer(seed, ACTS, GIVING_BACK, OF_TWINS).write()
