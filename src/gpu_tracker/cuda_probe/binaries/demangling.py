"""Mangled names of kernels, and what they become for people, by the demangler of the C++ runtime library.

A kernel has one mangled name in the device code and another in the program that launches it. A short mangled name can
stand for a text of any length (238 characters for 140 MB), and the traced program may be written by somebody who wants
that: a name that could become too long is cut to its beginning.
"""

from __future__ import annotations

import ctypes
import functools
import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST = 8192  # characters; the demangler calls itself for each nested one
_LARGEST_RESULT = 16 << 20  # characters that the demangler may write
_MOST_SHOWN = 4096  # characters
# S_, S1A_, T_, T0_: an earlier part of the name again. Dp: its pattern for each element of a pack.
_AGAIN = re.compile(r'[ST][0-9A-Z]{0,6}_|Dp')
_LENGTH = re.compile(r'[1-9]\d{0,3}')
_UNNAMED_AS_GCC = '_GLOBAL__N_1'
# The device compiler numbers unnamed namespaces, as in 39_GLOBAL__N__1d7b55bd_7_prog_cu_4d11ce8d (a hash, the source
# file's name after its length, and another hash or a name); a host compiler other than GCC may not.
_UNNAMED = '_GLOBAL__N__'
_OF_FILE = re.compile(r'_GLOBAL__N__[0-9a-f]+_(\d{1,4})_')
_MANGLED_AS_GCC = '12_GLOBAL__N_1'
_MOST_DIGITS = 4
# With -rdc=true, static kernels: __nv_static_22__a70b1d3b_5_st_cu_main__Z2stPi
_STATIC = re.compile(r'__nv_static_(\d{1,4})_')
# _ZL2stPi, _ZN5outerL2stEPi: static in the program's names only. Literals begin so as well, on both sides.
_INTERNAL = re.compile(r'L(?=\d)')


class _Demangler(NamedTuple):
    demangle: Callable[..., int | None]
    free: Callable[[int], None]


def demangle(symbol: str) -> str:
    """Return the name behind a mangled one, with ``(anonymous namespace)`` for every unnamed namespace.

    Of a template whose name could become too long, or is too long for the demangler (GCC's takes 1024 characters), only
    the beginning: ``cutlass::Kernel<...>``. The symbol itself is returned where it is none of C++ and where the system
    has no C++ runtime library.
    """
    plain = plain_symbol(symbol)
    if not plain.startswith('_Z'):
        return plain
    if len(plain) > _LONGEST or _largest_result(plain) > _LARGEST_RESULT:
        return _beginning(plain) or symbol
    demangler = _demangler()
    if demangler is None:
        return symbol
    text = demangler.demangle(plain.encode(errors='backslashreplace'), None, None, None)
    if not text:
        return _beginning(plain) or symbol
    try:
        name = ctypes.string_at(text).decode(errors='backslashreplace')
        return name if len(name) <= _MOST_SHOWN else f'{name[:_MOST_SHOWN]}...'
    finally:
        demangler.free(text)


def _largest_result(plain: str) -> int:
    """Return a bound for the length of the demangled name.

    A part that is named again holds only parts before it, so a part named ``n`` times more makes the whole at most
    ``n + 1`` times as long.
    """
    result = 2 * len(plain)
    for part, times in Counter(_AGAIN.findall(plain)).items():
        result *= len(plain) if part == 'Dp' else times + 1
        if result > _LARGEST_RESULT:
            break
    return result


def _beginning(plain: str) -> str | None:
    """Return the name up to its template arguments: ``outer::kernel<...>``."""
    nested = plain.startswith('_ZN')
    at = len('_ZN' if nested else '_Z')
    words = []
    while length := _LENGTH.match(plain, at + (plain[at : at + 1] == 'L')):
        at = length.end() + int(length[0])
        word = plain[length.end() : at]
        words.append('(anonymous namespace)' if word == _UNNAMED_AS_GCC else word)
        if not nested:
            break
    if not words or at >= len(plain):
        return None
    return '::'.join(words) + ('<...>' if plain[at] == 'I' else '(...)')


@functools.cache
def _demangler() -> _Demangler | None:
    try:
        demangle_name, free = ctypes.CDLL('libstdc++.so.6')['__cxa_demangle'], ctypes.CDLL(None)['free']
    except (OSError, AttributeError):
        return None  # a system without it: names are shown as they are
    demangle_name.restype = ctypes.c_void_p
    demangle_name.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    free.argtypes = [ctypes.c_void_p]
    free.restype = None
    return _Demangler(demangle_name, free)


def plain_symbol(symbol: str) -> str:
    """Return the mangled name without what the device compiler adds for files: fit for demangling."""
    if static := _STATIC.match(symbol):
        symbol = symbol[static.end() + int(static[1]) + 1 :] or symbol
    at = symbol.find(_UNNAMED)
    while at >= 0:
        begin, end = _length_prefixed(symbol, at)
        if begin < at:
            symbol = f'{symbol[:begin]}{_MANGLED_AS_GCC}{symbol[end:]}'
            at = begin + len(_MANGLED_AS_GCC)
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
