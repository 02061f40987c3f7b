"""Mangled names of one kernel: in the device code, in the program that launches it, and for people."""

from __future__ import annotations

import re

# The device compiler numbers unnamed namespaces, as in 39_GLOBAL__N__1d7b55bd_7_prog_cu_4d11ce8d (a hash, the source
# file's name after its length, and another hash or a name); a host compiler other than GCC may not.
_UNNAMED = '_GLOBAL__N__'
_OF_FILE = re.compile(r'_GLOBAL__N__[0-9a-f]+_(\d{1,4})_')
_UNNAMED_AS_GCC = '12_GLOBAL__N_1'
_MOST_DIGITS = 4
# With -rdc=true, static kernels: __nv_static_22__a70b1d3b_5_st_cu_main__Z2stPi
_STATIC = re.compile(r'__nv_static_(\d{1,4})_')
# _ZL2stPi, _ZN5outerL2stEPi: static in the program's names only. Literals begin so as well, on both sides.
_INTERNAL = re.compile(r'L(?=\d)')


def plain_symbol(symbol: str) -> str:
    """Return the mangled name without what the device compiler adds for files: fit for demangling."""
    if static := _STATIC.match(symbol):
        symbol = symbol[static.end() + int(static[1]) + 1 :] or symbol
    at = symbol.find(_UNNAMED)
    while at >= 0:
        begin, end = _length_prefixed(symbol, at)
        if begin < at:
            symbol = f'{symbol[:begin]}{_UNNAMED_AS_GCC}{symbol[end:]}'
            at = begin + len(_UNNAMED_AS_GCC)
        at = symbol.find(_UNNAMED, at + 1)
    return symbol


def _length_prefixed(symbol: str, at: int) -> tuple[int, int]:
    """Return where the name at ``at`` begins with its length before it, and ends; no such length: ``at`` twice."""
    file = _OF_FILE.match(symbol, at)
    least = file.end() + int(file[1]) + 1 if file else at + len(_UNNAMED)
    # The length may follow a name that itself ends in digits: the shortest number that spans the file's name is taken.
    for begin in range(at - 1, max(0, at - _MOST_DIGITS) - 1, -1):
        length = symbol[begin:at]
        if not (length.isdecimal() and length.isascii()):
            break
        if length[0] != '0' and least < at + int(length) < len(symbol):
            return begin, at + int(length)
    return at, at


def common_name(symbol: str) -> str:
    """Return what the names of a kernel on both sides have in common; kernels of two files can share it."""
    return _INTERNAL.sub('', plain_symbol(symbol))
