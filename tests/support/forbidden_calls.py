"""Runs a program in which the kernel refuses some system calls, as in strict containers; a real seccomp(2) filter.

``python forbidden_calls.py EPERM memfd_create,setrlimit PROGRAM ARGUMENT...``
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

# asm/unistd_64.h of x86-64, and asm-generic/unistd.h, which 64-bit ARM has.
_NUMBERS = {
    'x86_64': {
        'clock_gettime of processes': 228,
        'clone of threads': 56,
        'clone3': 435,
        'close_range': 436,
        'getrlimit': 97,
        'memfd_create': 319,
        'perf_event_open': 298,
        'pidfd_open': 434,
        'pidfd_send_signal': 424,
        'prctl': 157,
        'prlimit64': 302,
        'prlimit64 with a new limit': 302,
        'sched_getscheduler': 145,
        'sched_setscheduler': 144,
        'setrlimit': 160,
    },
    'aarch64': {
        'clock_gettime of processes': 113,
        'clone of threads': 220,
        'clone3': 435,
        'close_range': 436,
        'getrlimit': 163,
        'memfd_create': 279,
        'perf_event_open': 241,
        'pidfd_open': 434,
        'pidfd_send_signal': 424,
        'prctl': 167,
        'prlimit64': 261,
        'prlimit64 with a new limit': 261,
        'sched_getscheduler': 120,
        'sched_setscheduler': 119,
        'setrlimit': 164,
    },
}
# linux/filter.h, linux/seccomp.h, linux/prctl.h and linux/sched.h
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _FIRST_ARGUMENT_AT, _THIRD_ARGUMENT_AT = 0, 16, 32
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_SET_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2
_CONDITIONS = {
    'clock_gettime of processes': (_FIRST_ARGUMENT_AT, _AT_LEAST, 0x80000000),  # negative numbers, see clock_getres(2)
    'clone of threads': (_FIRST_ARGUMENT_AT, _ANY_BIT, 0x10000),  # CLONE_THREAD
    'prlimit64 with a new limit': (_THIRD_ARGUMENT_AT, _ANY_BIT, 0xFFFFFFFF),  # not a null pointer
}
"""What must be true of one of the arguments."""


class _Program(ctypes.Structure):
    _fields_ = (('length', ctypes.c_ushort), ('filter', ctypes.c_char_p))


def words_before(*calls: str, answer: str = 'EPERM') -> tuple[str, ...]:
    """Return what stands before the words of a program to which ``calls`` answer with an error."""
    if platform.machine() not in _NUMBERS:
        import pytest  # noqa: PLC0415 - the program that is run does without

        pytest.skip(f'this machine has system calls whose numbers are not listed here: {platform.machine()}')
    return sys.executable, os.path.abspath(__file__), answer, ','.join(calls)


def forbid(calls: list[str], number: int) -> None:
    """Have the kernel answer ``calls`` with the error ``number`` in this process and all that come from it."""
    refusals = [(call, number) for call in calls]
    if 'clone of threads' in calls:
        refusals.append(('clone3', errno.ENOSYS))  # whose arguments no filter sees: the C library then uses clone
    steps = []
    for call, error in refusals:
        condition = []
        if call in _CONDITIONS:
            place, test, value = _CONDITIONS[call]
            condition = [_step(_LOAD, place), _step(test, value, 0, 1)]
        steps += [
            _step(_LOAD, _NUMBER_AT),
            _step(_EQUAL, _NUMBERS[platform.machine()][call], 0, 1 + len(condition)),
            *condition,
            _step(_RETURN, _REFUSE | error),
        ]
    steps.append(_step(_RETURN, _ALLOW))
    program = _Program(len(steps), b''.join(steps))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    for arguments in ((_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0), (_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0)):
        if prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), 'no seccomp filter')


def _step(code: int, value: int, skipped_if_so: int = 0, skipped_if_not: int = 0) -> bytes:
    """Return one struct sock_filter."""
    return struct.pack('HBBI', code, skipped_if_so, skipped_if_not, value)


if __name__ == '__main__':
    forbid(sys.argv[2].split(','), getattr(errno, sys.argv[1]))
    os.execvp(sys.argv[3], sys.argv[3:])
