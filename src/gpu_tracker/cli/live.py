"""``--live``: live view in the terminal. Output of the command to the terminal goes to a log file."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Self

from gpu_tracker.cli import output, screen
from gpu_tracker.system.files import write_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpu_tracker.cli.request import Request
    from gpu_tracker.views.live.viewer import BackgroundView

COMMIT_INTERVAL = 0.5
"""Seconds between two commits of the recording."""
_TERMINAL = '/dev/tty'
_TTY_NR = 4
"""Place of the controlling terminal's device number behind the name in /proc/PID/stat, proc(5)."""
_STREAMS = {output.STANDARD_OUTPUT: 'standard output', output.STANDARD_ERROR: 'standard error'}
_BLOCK = 1 << 20
_FOOTER = 'Ctrl-C reaches the command'
_FOOTER_OF_PROCESS = 'Ctrl-C ends the tracking; the process goes on'


class LiveView:
    """The view of one run. Its errors are reported and do not affect the run.

    :param path: The recording that is to be shown.
    :param handle: A descriptor of the terminal.
    :param log: Gets the terminal output of the command; None: there is none.
    """

    def __init__(self, path: str, handle: int, footer: str, log: OutputLog | None) -> None:
        self._path = path
        self._handle = handle
        self._footer = footer
        self._log = log
        self._view: BackgroundView | None = None
        self._problem: Exception | None = None

    def begin(self) -> None:
        """Begin to draw. The recording exists."""
        try:
            self._begin()
        except Exception as error:  # noqa: BLE001 (whatever it is, a command that runs is never abandoned)
            self._problem = error

    def _begin(self) -> None:
        from gpu_tracker.views.live.viewer import BackgroundView  # noqa: PLC0415 (when the command runs already)

        color = screen.shows_colors(self._handle)
        view = BackgroundView(self._path, self._handle, color=color, footer=self._footer)
        self._view = view

        if sys.platform != 'win32':

            def stop(*_: object) -> None:
                with view.terminal.left():
                    os.kill(os.getpid(), signal.SIGSTOP)

            if signal.getsignal(signal.SIGTSTP) == signal.SIG_DFL:
                signal.signal(signal.SIGTSTP, stop)
        view.begin()

    def end(self) -> None:
        """End the view. The last screen stays, and later output is visible."""
        problem = self._problem
        if self._view is not None:
            problem = self._view.end() or problem
        if self._log is not None:
            self._log.end()
        if problem is not None:
            output.complain(f'--live stopped because of an error: {type(problem).__name__}: {problem}')


