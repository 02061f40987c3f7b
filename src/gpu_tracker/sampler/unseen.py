"""Starts the sampler so that a program which adopts orphans does not notice it. Linux with glibc only.

PID 1 of a container and a subreaper adopt what :mod:`gpu_tracker.sampler.adopted` starts, and a loop that waits for all
children would wait for the sampler. The kernel hides a child without an exit signal from wait(2), and sends no SIGCHLD
for it, until it calls execve(2) or is adopted. So a *stub* stays between the program and the sampler. It shares the
program's memory, because a copy would slow down the program's writes. It runs no Python, only a list of C functions.
"""

from __future__ import annotations

import ctypes
import signal
from ctypes import c_char, c_char_p, c_int, c_long, c_size_t, c_ulong, c_void_p

from gpu_tracker.processes import SAMPLER_NAME
from gpu_tracker.real import os
from gpu_tracker.sampler.descriptors import is_readable, open_process, pipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

_WAIT_FOR_ALL = 0x40000000  # __WALL in linux/wait.h
_SHARE_MEMORY = 0x100  # CLONE_VM in linux/sched.h, and nothing else: no exit signal
_PR_SET_NAME = 15  # linux/prctl.h
_CLOSE_RANGE, _LAST = 436, 0xFFFFFFFF  # close_range(2), on all machines
_READ_WRITE, _PRIVATE_ANONYMOUS = 3, 0x22  # sys/mman.h
_SET_SIGDEF, _SET_SIGMASK, _SET_SESSION = 0x04, 0x08, 0x80  # POSIX_SPAWN_... in spawn.h
_IGNORE = 1  # SIG_IGN
_BLOCKED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP)
_ROOT = b'/'
_OPAQUE = 1024
"""Bytes for a value of one of the C library's own types: posix_spawnattr_t, the largest, has 336."""
_SLOT = 1 << 15
"""Bytes for a context, and the stack of its call."""
_STACK = 16 * _SLOT
_MEMORY = 2 * _STACK
"""Bytes for the stack of the thread that makes the stub, and for the stub's own stack and contexts."""
_LONGEST_END = 2.0


class Stub:
    """The process between the program and the sampler. It ends when the sampler has ended.

    :param memory: The address of its stack, which must stay until then.
    :ivar sampler: The pid of the sampler, which leads a process group.
    """

    def __init__(self, pid: int, memory: int, sampler: int) -> None:
        self.sampler = sampler
        self._pid = pid
        self._memory = memory
        self._handle = open_process(pid)

    def reap(self, seconds: float, wait_for: Callable[[int, int], None]) -> None:
        """Wait for its end, ``seconds`` at most, and reap it.

        :param wait_for: Reaps a process, given its ID and options of wait4(2).
        """
        if self._handle is not None:
            has_ended = is_readable(self._handle, seconds)
            os.close(self._handle)
            if not has_ended:
                return
        wait_for(self._pid, _WAIT_FOR_ALL)
        _unmap(self._memory)


def spawn_unseen(
    words: Sequence[str],
    environment: Mapping[str, str],
    actions: Sequence[tuple[Any, ...]],
    wait_for: Callable[[int, int], None],
) -> Stub | None:
    """Start the sampler below a stub, and return that; None if it cannot be done here.

    :param actions: The file actions of :func:`os.posix_spawn`.
    :param wait_for: See :meth:`Stub.reap`.
    """
    libc = ctypes.CDLL(None)
    if not hasattr(libc, 'makecontext'):  # musl
        return None
    if libc.syscall(_CLOSE_RANGE, c_ulong(_LAST), c_ulong(_LAST), 0) != 0:
        return None  # before Linux 5.9, or forbidden: the stub would keep files of the program open
    libc.mmap.restype = c_void_p
    memory = libc.mmap(None, c_size_t(_MEMORY), _READ_WRITE, _PRIVATE_ANONYMOUS, -1, c_long(0))
    if memory == c_void_p(-1).value:
        return None
    sampler = c_int()
    spawning = (
        ctypes.byref(sampler),
        os.fsencode(words[0]),
        _file_actions(libc, actions),
        _attributes(libc),
        _texts(words),
        _texts([f'{name}={value}' for name, value in environment.items()]),
    )
    reading, writing = pipe()
    # The stub inherits the mask. Without it, a signal would run the program's handlers in the stub.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        calls = _contexts(
            libc,
            memory + _STACK,
            (libc.signal, int(signal.SIGCHLD), _IGNORE),  # keeps the sampler's CPU time out of our children's
            (libc.posix_spawn, *spawning),
            (libc.chdir, _ROOT),
            (libc.syscall, _CLOSE_RANGE, 0, writing - 1, 0),
            (libc.syscall, _CLOSE_RANGE, writing + 1, _LAST, 0),
            (libc.write, writing, _ROOT, 1),
            (libc.close, writing),
            (libc.wait, None),
            (libc['_exit'], 0),
        )
        stub = _clone(libc, memory, calls, (reading, writing))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    if stub <= 0:
        _unmap(memory)
        return None
    started = Stub(stub, memory, sampler.value)
    if started.sampler:
        return started
    started.reap(_LONGEST_END, wait_for)
    return None


