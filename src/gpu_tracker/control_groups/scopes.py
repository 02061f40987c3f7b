"""A transient scope of systemd: a control group that its manager makes and delegates, also to ordinary users.

The manager is asked over D-Bus with ``busctl``, which comes with systemd, as ``systemd-run --scope -p Delegate=yes``
asks it: a user's own manager, or that of the machine where this is root. It removes a scope as soon as nothing is in it
any more, so a process of ours stays in it until the figures were read: systemd.scope(5), org.freedesktop.systemd1(5).
"""

from __future__ import annotations

import os
import re
import subprocess
import time

from gpu_tracker.control_groups import marks
from gpu_tracker.control_groups.delegation import Delegation
from gpu_tracker.control_groups.places import folder_of, folders_up, groups_of, mounts, text_in, unified_group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpu_tracker.control_groups.places import Group

_MANAGER = 'org.freedesktop.systemd1'
_TIMEOUT = 5.0
"""Seconds for the manager to answer, and to move the processes."""
_PAUSE = 0.01
_OF_SESSION = re.compile(
    r'/user\.slice/user-\d+\.slice/(session-[^/]+\.scope|user@\d+\.service(/.*)?/[^/]+\.(scope|slice))'
)
"""The groups of logins, and those that a desktop makes for its programs: what it starts elsewhere is a job or a
service, which must not lose a process."""
_NOWHERE = ('/', '/init.scope')
_OF_MANAGERS = re.compile(r'user(-\d+|@\d+)?\.(slice|service)')
_LIMITS = (('memory.max', 'memory'), ('memory.high', 'memory'), ('cpu.max', 'CPU time'))


def _run(words: Sequence[str]) -> tuple[int, str]:
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors='replace', check=False
        )
    except OSError as error:
        return 1, f'{words[0]}: {error.strerror}'
    return done.returncode, done.stderr


class NoScopeError(Exception):
    """There is no scope to be had; the text says why, as a part of a sentence."""


class Scope:
    """A scope with a process in it.

    :param pid: The process, which has been forked and does nothing yet.
    :param booted: A folder that is there where systemd is the machine's first process, sd_booted(3).
    :param run: Runs a program, and returns its exit code and what it has said.
    :raises NoScopeError: There is none to be had; the process is where it was.
    :ivar delegation: The scope, made ready for a group in it.
    """

    def __init__(
        self,
        pid: int,
        *,
        proc: str = '/proc',
        booted: str = '/run/systemd/system',
        run: Callable[[Sequence[str]], tuple[int, str]] = _run,
    ) -> None:
        if not os.path.isdir(booted):
            raise NoScopeError('systemd does not run here')
        _check_may_leave(proc)
        # It ends with this process too: its input does.
        self._keeper = subprocess.Popen(
            ['/bin/sh', '-c', 'read -r _'], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            name = f'{marks.own_name()}.scope'
            _start(name, (self._keeper.pid, pid), run)
            folder = _folder_when_moved(name, (self._keeper.pid, pid), proc)
            self.delegation = Delegation(folder, (self._keeper.pid, pid))
        except OSError as error:
            self._end_keeper()
            raise NoScopeError(f"systemd's scope cannot be used: {error.strerror}") from error
        except NoScopeError:
            self._end_keeper()
            raise

    def close(self) -> None:
        """Let the manager remove the scope; the groups in it are gone."""
        self._end_keeper()
        self.delegation.close(keeps_processes=False)

    def _end_keeper(self) -> None:
        self._keeper.kill()
        self._keeper.communicate()


def _check_may_leave(proc: str) -> None:
    """Check that a process of this one's group may go elsewhere: no limit that holds for it now must be lost.

    :raises NoScopeError: It may not.
    """
    try:
        group, mounted = unified_group(groups_of('self', proc)), mounts(proc)
    except OSError:
        group, mounted = None, []
    if group is None or not mounted:
        raise NoScopeError('no control group of version 2 is visible here')
    if group.path not in _NOWHERE and _OF_SESSION.fullmatch(group.path) is None:
        raise NoScopeError(
            f'the control group {group.path} may belong to a job or service, so gpu-tracker moves no process out of it'
        )
    for folder in folders_up(group, mounted):
        if _OF_MANAGERS.fullmatch(os.path.basename(folder)):
            return
        for name, limited in _LIMITS:
            if (text_in(folder, name) or 'max').split()[0] != 'max':
                raise NoScopeError(f'{folder} limits {limited}, and a new scope would not have this limit')


def _start(name: str, pids: Sequence[int], run: Callable[[Sequence[str]], tuple[int, str]]) -> None:
    """Have the manager make a scope and put processes into it."""
    properties = [
        *('Description', 's', 'A command that gpu-tracker measures'),
        *('PIDs', 'au', str(len(pids)), *map(str, pids)),
        *('Delegate', 'b', 'true'),
        *('CollectMode', 's', 'inactive-or-failed'),
    ]
    whose = '--system' if os.geteuid() == 0 else '--user'
    code, said = run([
        *('busctl', whose, '--quiet', f'--timeout={_TIMEOUT:.0f}', 'call', _MANAGER, '/org/freedesktop/systemd1'),
        *(f'{_MANAGER}.Manager', 'StartTransientUnit', 'ssa(sv)a(sa(sv))', name, 'fail', '4', *properties, '0'),
    ])  # fmt: skip
    if code != 0:
        whose = "the machine's systemd" if os.geteuid() == 0 else "systemd's user manager"
        raise NoScopeError(f'{whose} did not create a scope: {said.strip() or f"busctl has ended with {code}"}')


def _folder_when_moved(name: str, pids: Sequence[int], proc: str) -> str:
    """Return the folder of the scope, as soon as the processes are in it."""
    deadline = time.monotonic() + _TIMEOUT
    while True:
        groups = [_group_of(pid, proc) for pid in pids]
        first = groups[0]
        if first is not None and all(group is not None and group.path.endswith(f'/{name}') for group in groups):
            folder = folder_of(first, mounts(proc))
            if folder is None:
                raise NoScopeError('the control group of the new systemd scope is not mounted here')
            return folder
        if time.monotonic() > deadline:
            raise NoScopeError(f'systemd has not moved the command into {name} within {_TIMEOUT:.0f} s')
        time.sleep(_PAUSE)


def _group_of(pid: int, proc: str) -> Group | None:
    try:
        return unified_group(groups_of(pid, proc))
    except OSError:
        return None
