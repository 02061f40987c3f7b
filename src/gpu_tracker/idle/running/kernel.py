"""What the kernel does for a process that asks for it, see prctl(2). Linux only."""

from __future__ import annotations

import ctypes
import os

_SET_PARENT_DEATH_SIGNAL = 1  # linux/prctl.h
_SET_CHILD_SUBREAPER = 36
_LIBRARY = ctypes.CDLL(None, use_errno=True)
"""Loaded with this module: a process between fork and exec should load nothing."""


def become_subreaper() -> None:
    """Have the orphans among this process' descendants handed to it instead of to init.

    :raises OSError: The kernel refuses.
    """
    _control(_SET_CHILD_SUBREAPER, 1)


def die_with_parent(number: int) -> None:
    """Have the kernel send this process the signal ``number`` when the thread that has forked it ends.

    A change of user takes that back, so it comes after.

    :raises OSError: The kernel refuses.
    """
    _control(_SET_PARENT_DEATH_SIGNAL, number)


def _control(option: int, value: int) -> None:
    if _LIBRARY.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