def _clone(libc: ctypes.CDLL, memory: int, calls: int, pipe_ends: tuple[int, int]) -> int:
    """Clone a stub that makes ``calls``, and return its pid when it has written into the pipe; 0 if that fails.

    A stub has its errno and the like in common with the thread that clones it. So that is a thread of its own, which
    waits meanwhile and ends. The memory, with its stack, stays. The stub inherits the thread's name, by which trackers
    know it. If it named itself, it would count as a descendant until then.
    """
    reading, writing = pipe_ends
    found = [0]

    def run(_: object) -> None:
        libc.prctl(_PR_SET_NAME, SAMPLER_NAME)
        found[0] = libc.clone(libc.setcontext, c_void_p(memory + _STACK + _SLOT), _SHARE_MEMORY, c_void_p(calls))
        os.close(writing)
        os.read(reading, 1)

    start_routine = ctypes.CFUNCTYPE(None, c_void_p)(run)
    attributes = ctypes.create_string_buffer(_OPAQUE)
    libc.pthread_attr_init(attributes)
    libc.pthread_attr_setstack(attributes, c_void_p(memory), c_size_t(_STACK))
    thread = c_ulong()
    if libc.pthread_create(ctypes.byref(thread), attributes, start_routine, None) == 0:
        libc.pthread_join(thread, None)
    else:
        os.close(writing)
    os.close(reading)
    return found[0]


class _Context(ctypes.Structure):
    """The first members of ucontext_t."""

    _fields_ = (
        ('flags', c_ulong),
        ('link', c_void_p),
        ('stack', c_void_p),
        ('stack_flags', c_int),
        ('stack_size', c_size_t),
    )


def _contexts(libc: ctypes.CDLL, place: int, *calls: tuple[Any, ...]) -> int:
    """Make contexts of ``calls`` at the address ``place``, each followed by the next; return the first one's address.

    The first slot there is left out: it is the stack on which the stub begins.

    :param calls: Functions with their arguments. The last one does not return.
    """
    following = None
    for number, (function, *arguments) in reversed(list(enumerate(calls, start=1))):
        address = place + number * _SLOT
        libc.getcontext(c_void_p(address))
        context = _Context.from_address(address)
        context.link, context.stack, context.stack_size = following, address + _SLOT // 2, _SLOT // 2
        pointers = [c_void_p(each) if isinstance(each, int) else each for each in arguments]
        libc.makecontext(c_void_p(address), function, len(pointers), *pointers)
        following = address
    return place + _SLOT


def _file_actions(libc: ctypes.CDLL, actions: Sequence[tuple[Any, ...]]) -> ctypes.Array[c_char]:
    made = ctypes.create_string_buffer(_OPAQUE)
    libc.posix_spawn_file_actions_init(made)
    for kind, handle, *others in actions:
        if kind == os.POSIX_SPAWN_OPEN:
            libc.posix_spawn_file_actions_addopen(made, handle, os.fsencode(others[0]), *others[1:])
        else:
            libc.posix_spawn_file_actions_adddup2(made, handle, *others)
    return made


def _attributes(libc: ctypes.CDLL) -> ctypes.Array[c_char]:
    """Return what makes a sampler: a session of its own, and no signal that would end it."""
    made, signals = ctypes.create_string_buffer(_OPAQUE), ctypes.create_string_buffer(_OPAQUE)
    libc.posix_spawnattr_init(made)
    libc.sigfillset(signals)
    libc.posix_spawnattr_setsigdefault(made, signals)
    libc.sigemptyset(signals)
    for number in _BLOCKED:
        libc.sigaddset(signals, number)
    libc.posix_spawnattr_setsigmask(made, signals)
    libc.posix_spawnattr_setflags(made, ctypes.c_short(_SET_SIGDEF | _SET_SIGMASK | _SET_SESSION))
    return made


def _texts(texts: Sequence[str]) -> ctypes.Array[c_char_p]:
    return (c_char_p * (len(texts) + 1))(*map(os.fsencode, texts))


def _unmap(memory: int) -> None:
    ctypes.CDLL(None).munmap(c_void_p(memory), c_size_t(_MEMORY))
