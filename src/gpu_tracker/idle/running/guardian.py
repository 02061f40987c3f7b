"""The small process that keeps one program: starts it, measures it, and ends it with all its descendants.

It is started by :mod:`gpu_tracker.idle.running.running_program`, and imports little: there is one for each program.
"""

from __future__ import annotations

import _thread
import json
import os
import pwd
import shlex
import time

from gpu_tracker.gpus.process_ids import IDLE_GUARDIAN
from gpu_tracker.idle import wording
from gpu_tracker.idle.running import held_program
from gpu_tracker.idle.running.ending import ProgramProcesses, end_all
from gpu_tracker.idle.running.guardian_events import GuardianEvents
from gpu_tracker.idle.running.held_program import HeldProgram
from gpu_tracker.idle.running.measurement import Measurement
from gpu_tracker.idle.running.program_groups import make_group
from gpu_tracker.idle.running.program_orphans import VARIABLE
from gpu_tracker.idle.wording import line_at
from gpu_tracker.processes import descendants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gpu_tracker.idle.running.program_groups import ProgramGroup

_LONGEST_TRACKER_START = 15.0
"""Seconds after which the program is started whether it is measured or not."""
_MOST_OF_A_COMMAND = 80
"""Characters of a command in a line that follows the one with all of it."""
_LONGEST_OPENING = 15.0
"""Seconds in which it has to become its user, and to open its log."""


class _NotStartedError(Exception):
    """The program could not be started; the text says why."""


class _StoppedError(Exception):
    """The program was stopped before it was started; the text says why."""


def main(orders: dict[str, Any], control: int, status: int) -> None:
    """Keep a program to its end, and end this process.

    :param orders: See :func:`gpu_tracker.idle.running.running_program.orders_of`.
    :param control: From where further orders are read.
    :param status: The descriptor that messages are written to.
    """
    try:
        _prepare(control, status)
        _Guardian(orders, control, status).run()
    except BaseException as error:  # noqa: BLE001 - whatever it is, the monitor must hear of it: nobody else does
        end_all()
        _send(status, 'lost', reason=f'its guardian has failed: {type(error).__name__}: {error}')
        os._exit(1)
    os._exit(0)


class _Guardian:
    def __init__(self, orders: dict[str, Any], control: int, status: int) -> None:
        self._orders = orders
        self._control = control
        self._status = status
        self._events = GuardianEvents(control, orders['monitor'], orders['grace'])
        self._log = LogWriter()
        self._group: ProgramGroup | None = None
        self._words = shlex.join(orders['command'])
        is_long = len(self._words) > _MOST_OF_A_COMMAND
        self._short_words = f'{self._words[:_MOST_OF_A_COMMAND]}...' if is_long else self._words

    def run(self) -> None:
        """Keep the program to its end. The monitor is notified first of all: a log may not take what it gets."""
        try:
            program, measurement, started = self._start()
        except _NotStartedError as error:
            _send(self._status, 'not_started', reason=str(error))
            self._log.write(f'cannot start {self._short_words}: {error}')
            return
        except _StoppedError as error:
            _send(self._status, 'not_started', reason=str(error), stopped=True)
            self._log.write(f'stopped {self._short_words} before it was started: {error}')
            return
        _send(self._status, 'started', pid=program.pid, unmeasured=measurement.problem)
        processes = ProgramProcesses(
            program.pid, self._events, self._report_stuck, spares_samplers=measurement.is_late, group=self._group
        )
        processes.wait()
        seconds = time.monotonic() - started
        if self._group is not None:
            self._group.kill()  # for what is in it and no descendant, if there is anything
            self._group.remove()
        self._report_end(processes, measurement, seconds)

    def _start(self) -> tuple[HeldProgram, Measurement, float]:
        """Return the running program, what measures it, and when it was started.

        :raises _NotStartedError: It could not be started.
        :raises _StoppedError: It is not to be.
        """
        orders = self._orders
        user, environment = self._user_and_environment()
        program = HeldProgram(
            orders['command'],
            folder=orders['folder'],
            environment={**environment, **orders['mark']},
            user=user,
            log=orders['log'],
            private=(self._control, self._status),
        )
        try:
            return program, *self._start_held(program)
        except (_NotStartedError, _StoppedError):
            program.kill()  # and not waited for: it may be stuck in a file system that hangs
            if self._group is not None:
                self._group.remove()
            raise

    def _start_held(self, program: HeldProgram) -> tuple[Measurement, float]:
        orders = self._orders
        if not self._wait_for(program.ready_handle, _LONGEST_OPENING):
            raise _NotStartedError(held_program.not_ready_in_words(_LONGEST_OPENING, orders['user'], orders['log']))
        if not program.is_ready():
            raise self._failure_of(program) or _NotStartedError('the process was killed before the program started')
        self._log = LogWriter(program.log)
        measurement = Measurement(program.pid, program.exec_handle, orders['uuids'])
        if not self._wait_for(measurement.ready_handle, _LONGEST_TRACKER_START):
            measurement.give_up()
        descendants.become_subreaper()  # only now: the sampler is nobody's descendant, so that it is not ended as one
        self._log.write(f'starting {self._words} (pid {program.pid}) on {orders["gpus"]}{_because(orders["reason"])}')
        self._group = make_group(orders['mark'][VARIABLE], program.pid)
        started = time.monotonic()
        program.let_go()
        while not self._events.wait(None, program.exec_handle):
            if self._events.reason is not None:
                program.kill()
        failure = self._failure_of(program)
        if failure is not None:
            raise failure
        return measurement, started

    def _wait_for(self, handle: int, seconds: float) -> bool:
        """Return whether ``handle`` has become readable within so many seconds.

        :raises _StoppedError: The program is to be stopped.
        """
        give_up = time.monotonic() + seconds
        is_ready = False
        while self._events.reason is None and not is_ready and (left := give_up - time.monotonic()) > 0:
            is_ready = self._events.wait(left, handle)
        if self._events.reason is not None:
            raise _StoppedError(self._events.reason)
        return is_ready

    def _failure_of(self, program: HeldProgram) -> _NotStartedError | None:
        failure = program.failure()
        if failure is None:
            return None
        orders = self._orders
        command, folder, user, log = orders['command'][0], orders['folder'], orders['user'], orders['log']
        return _NotStartedError(held_program.in_words(*failure, command=command, folder=folder, user=user, log=log))

    def _user_and_environment(self) -> tuple[pwd.struct_passwd | None, dict[str, str]]:
        """Return whose the program will be, None for this process' user, and its variables."""
        name = self._orders['user']
        environment = self._orders['environment']
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
        return user, held_program.variables_for(user, environment, self._orders['configured'])

    def _report_end(self, processes: ProgramProcesses, measurement: Measurement, seconds: float) -> None:
        usage = measurement.stop(processes.exact, processes.orphans)
        cpu = (
            None
            if processes.exact is None
            else processes.exact.ru_utime + processes.exact.ru_stime + processes.orphans.cpu_seconds
        )
        usage['cpu_seconds'] = cpu
        result = None if processes.status is None else os.waitstatus_to_exitcode(processes.status)
        code = result if result is not None and result >= 0 else None
        number = -result if result is not None and result < 0 else None
        reason, left_behind = processes.reason, processes.left_behind
        _send(
            self._status,
            'ended',
            code=code,
            signal=number,
            seconds=seconds,
            reason=reason,
            usage=usage,
            left_behind=left_behind,
        )
        self._log.write(
            f'{"ended" if reason is None else "stopped"} {self._short_words} '
            f'after {wording.duration_in_words(seconds)}{_because(reason)}; '
            f'{wording.ending_in_words(code, number, left_behind)}; '
            f'{wording.usage_in_words(seconds, self._orders["gpu_count"], usage)}'
        )

    def _report_stuck(self, left: str) -> None:
        _send(self._status, 'stuck', left=left)
        self._log.write(f'still running after SIGKILL: {left}')


