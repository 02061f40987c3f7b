"""Runs gpu-tracker on Linux as if the machine ran macOS or Windows, as far as a program can be made to believe that.

Started as a program, this file is a Python interpreter in which gpu_tracker, and nothing else, sees another system:
``sys.platform`` is that system's, what Python has not there is not there, ``/proc`` and ``/sys`` are missing, and some
calls do what they do there. psutil is the one of Linux without what it does not know there. What is started through
``sys.executable``, as the sampler is, sees the same. Nothing of this is a run on the real system.

The names that are missing, in tests/data/other_systems, are those that typeshed has for Linux and not for that system,
with Python 3.11: those of os, select, signal, time, fcntl and resource, and the more usual ones of socket.
"""

from __future__ import annotations

import builtins
import errno
import fcntl
import os
import resource
import runpy
import select
import signal
import sys
import termios
import time
import types
from functools import wraps
from importlib import import_module
from pathlib import Path

import psutil

SYSTEMS = ('darwin', 'win32')
_NAMES = Path(__file__).parents[1] / 'data' / 'other_systems'
_NOT_ON_WINDOWS = ('fcntl', 'grp', 'posix', 'pty', 'pwd', 'resource', 'syslog', 'termios', 'tty')
_OF_LINUX = ('/proc', '/sys')
_O_BINARY = 1 << 29
_frame = sys._getframe


def interpreter(folder: Path, system: str) -> str:
    """Make an interpreter in ``folder`` that runs as on ``system``, and return its path."""
    path = folder / 'python3'
    path.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__)} {system} "$0" "$@"\n')
    path.chmod(0o755)
    return str(path)


def pretend(system: str) -> None:
    """Have gpu_tracker see another system in this process from now on; it must not be imported yet."""
    shown = {'sys': {'platform': system}, 'os': {'path': _path_without_linux(), **_functions_without_linux()}}
    builtins.open = _without_linux(builtins.open)
    if system == 'darwin':
        _change_for_macos(shown)
    else:
        _change_for_windows(shown)
    for line in (_NAMES / f'{system}.txt').read_text().replace('\n    ', ' ').splitlines():
        module, _, names = line.partition(': ')
        _show(module, shown.pop(module, {}), frozenset(names.split()))
    for module, changed in shown.items():
        _show(module, changed, frozenset())
    real = types.ModuleType('gpu_tracker.real')  # which copies what it finds, past what is shown
    vars(real).update({'os': os, 'time': time, **({} if system == 'win32' else {'fcntl': fcntl})})
    sys.modules[real.__name__] = real


def _is_own(frame) -> bool:
    return frame.f_globals.get('__name__', '').partition('.')[0] == 'gpu_tracker'


def _show(name: str, changed: dict[str, object], hidden: frozenset[str]) -> None:
    """Show gpu_tracker a module with ``changed`` and without ``hidden``."""

    class Shown(types.ModuleType):
        def __getattribute__(self, name):
            if (name in changed or name in hidden) and _is_own(_frame(1)):
                if name in changed:
                    return changed[name]
                raise AttributeError(f'there is no {name} on this system', name=name, obj=self)
            return super().__getattribute__(name)

    import_module(name).__class__ = Shown


def _without_linux(function):
    """Return a function of paths for which gpu_tracker finds nothing that only Linux has."""

    def call(path='.', *arguments, **options):
        if (
            isinstance(path, str | bytes | os.PathLike)
            and os.fsdecode(path).startswith(_OF_LINUX)
            and _is_own(_frame(1))
        ):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return function(path, *arguments, **options)

    return call


def _functions_without_linux() -> dict[str, object]:
    names = ('listdir', 'lstat', 'open', 'readlink', 'scandir', 'stat')
    return {name: _without_linux(getattr(os, name)) for name in names}


def _path_without_linux() -> types.SimpleNamespace:
    """Return os.path, for which nothing is there that only Linux has."""

    def asking(function):
        return lambda path: not os.fsdecode(path).startswith(_OF_LINUX) and function(path)

    names = ('exists', 'isdir', 'isfile', 'islink', 'lexists')
    return types.SimpleNamespace(**{**vars(os.path), **{name: asking(getattr(os.path, name)) for name in names}})


def _change_for_macos(shown: dict[str, dict[str, object]]) -> None:
    """Show sizes in bytes where Linux has KiB, and what psutil knows of a process there."""

    def in_bytes(used):
        values = list(used)
        values[2] *= 1024
        return resource.struct_rusage(values)

    getrusage, wait4, memory_info = resource.getrusage, os.wait4, psutil.Process.memory_info

    def wait4_in_bytes(pid, options):
        pid, status, used = wait4(pid, options)
        return pid, status, in_bytes(used)

    shown['resource'] = {'getrusage': lambda who: in_bytes(getrusage(who))}
    shown['os']['wait4'] = wait4_in_bytes
    _forget_children_times()
    del psutil.Process.io_counters

    @wraps(memory_info)
    def of_macos(self):
        found = memory_info(self)
        return types.SimpleNamespace(rss=found.rss, vms=found.vms, pfaults=1000, pageins=10)

    psutil.Process.memory_info = of_macos


def _forget_children_times() -> None:
    """Leave out what psutil knows on neither system: what the children had that a process has waited for."""
    cpu_times = psutil.Process.cpu_times

    @wraps(cpu_times)
    def without_children(self):
        return cpu_times(self)._replace(children_user=0.0, children_system=0.0)

    psutil.Process.cpu_times = without_children


