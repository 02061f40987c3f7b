"""What the part ``idle`` starts: stand-in devices, the monitor, and what it is compared with."""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import signal
import stat
import subprocess
import time
import uuid
from typing import TYPE_CHECKING

from benchmarks.processes import MARK, end, marked
from benchmarks.running import PROGRAMS, Workload, fresh_folder, output_of, started, wait_until_ready
from benchmarks.session import FailedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from benchmarks.environments import Environment

NOBODY = 65534
"""The user ID of nobody."""
_LOCAL = 120
"""A major device number that is kept for experiments: there is no driver, so nobody can hold such a device open."""
_MINORS = 1 << 16
_LONGEST_END = 20
"""Seconds that a monitor may take to end, its programs too."""


def make_device(path: Path, number: tuple[int, int] | None) -> None:
    """Make a device node that all may open; without root, which only may do that, a plain file.

    :param number: Of the device, major and minor; None: a plain file in any case.
    """
    if number is not None and os.geteuid() == 0:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(*number))
        path.chmod(0o666)  # whatever the umask
    else:
        path.touch()


def make_devices_of_nobody(folder: Path, count: int) -> list[str]:
    """Make ``nvidia0`` and so on, with numbers that no driver has, and return their paths."""
    first = secrets.randbelow(_MINORS) * count
    paths = [folder / f'nvidia{place}' for place in range(count)]
    for place, path in enumerate(paths):
        make_device(path, (_LOCAL, first + place))
    return [str(path) for path in paths]


def configuration(interval: float, commands: Sequence[Sequence[str]]) -> str:
    """Return a configuration file that runs each command on a GPU of its own, in order."""
    sections = [f'[defaults]\ninterval_seconds={interval:g}\n', '[gpu-all]\ngpus=ALL\n']
    for place, command in enumerate(commands):
        sections.append(f'[process-{place}]\ndir=/\ngpus={place}\nlog=/dev/null\ncmd={shlex.join(command)}\n')
    return '\n'.join(sections)


def with_mark(mark: str, *words: str) -> list[str]:
    """Return a command that runs ``words`` with a mark, by which :func:`marked` finds all its processes."""
    return ['/usr/bin/env', f'{MARK}={mark}', *words]


@contextlib.contextmanager
def monitor(
    environment: Environment,
    folder: Path,
    text: str,
    mark: str,
    variables: Mapping[str, str] | None = None,
    *,
    as_nobody: bool = False,
) -> Iterator[int]:
    """Run gpu-tracker's monitor, and yield its pid; at the end it is told to end, and killed where it does not.

    :param folder: Of the devices; the other files are put there too.
    :param text: The configuration.
    :param mark: Of the monitor, guardians and samplers.
    :param variables: More than those of the environment.
    :param as_nobody: Whether it is to run as the user nobody.
    """
    file = folder / 'idle.conf'
    file.write_text(text)
    options = [f'--config={file}', f'--devices={folder}', f'--socket={folder / "idle.sock"}']
    words = [environment.python, '-m', 'gpu_tracker', 'idle', *options]
    if as_nobody:
        os.chown(folder, NOBODY, -1)
        words = ['setpriv', f'--reuid={NOBODY}', '--clear-groups', *words]
    with started(words, folder, environment.variables(**variables or {}), mark) as process:
        try:
            yield process.pid
        finally:
            _end(process, folder)


@contextlib.contextmanager
def fuser_monitor(
    environment: Environment, folder: Path, interval: float, devices: Sequence[str], command: Sequence[str], mark: str
) -> Iterator[int]:
    """Run ``programs/fuser_monitor.py``, and yield its pid; at the end it is killed, and what it has started left."""
    words = [environment.python, '-I', str(PROGRAMS / 'fuser_monitor.py'), f'{interval:g}', *devices, '--', *command]
    with started(words, folder, environment.variables(), mark) as process:
        yield process.pid
        _still_runs(process, folder)


@contextlib.contextmanager
def other_processes(idle: int, working: int = 0, *, forks: int = 0) -> Iterator[None]:
    """Have processes that sleep, and some that do a little every 0.1 s; none descends from a monitor.

    :param forks: How many more are forked and end each second.
    """
    kinds = [('idle', idle), ('working', working), *([('forking', forks)] if forks else [])]
    with contextlib.ExitStack() as stack:
        for kind, number in kinds:
            folder = stack.enter_context(fresh_folder())
            ready = folder / 'ready'
            words = Workload('', kind, number).words(ready)
            command = stack.enter_context(started(words, folder, dict(os.environ), uuid.uuid4().hex))
            stack.callback(_terminate, wait_until_ready(ready, command, folder))
        yield


@contextlib.contextmanager
def nothing_left(mark: str) -> Iterator[None]:
    """Kill all that has a mark, at the end."""
    try:
        yield
    finally:
        while left := marked(mark):
            end(left)
            time.sleep(0.01)


def _terminate(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)


def _end(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Have the monitor stop its programs and end."""
    _still_runs(process, folder)
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_LONGEST_END)
    except subprocess.TimeoutExpired:
        raise FailedError(f'the monitor did not end within {_LONGEST_END} s') from None


def _still_runs(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Fail with a monitor's last words where it has ended."""
    if process.poll() is not None:
        said = output_of(folder).strip().splitlines() or ['nothing']
        raise FailedError(f'the monitor has ended with {process.returncode} and said: {said[-1]}')
