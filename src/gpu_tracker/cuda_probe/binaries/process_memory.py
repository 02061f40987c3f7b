"""Reads words from the memory of another process."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

WORD = 8
_GAP = 1 << 12
_PIECE = 1 << 22


def words_at(proc: str, pid: int, addresses: Sequence[int]) -> dict[int, int]:
    """Return the 64-bit words at the sorted ``addresses`` by address, those that can be read.

    Raises OSError where the process has ended or may not be looked at.
    """
    found: dict[int, int] = {}
    descriptor = os.open(f'{proc}/{pid}/mem', os.O_RDONLY | os.O_CLOEXEC)
    try:
        first = 0
        for number, address in enumerate(addresses):
            following = addresses[number + 1] if number + 1 < len(addresses) else None
            near = following is not None and following - address < _GAP and following - addresses[first] < _PIECE
            if near:
                continue
            found.update(_words_in(descriptor, addresses[first : number + 1]))
            first = number + 1
    finally:
        os.close(descriptor)
    return found


def _words_in(descriptor: int, addresses: Sequence[int]) -> dict[int, int]:
    begin = addresses[0]
    try:
        memory = os.pread(descriptor, addresses[-1] + WORD - begin, begin)
    except (OSError, OverflowError):
        return {}  # unmapped by now, or an address that no process has
    return {
        address: int.from_bytes(memory[address - begin : address - begin + WORD], 'little')
        for address in addresses
        if address + WORD - begin <= len(memory)
    }