def _change_for_windows(shown: dict[str, dict[str, object]]) -> None:
    """Show what Windows makes of signals, of files that are open, of ends of lines, and of pipes."""
    _forget_children_times()
    _hide_modules_of_posix()
    _forget_what_has_ended()
    shown['os'] |= {'name': 'nt', 'O_BINARY': _O_BINARY, 'kill': _kill, 'waitpid': _waitpid, 'rename': _rename}
    shown['os'] |= {name: _sparing_open_files(getattr(os, name)) for name in ('remove', 'replace', 'unlink')}
    shown['os'] |= _TextFiles(shown['os']['open']).functions
    shown['select'] = {'select': _select}


def _forget_what_has_ended() -> None:
    """Leave out processes that have ended and that nobody has waited for."""
    make, is_running = psutil.Process._init, psutil.Process.is_running

    def is_running_and_no_zombie(self):
        return is_running(self) and self._proc.status() != psutil.STATUS_ZOMBIE

    def make_no_zombie(self, pid, *arguments, **options):
        make(self, pid, *arguments, **options)
        if self.pid != os.getpid() and self._proc.status() == psutil.STATUS_ZOMBIE:
            raise psutil.NoSuchProcess(pid)

    psutil.Process._init, psutil.Process.is_running = make_no_zombie, is_running_and_no_zombie


def _hide_modules_of_posix() -> None:
    real = builtins.__import__
    own_modules = {
        '_winapi': types.SimpleNamespace(PeekNamedPipe=_peek),
        'msvcrt': types.SimpleNamespace(get_osfhandle=lambda descriptor: descriptor),
    }

    def import_(name, scope=None, *arguments, **options):
        own = (scope or {}).get('__name__', '').partition('.')[0] == 'gpu_tracker'
        if own and name in _NOT_ON_WINDOWS:
            raise ModuleNotFoundError(f'No module named {name!r}', name=name)
        if own and name in own_modules:
            return own_modules[name]
        return real(name, scope, *arguments, **options)

    builtins.__import__ = import_


def _peek(handle: int, size: int) -> tuple[int, int]:
    """Return how many bytes could be read from a pipe."""
    assert size == 0
    waiting = int.from_bytes(fcntl.ioctl(handle, termios.FIONREAD, bytes(4)), sys.byteorder)
    if not waiting and select.select([handle], [], [], 0)[0]:
        raise BrokenPipeError(errno.EPIPE, 'nobody has the other end open')
    return waiting, 0


def _kill(pid: int, number: int) -> None:
    """0 and 1 are events of consoles, and every other number ends the process at once."""
    assert number not in {0, 1}, 'no signal, but an event for all processes of a console'
    os.kill(pid, signal.SIGKILL)


def _waitpid(pid: int, options: int) -> None:
    raise AssertionError(f'waitpid({pid}, {options}) takes a handle of a process, and no ID')


def _select(*handles: object) -> None:
    raise OSError(errno.ENOTSOCK, 'only sockets can be waited for')


def _rename(source: str, target: str) -> None:
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
    _sparing_open_files(os.rename)(source, target)


def _sparing_open_files(function):
    """Return what fails on a file that a process has open."""

    def call(path, *arguments):
        for name in (path, *arguments):
            if os.path.exists(name) and _is_open(os.stat(name)):
                raise PermissionError(errno.EACCES, 'another process uses the file', name)
        return function(path, *arguments)

    return call


def _is_open(found: os.stat_result) -> bool:
    for pid in filter(str.isdecimal, os.listdir('/proc')):
        try:
            handles = os.listdir(f'/proc/{pid}/fd')
        except OSError:
            continue  # it has ended
        for handle in handles:
            try:
                if os.path.samestat(os.stat(f'/proc/{pid}/fd/{handle}'), found):
                    return True
            except OSError:
                continue  # it was closed
    return False


class _TextFiles:
    """Files that were opened without O_BINARY, the ends of whose lines are changed."""

    def __init__(self, open_file) -> None:
        self._open_file = open_file
        self._texts: set[int] = set()
        self.functions = {'open': self.open, 'read': self.read, 'write': self.write, 'close': self.close}

    def open(self, path, flags, *arguments, **options):
        handle = self._open_file(path, flags & ~_O_BINARY, *arguments, **options)
        (self._texts.discard if flags & _O_BINARY else self._texts.add)(handle)
        return handle

    def read(self, handle, length):
        data = os.read(handle, length)
        return data.partition(b'\x1a')[0].replace(b'\r\n', b'\n') if handle in self._texts else data

    def write(self, handle, data):
        if handle not in self._texts:
            return os.write(handle, data)
        os.write(handle, bytes(data).replace(b'\n', b'\r\n'))
        return len(data)

    def close(self, handle):
        self._texts.discard(handle)
        os.close(handle)


def main() -> None:
    """Run what a Python interpreter was given, on the system that is named first."""
    _, system, sys.executable, *arguments = sys.argv
    while arguments[0] in {'-P', '-s', '-S'}:
        arguments.pop(0)
    sys.path.pop(0)  # the folder of this file
    pretend(system)
    kind, *rest = arguments
    if kind == '-c':
        sys.argv = ['-c', *rest[1:]]
        exec(compile(rest[0], '<string>', 'exec'), {'__name__': '__main__', '__builtins__': builtins})  # noqa: S102
    elif kind == '-m':
        sys.argv = rest
        runpy.run_module(rest[0], run_name='__main__', alter_sys=True)
    else:
        sys.argv = arguments
        runpy.run_path(kind, run_name='__main__')


if __name__ == '__main__':
    main()
