"""Whether two processes have the same memory, as the kernel knows it: kcmp(2). Linux only."""

from __future__ import annotations

import os

_NUMBERS = {'x86_64': 312, 'aarch64': 272, 'riscv64': 272, 'ppc64le': 354, 's390x': 343}
"""Of the system call, by machine, see the kernel's tables of system calls."""
_KCMP_VM = 1


def has_same_memory(pid: int, other: int) -> bool | None:
    """Tell whether two processes share their whole address space; None where the kernel does not tell.

    It tells only of processes that may be traced, and a container may forbid the call.
    """
    number = _NUMBERS.get(os.uname().machine)
    if number is None:
        return None
    try:
        import ctypes  # noqa: PLC0415 - costs 6 ms, and few trees have two processes that look so much alike
    except ImportError:
        return None  # this interpreter has none, or no more files may be opened

    found = ctypes.CDLL(None, use_errno=True).syscall(number, pid, other, _KCMP_VM, 0, 0)
    return None if found < 0 else found == 0