def _prepare(control: int, status: int) -> None:
    """Keep what is this process' own from the program, and hold on to nothing of the monitor's."""
    os.set_inheritable(control, False)  # noqa: FBT003 - it takes no keyword
    os.set_inheritable(status, False)  # noqa: FBT003 - as above
    os.close(0)  # the orders, until now
    os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # noqa: FBT003 - as above; it gets number 0, which is free
    for handle in (1, 2):
        try:
            os.fstat(handle)
        except OSError:
            os.dup2(0, handle)  # closed; nothing else must get its number
    os.chdir('/')
    try:
        with open('/proc/self/comm', 'wb', 0) as name_file:
            name_file.write(IDLE_GUARDIAN)
    except OSError:
        pass  # a name is a courtesy


def _send(status: int, event: str, **what: object) -> None:
    """Send the monitor a message, a line of JSON."""
    try:
        os.write(status, json.dumps({'event': event, **what}).encode() + b'\n')
    except OSError:
        pass  # it has ended: there is nobody to notify


def _because(reason: str | None) -> str:
    return f': {reason}' if reason else ''


_TIMEOUT = 1.0
"""Seconds for which a line is waited for."""


class LogWriter:
    """Writes each line in a thread: a log is opened to block, as programs expect it, and the program has it open too.

    A line is dropped while one before it is still not taken. What lines say goes to the monitor as well.

    :param handle: The open log; None: lines go nowhere.
    """

    def __init__(self, handle: int | None = None, timeout: float = _TIMEOUT) -> None:
        self._handle = handle
        self._timeout = timeout
        self._busy = _thread.allocate_lock()

    def write(self, text: str) -> None:
        """Append a line, and return when it is written, at the latest after some time."""
        if self._handle is None or not self._busy.acquire(blocking=False):
            return
        try:
            _thread.start_new_thread(self._write, (self._handle, line_at(time.time(), text).encode(errors='replace')))
        except RuntimeError:  # no thread is to be had: no program ends for its log's sake
            self._busy.release()
            return
        if self._busy.acquire(timeout=self._timeout):
            self._busy.release()

    def _write(self, handle: int, line: bytes) -> None:
        try:
            os.write(handle, line)
        except OSError:
            pass  # a full disk, or a reader that has gone: no program waits or ends for its log's sake
        finally:
            self._busy.release()
