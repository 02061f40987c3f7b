"""The few declarations of the kernel that a BCC program needs, where the kernel's own headers are not installed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from benchmarks.session import FailedError

if TYPE_CHECKING:
    from pathlib import Path

_WIDTHS = {8: 'char', 16: 'short', 32: 'int', 64: 'long long'}
_NUMBERS = '\n'.join(
    f'typedef {sign} {word} {prefix}{letter}{bits};'
    for bits, word in _WIDTHS.items()
    for sign, letter in (('unsigned', 'u'), ('signed', 's'))
    for prefix in ('', '__')
)
_TYPES = f"""\
#ifndef FEW_TYPES
#define FEW_TYPES
{_NUMBERS}
typedef u16 __be16, __le16, __sum16;
typedef u32 __be32, __le32, __wsum;
typedef u64 __be64, __le64, __aligned_u64;
typedef unsigned long size_t, uintptr_t;
typedef _Bool bool;
#define NULL ((void *)0)
#define PAGE_SIZE 4096
#define CONFIG_BPF_SYSCALL 1
#endif
"""
_VERSION = """\
#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + (c))
#define LINUX_VERSION_CODE KERNEL_VERSION(6, 1, 0)
"""
_REGISTERS = """\
struct pt_regs { unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags,
                 sp, ss; };
"""
_EMPTY = (
    *(f'linux/{name}.h' for name in ('bpf', 'bpf_common', 'log2')),
    *(f'uapi/linux/{name}.h' for name in ('bpf', 'if_packet', 'if_ether')),
    'asm/page.h',
)
_FILES = {
    'linux/kconfig.h': _TYPES,
    'linux/types.h': _TYPES,
    'linux/version.h': _VERSION,
    'uapi/linux/ptrace.h': _REGISTERS,
    **dict.fromkeys(_EMPTY, ''),
}


def are_installed() -> bool:
    """Tell whether the running kernel's own headers are there."""
    return os.path.isdir(f'/lib/modules/{os.uname().release}/build') or os.path.exists('/sys/kernel/kheaders.tar.xz')


def variables(folder: Path, *, installed: bool) -> dict[str, str]:
    """Return the variables with which BCC finds headers.

    :param folder: Where they are written to.
    :param installed: Whether the kernel's own are there, and nothing is needed.
    :raises FailedError: They are missing, on a machine whose registers are not known here.
    """
    kernel = os.uname()
    if installed:
        return {}
    if kernel.machine != 'x86_64':
        raise FailedError(f"not run: the headers of kernel {kernel.release} are missing, which BCC's compiler needs")
    for name, text in _FILES.items():
        path = folder / 'include' / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / 'arch' / 'x86' / 'include').mkdir(parents=True, exist_ok=True)
    return {'BCC_KERNEL_SOURCE': str(folder)}
