"""Starts the sampler so that it is not a child of the measured program. Linux only.

A short-lived shell starts it in the background and ends, so that it is adopted by init: the program's own ``wait`` and
its children's times never see it. For a program that adopts it, see :mod:`gpu_tracker.sampler.unseen`.
"""

from __future__ import annotations

import signal
from posix import posix_spawn, waitid  # the kernel's own: gevent and eventlet put others in the place of those in os

from gpu_tracker.real import os
from gpu_tracker.sampler.descriptors import STATUS, copy_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from gpu_tracker.sampler.unseen import Stub

_IN_BACKGROUND = """trap '' INT TERM HUP QUIT TSTP; "$@" &"""
"""Signals are ignored from the start, and the sampler need not import a module for that, which costs it 3 ms."""
_BACKGROUND_WITHOUT_SHELL = """\
import os, signal, sys
for name in ('INT', 'TERM', 'HUP', 'QUIT', 'TSTP'):
    signal.signal(getattr(signal, 'SIG' + name), signal.SIG_IGN)
os.fork() or os.execv(sys.argv[1], sys.argv[1:])
"""
_SHELL = '/bin/sh'
_FIRST_FREE = 10
"""Above all numbers that the sampler's descriptors get, so that moving one never overwrites another."""
_ALL_SIGNALS = tuple(number for number in signal.valid_signals() if number not in (signal.SIGKILL, signal.SIGSTOP))
_ADOPTERS = {1}
"""The pids of processes that adopt samplers: PID 1, and this one if it was found to do so, as a subreaper does."""


def spawn_on_linux(
    words: Sequence[str],
    flags: Sequence[str],
    environment: Mapping[str, str],
    handles: Mapping[int, int | None],
    wait_for: Callable[..., None],
    *,
    reaps_orphans: bool,
) -> tuple[int, Stub | None]:
    """Start the sampler with ``handles`` as its descriptors.

    Return its process group, and its parent if that is a child of this process.

    :param words: The interpreter, and what it is given.
    :param flags: Of the interpreter, for the short-lived process where there is no shell.
    :param wait_for: Reaps a process of this ID, with options of wait4(2).
    :param reaps_orphans: Whether this process expects children that it has not started.
    """
    moved: list[int] = []
    try:
        actions: list[tuple[Any, ...]] = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
        for number, handle in handles.items():
            if handle is not None:
                moved.append(copy_from(handle, _FIRST_FREE))
                actions.append((os.POSIX_SPAWN_DUP2, moved[-1], number))
        actions.append((os.POSIX_SPAWN_DUP2, STATUS, 2))
        starting = (_in_background(words, flags), environment, actions, wait_for)
        if reaps_orphans or os.getpid() not in _ADOPTERS:
            group = _spawn_adopted(*starting, may_be_ours=reaps_orphans)
            if group is not None:
                return group, None
            _ADOPTERS.add(os.getpid())
        try:
            from gpu_tracker.sampler.unseen import spawn_unseen  # noqa: PLC0415 - ctypes costs 6 ms

            stub = spawn_unseen(words, environment, actions, wait_for)
        except ImportError:
            stub = None  # this interpreter has no ctypes
        return (_spawn_adopted(*starting) or 0, None) if stub is None else (stub.sampler, stub)
    finally:
        for handle in moved:
            os.close(handle)


def _in_background(words: Sequence[str], flags: Sequence[str]) -> list[str]:
    if os.access(_SHELL, os.X_OK):
        return [_SHELL, '-c', _IN_BACKGROUND, 'sh', *words]
    return [words[0], *flags, '-c', _BACKGROUND_WITHOUT_SHELL, *words]


def _spawn_adopted(
    words: list[str],
    environment: Mapping[str, str],
    actions: Sequence[tuple[Any, ...]],
    wait_for: Callable[..., None],
    *,
    may_be_ours: bool = True,
) -> int | None:
    """Start the sampler through a short-lived process, and reap that. Return the process group of both.

    Return None, with no sampler left, if this process has adopted it and ``may_be_ours`` is False. posix_spawn is
    vfork(2) and exec: the memory of this process is not copied, however large it is.
    """
    with _ChildSignalHeldBack():
        starter = posix_spawn(
            words[0],
            words,
            environment,
            file_actions=actions,
            setsid=True,
            setsigmask=(),
            setsigdef=_ALL_SIGNALS,
        )
        wait_for(starter)
        if may_be_ours or not _kill_child_in(starter):
            return starter
        wait_for(-starter)
        return None


def _kill_child_in(group: int) -> bool:
    """Kill the child of this process in the process group ``group``; return False if there is none."""
    try:
        waitid(os.P_PGID, group, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        os.killpg(group, signal.SIGKILL)
    except ChildProcessError:
        return False
    except ProcessLookupError:
        pass  # it has ended by itself, and another thread has waited for it
    return True


class _ChildSignalHeldBack:
    """Keeps SIGCHLD of the short-lived process from the program's handler.

    It stays pending in this thread and is taken away where it is that process'; another child's is given back. In a
    program with more threads another one may get it: a handler that then finds no child to wait for.
    """

    def __init__(self) -> None:
        self._mask: set[int] = set()
        self._was_pending = False

    def __enter__(self) -> None:
        self._mask = set(signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD}))
        self._was_pending = signal.SIGCHLD in signal.sigpending()

    def __exit__(self, *_: object) -> None:
        others = not self._was_pending and self._take()  # one that was pending before is another child's in any case
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        if others:
            os.kill(os.getpid(), signal.SIGCHLD)

    def _take(self) -> bool:
        """Take a pending SIGCHLD away, and tell whether a child has changed that the program should hear of."""
        if signal.sigtimedwait({signal.SIGCHLD}, 0) is None:
            return False
        try:
            everything = os.WEXITED | os.WSTOPPED | os.WCONTINUED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_ALL, 0, everything) is not None
        except ChildProcessError:
            return False