class OutputLog:
    """A context manager that redirects terminal output of gpu-tracker and the command to a file.

    :param streams: Standard output, standard error or both.
    :ivar path: Its path.
    """

    def __init__(self, streams: Sequence[int]) -> None:
        name = f'gpu-tracker-{time.strftime("%Y%m%d-%H%M%S")}-{os.getpid()}.log'
        self.path = name
        try:
            self._handle = _new_file(self.path)
        except OSError:
            self.path = os.path.join(tempfile.gettempdir(), name)
            self._handle = _new_file(self.path)
        self._before = {stream: os.dup(stream) for stream in streams}
        self._has_ended = False

    def __enter__(self) -> Self:
        """Redirect the streams."""
        for stream in self._before:
            os.dup2(self._handle, stream)
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the streams. If the view did not begin, print what was written meanwhile."""
        if not self._has_ended:
            self._restore()
            os.lseek(self._handle, 0, os.SEEK_SET)
            with contextlib.suppress(OSError):  # the window was closed
                while block := os.read(self._handle, _BLOCK):
                    write_all(next(reversed(self._before)), block)
            os.unlink(self.path)
        os.close(self._handle)

    def end(self) -> None:
        """Restore the streams, and print the path of the file. An empty file is removed."""
        self._has_ended = True
        self._restore()
        if os.fstat(self._handle).st_size:
            output.complain(f'the output of the command is in {self.path}')
        else:
            os.unlink(self.path)

    def _restore(self) -> None:
        for stream, before in self._before.items():
            os.dup2(before, stream)
            os.close(before)


def _new_file(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)


def track(request: Request, follow: Callable[[Request, LiveView | None], int]) -> int:
    """Track the request with ``follow``, with a view if possible; return the exit code."""
    with contextlib.ExitStack() as stack:
        view: LiveView | None = None
        problem = _problem(request)
        if problem is None:
            try:
                request, view = _prepared(request, stack)
            except OSError as error:
                problem = output.reason(error)
        if problem is not None and not request.parameters.get('disable_logs'):
            output.complain(f'--live shows nothing: {problem}')
        return follow(request, view)


def _problem(request: Request) -> str | None:
    """Return why there can be no view; None if there can."""
    if request.parameters.get('tracking_file', '').endswith('.csv'):
        return f'it reads the recording, and {request.values.name("--tf")} names a CSV file'
    if 'job_folder' in request.parameters:
        return 'it reads the recording, which is in the folder of the job'
    return _problem_of_terminal() or _problem_of_output(request.process_id)


def _problem_of_terminal() -> str | None:
    """Return why the terminal cannot show a view; None if it can."""
    if sys.platform == 'win32':
        return 'it needs a terminal of Linux or another POSIX system'
    if os.environ.get('TERM') == 'dumb':
        return 'the terminal is a dumb one (TERM=dumb)'
    try:
        with _terminal() as handle:
            is_ours = os.tcgetpgrp(handle) == os.getpgrp()
    except OSError:
        return 'there is no terminal'
    return None if is_ours else 'the run is not in the foreground of its terminal'


def _problem_of_output(process_id: int | None) -> str | None:
    """Return why there can be no view, if the process writes to the terminal of the view."""
    writing = [name for number, name in _STREAMS.items() if _is_ours(f'/proc/{process_id}/fd/{number}')]
    if process_id is None or not writing:
        return None
    verb = 'is' if len(writing) == 1 else 'are'
    return (
        f'the {" and the ".join(writing)} of the process {verb} on this terminal: use gpu-tracker watch in another one'
    )


@contextlib.contextmanager
def _terminal() -> Iterator[int]:
    """Yield a descriptor of the controlling terminal. POSIX only."""
    if sys.platform == 'win32':
        raise NotImplementedError
    handle = os.open(_TERMINAL, os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        yield handle
    finally:
        os.close(handle)


def _is_controlling(handle: int) -> bool:
    """Return whether a descriptor is the controlling terminal."""
    if sys.platform == 'win32':
        return False
    try:
        os.tcgetpgrp(handle)
    except OSError:
        return False  # no terminal, or another one
    return True


def _is_ours(path: str) -> bool:
    """Return whether the file of another process is this terminal; False if unknown."""
    if sys.platform == 'win32':
        return False
    try:
        with open('/proc/self/stat', 'rb') as file:
            fields = file.read().rpartition(b')')[2].split()
        return os.stat(path).st_rdev == int(fields[_TTY_NR])
    except (OSError, ValueError):
        return False


def _prepared(request: Request, stack: contextlib.ExitStack) -> tuple[Request, LiveView]:
    """Return the request, with a recording in any case, and its view."""
    parameters = request.parameters
    path = parameters.get('tracking_file')
    if path is None:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix='gpu-tracker-', ignore_cleanup_errors=True))
        path = os.path.join(folder, 'recording.db')
        parameters = {**parameters, 'tracking_file': path, 'per_process': True}
    handle = stack.enter_context(_terminal())
    footer, log = _FOOTER_OF_PROCESS, None
    if request.process_id is None:
        footer = _FOOTER
        streams = [stream for stream in _STREAMS if _is_controlling(stream)]
        if streams:
            log = stack.enter_context(OutputLog(streams))
            footer = f'Output: {log.path}. {_FOOTER}'
    request = request._replace(parameters=parameters, commit_interval=COMMIT_INTERVAL)
    return request, LiveView(os.path.abspath(path), handle, footer, log)
