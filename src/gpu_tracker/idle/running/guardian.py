"""The small process that keeps one program: starts it, measures it, and ends it with all its descendants.

It is started by :mod:`gpu_tracker.idle.running.running_program`, and imports little: there is one for each program.
"""

from __future__ import annotations

import json
import os
import pwd
import shlex
import time

from gpu_tracker.idle.running import kernel, program_log, start_failure
from gpu_tracker.idle.running.ending import Family, end_all
from gpu_tracker.idle.running.held_program import HeldProgram
from gpu_tracker.idle.running.measurement import Measurement
from gpu_tracker.idle.running.watch import Watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NAME = b'gput-guardian'
"""How ps and top call it: 15 characters at most."""
_LONGEST_TRACKER_START = 15.0
"""Seconds after which the program is started whether it is measured or not."""
_MOST_OF_A_COMMAND = 80
"""Characters of a command in a line that follows the one with all of it."""
_STOPPED_BEFORE = 'it was stopped before it was started: {}'


class _NotStartedError(Exception):
    """The program was not started; the text says why."""


def main(orders: dict[str, Any], control: int, status: int) -> None:
    """Keep a program to its end, and end this process.

    :param orders: See :func:`gpu_tracker.idle.running.running_program.orders_of`.
    :param control: From where further orders are read.
    :param status: Where is told what happens.
    """
    try:
        _prepare(control, status)
        _Guardian(orders, control, status).run()
    except BaseException as error:  # noqa: BLE001 - whatever it is, the monitor must hear of it: nobody else does
        end_all()
        _tell(status, 'lost', reason=f'its guardian has failed: {type(error).__name__}: {error}')
        os._exit(1)
    os._exit(0)


class _Guardian:
    def __init__(self, orders: dict[str, Any], control: int, status: int) -> None:
        self._orders = orders
        self._status = status
        self._watch = Watch(control, orders['monitor'], orders['grace'])
        self._log: int | None = None
        self._words = shlex.join(orders['command'])
        is_long = len(self._words) > _MOST_OF_A_COMMAND
        self._short_words = f'{self._words[:_MOST_OF_A_COMMAND]}...' if is_long else self._words

    def run(self) -> None:
        """Keep the program to its end."""
        try:
            self._log = _open_log(self._orders['log'])
            program, measurement, started = self._start()
        except _NotStartedError as error:
            self._write(f'cannot start {self._short_words}: {error}')
            _tell(self._status, 'not_started', reason=str(error))
            return
        _tell(self._status, 'started', pid=program.pid, unmeasured=measurement.problem)
        family = Family(program.pid, self._watch, self._tell_stuck)
        family.wait()
        seconds = time.monotonic() - started
        self._tell_end(family, measurement, seconds)

    def _start(self) -> tuple[HeldProgram, Measurement, float]:
        """Return the running program, what measures it, and when it was started.

        :raises _NotStartedError: It could not be started, or is not to be.
        """
        orders = self._orders
        user, environment = self._user_and_environment()
        program = HeldProgram(
            orders['command'], folder=orders['folder'], environment=environment, user=user, output=self._log
        )
        measurement = Measurement(program.pid, program.exec_handle, orders['uuids'])
        give_up = time.monotonic() + _LONGEST_TRACKER_START
        while self._watch.reason is None and (left := give_up - time.monotonic()) > 0:
            if self._watch.wait(left, measurement.ready_handle):
                break
        if self._watch.reason is not None:
            program.kill()
            os.waitpid(program.pid, 0)
            raise _NotStartedError(_STOPPED_BEFORE.format(self._watch.reason))
        kernel.become_subreaper()  # only now: the sampler is nobody's descendant, so that it is not ended as one
        self._write(f'starting {self._words} (pid {program.pid}) on {orders["gpus"]}{_because(orders["reason"])}')
        started = time.monotonic()
        program.let_go()
        while not self._watch.wait(None, program.exec_handle):
            if self._watch.reason is not None:
                program.kill()
        failure = program.failure()
        if failure is not None:
            os.waitpid(program.pid, 0)
            reason = start_failure.in_words(
                *failure, command=orders['command'][0], folder=orders['folder'], user=orders['user']
            )
            raise _NotStartedError(reason)
        return program, measurement, started

    def _user_and_environment(self) -> tuple[pwd.struct_passwd | None, dict[str, str]]:
        """Return whose the program will be, None for this process' user, and its variables."""
        name = self._orders['user']
        environment = dict(self._orders['environment'])
        if name is None:
            return None, environment
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            raise _NotStartedError(f'there is no user {name}') from None
        if os.geteuid() != 0:
            if user.pw_uid != os.geteuid():
                raise _NotStartedError(f'only root can run programs as another user, {name}')
            return None, environment
        own = {'HOME': user.pw_dir, 'SHELL': user.pw_shell, 'USER': user.pw_name, 'LOGNAME': user.pw_name}
        return user, {**environment, **own, **self._orders['own_environment']}

    def _tell_end(self, family: Family, measurement: Measurement, seconds: float) -> None:
        usage = measurement.stop(family.exact, family.orphans_seconds)
        cpu = None if family.exact is None else family.exact.ru_utime + family.exact.ru_stime + family.orphans_seconds
        usage['cpu_seconds'] = cpu
        usage['mean_cpu_percent'] = None if cpu is None or seconds <= 0 else 100 * cpu / seconds
        result = None if family.status is None else os.waitstatus_to_exitcode(family.status)
        code = result if result is not None and result >= 0 else None
        number = -result if result is not None and result < 0 else None
        self._write(
            f'{"ended" if family.reason is None else "stopped"} {self._short_words} '
            f'after {program_log.duration_in_words(seconds)}{_because(family.reason)}; '
            f'{program_log.ending_in_words(code, number)}; '
            f'{program_log.usage_in_words(seconds, self._orders["gpu_count"], usage)}'
        )
        _tell(self._status, 'ended', code=code, signal=number, seconds=seconds, reason=family.reason, usage=usage)

    def _tell_stuck(self, left: str) -> None:
        self._write(f'SIGKILL does not end {left}')
        _tell(self._status, 'stuck', left=left)

    def _write(self, text: str) -> None:
        program_log.write_line(self._log, text)


def _prepare(control: int, status: int) -> None:
    """Keep what is this process' own from the program, and hold on to nothing of the monitor's."""
    os.set_inheritable(control, False)  # noqa: FBT003 - it takes no keyword
    os.set_inheritable(status, False)  # noqa: FBT003 - as above
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(nowhere, 0)  # the orders, until now
    for handle in (1, 2):
        try:
            os.fstat(handle)
        except OSError:
            os.dup2(nowhere, handle)  # closed; the log must not get its number
    os.chdir('/')
    try:
        with open('/proc/self/comm', 'wb', 0) as name_file:
            name_file.write(_NAME)
    except OSError:
        pass  # a name is a courtesy


def _open_log(path: str | None) -> int | None:
    """Return the descriptor of the log, to the end of which everybody writes."""
    if path is None:
        return None
    try:
        # Without waiting for the reader of a FIFO; the program may wait when it writes.
        handle = os.open(
            path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK, 0o666
        )
    except OSError as error:
        raise _NotStartedError(f'its log {path} cannot be opened: {error.strerror}') from None
    os.set_blocking(handle, True)
    return handle


def _tell(status: int, event: str, **what: object) -> None:
    """Tell the monitor, in a line of JSON."""
    try:
        os.write(status, json.dumps({'event': event, **what}).encode() + b'\n')
    except OSError:
        pass  # it has ended: there is nobody to tell


def _because(reason: str | None) -> str:
    return f': {reason}' if reason else ''
