"""Parsing of ``/proc/PID/stat``, see proc_pid_stat(5)."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpu_tracker.processes.process import Process

PAGE_SIZE: int = os.sysconf('SC_PAGE_SIZE') if hasattr(os, 'sysconf') else 4096
HUGE_PAGE = 1 << 21
"""Bytes of a transparent huge page."""
TICKS_PER_SECOND: int = os.sysconf('SC_CLK_TCK') if hasattr(os, 'sysconf') else 100

_STATES_OF_ENDED = (b'Z', b'X', b'x')
_LAST_FIELD_USED = 26
_EXITING = 0x4
"""PF_EXITING in the kernel's sched.h."""


def update(process: Process, line: bytes) -> None:
    """Take over into ``process`` what ``line``, the content of its stat file, says.

    The command's name stands in parentheses and may itself contain any character, so fields are counted from the last
    closing one. CPU times come in clock ticks, user and system time rounded down separately. The resident size that
    stands here too is left out: the kernel reads it from per-CPU counters without adding them up.
    """
    name_end = line.rindex(b')')
    fields = line[name_end + 2 :].split(b' ', _LAST_FIELD_USED)
    process.raw = line
    process.name = line[line.index(b'(') + 1 : name_end]
    threads = int(fields[17])
    process.ended = fields[0] in _STATES_OF_ENDED and threads <= 1  # else only its first thread has ended
    process.parent = int(fields[1])
    process.group = int(fields[2])
    process.session = int(fields[3])
    process.faults = int(fields[7]) + int(fields[9])
    process.reaped_faults = int(fields[8]) + int(fields[10])
    process.own_cpu = (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND
    process.reaped_cpu = (int(fields[13]) + int(fields[14])) / TICKS_PER_SECOND
    process.threads = 0 if process.ended else threads
    process.start = float(fields[19])
    if fields[25] != b'0':  # it is 0 for some moments of execve(2), and once the process is ending
        process.stack = fields[25]


def parent(line: bytes) -> int:
    """Return the pid of the process' parent."""
    return int(line[line.rindex(b')') + 4 :].split(b' ', 1)[0])


def all_faults(line: bytes) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the minor and major page faults of the process, and those of the children that it has waited for."""
    fields = line[line.rindex(b')') + 2 :].split(b' ', 11)
    return (int(fields[7]), int(fields[9])), (int(fields[8]), int(fields[10]))


def start(line: bytes) -> float:
    """Return when the process started, in clock ticks since the machine did."""
    return float(line[line.rindex(b')') + 2 :].split(b' ', 20)[19])


def is_ending(line: bytes) -> bool:
    """Return whether the process has ended, or is past the point where its threads let go of what they have open."""
    fields = line[line.rindex(b')') + 2 :].split(b' ', 7)
    return fields[0] in _STATES_OF_ENDED or bool(int(fields[6]) & _EXITING)


def state(line: bytes) -> bytes:
    """Return the letter for what the process does."""
    at = line.rindex(b')') + 2
    return line[at : at + 1]


NO_IMAGE = (b'0', b'0', b'0')
"""What :func:`image` returns of a process whose addresses are not to be seen."""


def image(line: bytes) -> tuple[bytes, ...]:
    """Return what identifies the program image of a process: where its stack, its heap and its arguments start.

    fork(2) keeps these addresses and execve(2) puts them at new random places, so processes with equal images were
    forked from one another without an exec in between. All are 0 where the reader lacks the right to see them, and in a
    process that is ending and has given up its memory already.
    """
    fields = line[line.rindex(b')') + 2 :].split(b' ')
    return (fields[25], fields[44], fields[45])


def has_no_arguments(line: bytes) -> bool:
    """Return whether the process is in the middle of execve(2), or has given up its memory because it is ending.

    Until exec has copied the arguments the address where they end is 0. There is one thread then; where there are more,
    only the first has ended. Without the right to see addresses a process of one thread is taken for such a one.
    """
    fields = line[line.rindex(b')') + 2 :].split(b' ')
    return fields[46] == b'0' and int(fields[17]) <= 1


def resident(statm: bytes) -> tuple[int, int]:
    """Return the resident bytes in ``/proc/PID/statm``, and how many of them belong to files and shared memory.

    A zombie has none.
    """
    _, pages, of_files, _ = statm.split(b' ', 3)
    return int(pages) * PAGE_SIZE, int(of_files) * PAGE_SIZE


def most_bytes_of(faults: int, huge_pages: int) -> int:
    """Return the most bytes that page faults can have brought: a page each, or one of the huge pages."""
    return faults * PAGE_SIZE + min(faults, huge_pages) * HUGE_PAGE


def has_reaped(line: bytes) -> bool:
    """Return whether the process has ever waited for a child: each child's page faults are added to its parent's."""
    fields = line[line.rindex(b')') + 2 :].split(b' ', 11)
    return fields[8] != b'0' or fields[10] != b'0'
