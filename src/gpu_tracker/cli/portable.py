"""Tracks a command on systems without ``sigwaitinfo`` (macOS, Windows).

macOS holds the command back until the sampler is ready, as Linux does. On Windows the command runs already while the
sampler starts. Everything else is as in ``track_command``.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from gpu_tracker.cli import command_group, command_words, output, tracking
from gpu_tracker.cli.command_regions import CommandRegions
from gpu_tracker.errors import ParameterError
from gpu_tracker.limits import RunLimits
from gpu_tracker.running.enforcing import PortableEnforcement
from gpu_tracker.running.held_command import start_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_tracker.cli.live import LiveView
    from gpu_tracker.cli.request import Request
    from gpu_tracker.running.run import Run
    from gpu_tracker.totals import ProcessUse

_PAUSE = 0.02
"""Seconds between two polls of a command, if something else is awaited too."""
_PASSED_ON = ('SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2')


def track(request: Request, view: LiveView | None = None) -> int:
    """Start the command of ``request``, track it to its end, write the report, and return the exit code.

    :param view: Shows what it uses meanwhile.
    """
    tracking.check(request)  # while there is nothing to end yet
    command_group.warn_of_none(request)
    regions = CommandRegions(request)
    try:
        if sys.platform != 'win32':
            return _track_held(request, regions, view)
        return _track_started(request, regions, view)
    finally:
        regions.remove()


class PassedSignals:
    """Passes ending signals on to a command. Signals before its start wait for it.

    None is ignored, for the command would inherit that. The terminal sends Ctrl-C to the command as well.
    """

    def __init__(self) -> None:
        self._early: list[int] = []
        self._pass_on: Callable[[int], object] = self._early.append
        signal.signal(signal.SIGINT, lambda *_: None)
        for name in _PASSED_ON:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) != signal.SIG_IGN:  # under nohup, SIGHUP
                signal.signal(number, lambda received, _: self._pass_on(received))

    def to(self, send: Callable[[int], object]) -> None:
        """Pass each signal on with ``send`` from now on."""
        self._pass_on = send
        for number in self._early:
            send(number)


def start(words: list[str]) -> subprocess.Popen[bytes]:
    """Start a command. On Windows the shell gets one unquoted text.

    :raises OSError: It cannot be started.
    """
    if sys.platform == 'win32' and words[:-1] == command_words.shell():
        return subprocess.Popen(words[-1], shell=True)  # noqa: S602 - the user's own
    return subprocess.Popen(words)


def _track_held(request: Request, regions: CommandRegions, view: LiveView | None) -> int:
    """Track a command that is held until the sampler is ready."""
    from gpu_tracker.cli.track_command import run_or_none  # noqa: PLC0415 - as above
    from gpu_tracker.running.held_command import HeldCommand  # noqa: PLC0415 - not for Windows

    error = start_fault(request.words[0], os.get_exec_path())
    if error is not None:
        return output.not_started(request.words[0], error)
    with regions:
        command = HeldCommand(request.words)
    try:
        run = run_or_none(command, request, regions.path)
        signals = PassedSignals()
    except BaseException:
        command.cancel()
        request.destination.forget()
        raise
    error = command.release()
    if error is not None:
        os.waitpid(command.process_id, 0)
        if run is not None:
            run.discard()
        request.destination.forget()
        return output.not_started(request.words[0], error)
    signals.to(lambda number: _send(command.process_id, number))
    if run is not None:
        run.keep_files()
        if view is not None:
            view.begin()
    started = _StartedCommand(command.process_id)
    enforcement = PortableEnforcement(
        request.limits or RunLimits(), None if run is None else run.session, output.complain
    )
    code = enforcement.wait(started)
    if view is not None:
        view.end()
    used = started.used
    measured = run is not None and tracking.stop(run) and tracking.settle(run, used, None)
    return _report(request, run, code, enforcement.reason, measured=measured)


def _track_started(request: Request, regions: CommandRegions, view: LiveView | None) -> int:
    """Track a command that runs already while the sampler starts."""
    from gpu_tracker.running.command import TrackedCommand  # noqa: PLC0415 - when the command runs

    signals = PassedSignals()
    started_at = time.monotonic()
    try:
        with regions:
            command = start(request.words)
    except OSError as error:
        return output.not_started(request.words[0], error)
    signals.to(command.send_signal)
    tracked = TrackedCommand(request.words, regions=regions.path, started_at=started_at)
    run = tracking.new_run(request, command.pid, tracked)
    is_tracked = _start(run)
    if view is not None and is_tracked:
        view.begin()
    enforcement = PortableEnforcement(
        request.limits or RunLimits(), run.session if is_tracked else None, output.complain
    )
    code = enforcement.wait(command)
    if view is not None:
        view.end()
    measured = is_tracked and tracking.stop(run)
    return _report(request, run if is_tracked else None, code, enforcement.reason, measured=measured)


def _start(run: Run) -> bool:
    """Start ``run``; print the reason if that fails. The command already runs and goes on."""
    try:
        run.start()
        run.keep_files()
    except ParameterError as error:
        if error.parameter == 'process_id':
            output.complain('nothing was measured: the command ended before the sampler was ready')
        else:
            tracking.tell_unmeasured(error)
        return False
    except Exception as error:  # noqa: BLE001 (whatever it is, a command that runs is never abandoned)
        tracking.tell_unmeasured(error)
        return False
    return True


class _StartedCommand:
    """A released command, with the interface of subprocess.Popen.

    :ivar used: Resource use of the command and its reaped children, after its end.
    """

    def __init__(self, process_id: int) -> None:
        self.pid = process_id
        self._code: int | None = None
        self._used: ProcessUse | None = None

    @property
    def used(self) -> ProcessUse:
        """Resource use of the ended command and its reaped children."""
        if self._used is None:
            raise ChildProcessError
        return self._used

    def poll(self) -> int | None:
        """Return its exit code, -n if signal n ended it; None if it runs."""
        if sys.platform != 'win32' and self._code is None:
            pid, status, used = os.wait4(self.pid, os.WNOHANG)
            if pid:
                self._code, self._used = os.waitstatus_to_exitcode(status), used
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code when it has ended.

        :raises subprocess.TimeoutExpired: It still runs after so many seconds.
        """
        until = math.inf if timeout is None else time.monotonic() + timeout
        # Not in one call: a signal that comes just before it would not be passed on until the command has ended.
        while (code := self.poll()) is None:
            left = until - time.monotonic()
            if left <= 0:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            time.sleep(min(left, _PAUSE))
        return code


def _send(process_id: int, number: int) -> None:
    try:
        os.kill(process_id, number)
    except (ProcessLookupError, PermissionError):
        pass  # it has just ended, or runs as somebody else, as sudo does


def _report(
    request: Request,
    run: Run | None,
    code: int,
    termination_reason: str | None,
    *,
    measured: bool,
) -> int:
    """Report the end of the command and its use; return the exit code."""
    completed = f'Process completed with status code: {code}'
    if run is None:
        tracking.say(request, completed)
        delivered = False
    else:
        tracking.say(request, f'{tracking.COMPLETE} {completed}')
        if measured:
            tracking.finish(run, code, limits=request.limits, termination_reason=termination_reason)
        else:
            tracking.note_exit(run, code)
        delivered = measured and tracking.deliver(run, request, code)
    return tracking.exit_code(code, termination_reason, delivered=delivered)
