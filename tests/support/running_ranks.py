"""What the ranks of a job have reported so far, which run with gpu-tracker."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from support.cli_program import text_of

if TYPE_CHECKING:
    from pathlib import Path


def reported_ram(folder: Path, rank: int) -> int:
    """Return the peak RAM of a rank in its newest report; 0 while there is none.

    The first one is written a second after the start, when a program on a busy machine may still have next to nothing.
    """
    text = text_of(next(folder.glob(f'rank-{rank:04}-*[0-9a-f].json'), folder / 'none'))
    totals = json.loads(text)['totals'] if text else None
    return (totals and totals['ram']['combined'][0]) or 0
