"""One sampling subprocess, seen from the process that started it."""

from __future__ import annotations

import signal
import sys

from gpu_tracker.errors import SamplerError
from gpu_tracker.real import os, time
from gpu_tracker.sampler import messages
from gpu_tracker.sampler.messages import DISCARD_MESSAGE, LAUNCH_MESSAGE, finish_message, stop_message
from gpu_tracker.sampler.spawn import LONGEST_START, OwnChildren, spawn
from gpu_tracker.sampler.store import LARGE_PLACE, PLACE, create_store

if sys.platform == 'linux':
    from gpu_tracker.real import fcntl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpu_tracker.sampler.kept_run import RunFile
    from gpu_tracker.totals import Configuration, Evidence, Message, Totals

_LONGEST_END = 2.0
"""Seconds to wait for the end of a sampler that is a child, which has nothing left to do."""
_LONGEST_STOPPED = 1.0
"""Seconds to wait for a sampler that was stopped by a signal, as of a job that is suspended and resumed."""
_KILLED = 'The sampler was ended from outside; the result is what it had measured until then.'
_STOPPED = 'The sampler was stopped by a signal, and ended; the result is what it had measured until then.'
_CLOSED = (
    'The program has closed descriptors of the tracker, as daemons do that close all, and with them the result. '
    'A resource_usage_file keeps it.'
)
_FAILED = 'The sampler has failed; the result is what it had measured until then. {}'
_UNFINISHED = 'The recording is incomplete: {}.'
_STUCK = 'The sampler has not answered for {:g} s and was ended; the result is what it had measured until then.'


class Session:
    """Starts a sampler; waits for it, stops it, and reads what it has measured.

    :param config: See :func:`gpu_tracker.sampler.spawn.spawn`.
    :raises SamplerError: where it cannot be started.
    """

    def __init__(self, config: Configuration) -> None:
        try:
            self._store, self._path = create_store(LARGE_PLACE if config['sections'] else PLACE)
            try:
                self._channels = spawn(config, self._store, self._path)
            except BaseException:
                self._close_store()
                raise
        except OSError as error:
            message = f'The sampler could not be started: {error}'
            raise SamplerError(message) from error
        self._files = {handle: _identity(handle) for handle in self._handles()}
        self.pid: int | None = None
        """That of the sampler, from when it is ready."""
        self._kept: RunFile | None = None
        self.kept_recording: str | None = None
        """The path of a recording that is kept; None: it cannot be."""
        self._is_child = False
        self._open = True
        self._watches_limits = bool(config['limits'])
        self._exceeded: tuple[str, float] | None = None
        self._waiting: Message | None = None
        self._has_ended = False
        self._was_stopped = False
        self._evidence: Evidence | None = None
        self.is_recording = False
        """Whether the sampler has stopped, and waits for :meth:`finish`."""
        self.refusal: str | None = None
        """The short name of the reason for which the sampler has refused to start."""

    def wait_until_ready(self, seconds: float = LONGEST_START) -> Message:
        """Wait for the first sample, ``seconds`` at most, and return the message of the sampler.

        :raises SamplerError: where it does not come; :attr:`refusal` says whether a parameter is the reason.
        """
        from gpu_tracker.sampler.kept_run import RunFile, recording_of  # noqa: PLC0415 - while the sampler starts

        seconds = min(seconds, self._channels.ready_by - time.monotonic())
        if not self._channels.is_readable(max(0.0, seconds)):
            self._kill()
            self._channels.is_readable(_LONGEST_END)
            message = 'The sampler was not ready in time, and was ended.'
            raise SamplerError(message)
        try:
            answer = messages.receive(self._channels.status)
        except EOFError as error:
            raise _failure('The sampler ended before its first sample', str(error)) from None
        self.pid = answer['pid']
        self._is_child = sys.platform == 'linux' and answer['parent'] == os.getpid()
        if 'error' in answer:
            self.refusal = answer['error']
            if answer['error'] == 'internal':
                raise _failure('The sampler has failed', answer['text'])
            raise SamplerError(answer['text'])
        if answer['kept'] is not None:
            self._kept = RunFile(answer['kept'])
            self.kept_recording = recording_of(answer['kept'])
        return answer

    def announce_launch(self) -> None:
        """Announce the start of the held command, and wait until the sampler watches."""
        if not self._send(LAUNCH_MESSAGE):
            return
        if not self._answers(LONGEST_START):
            self._kill()
        if self._channels.is_readable(_LONGEST_END):
            try:
                self._receive()
            except EOFError:
                pass  # stop() reports it

    def notify_by_signal(self) -> None:
        """Have SIGIO sent to this process when the sampler reports a limit that was exceeded, or ends (Linux).

        Both may have happened before: ask :meth:`exceeded` afterwards.
        """
        if sys.platform == 'linux':
            status = self._channels.status
            fcntl.fcntl(status, fcntl.F_SETOWN, os.getpid())
            fcntl.fcntl(status, fcntl.F_SETFL, fcntl.fcntl(status, fcntl.F_GETFL) | os.O_ASYNC)

    def exceeded(self) -> tuple[str, float] | None:
        """Return the limit that was exceeded, and by which amount, without waiting; None: none was so far.

        Where limits are watched only.
        """
        if self._waiting is None and not self._has_ended and self._channels.is_readable(0):
            try:
                answer = messages.receive(self._channels.status)
            except EOFError:
                self._has_ended = True
            else:
                if not self._takes(answer):
                    self._waiting = answer
        return self._exceeded

    @property
    def has_ended(self) -> bool:
        """Whether :meth:`exceeded` has found that the sampler has ended before it was asked to."""
        return self._has_ended or self._waiting is not None

    def stop(self, seconds: float, attempts: int, timeout: float) -> str | None:
        """Ask for the last sample after ``seconds``, and wait for it, ``attempts`` times ``timeout`` at most.

        Return what went wrong, as a text for the user, or None.

        :raises SamplerError: where the program has closed the descriptors, which may be other files now.
        """
        if self._has_lost_files():
            self._open = False
            raise SamplerError(_CLOSED)
        if not self._send(stop_message(seconds)):
            return self._last_word()
        if not self._answers(attempts * timeout):
            self._kill()
            return _STUCK.format(attempts * timeout)
        return self._last_word()

    def finish(self, totals: Totals, exit_code: int | None, timeout: float) -> str | None:
        """Hand the settled totals to a sampler that has stopped and keeps a recording; wait until that is complete.

        Return what went wrong, as a text for the user, or None.

        :param exit_code: Exit code of the command, if there was one.
        """
        try:
            self._store.replace(totals)
        except OSError as error:
            return _UNFINISHED.format(error.strerror)
        if not self._send(finish_message(exit_code)) or not self._answers(timeout):
            return _UNFINISHED.format('the sampler does not answer')
        try:
            answer = self._receive()
        except EOFError:
            return _UNFINISHED.format('the sampler was ended from outside')
        if 'done' not in answer:
            return _UNFINISHED.format(_last_line(answer['text']))
        return answer.get('unfinished')

    def discard(self, timeout: float) -> None:
        """Have the sampler remove what it has recorded, and wait until it has."""
        if self._open and self._send(DISCARD_MESSAGE):
            self._channels.is_readable(timeout)

    def _last_word(self) -> str | None:
        """Return what was wrong with a sampler that has ended, as a text for the user, or None."""
        try:
            answer = self._receive()
        except EOFError:
            return _STOPPED if self._was_stopped else _KILLED
        self.is_recording = answer.get('is_recording', False)
        self._evidence = answer.get('evidence')
        return None if 'done' in answer else _FAILED.format(_last_line(answer['text']))

    def _has_lost_files(self) -> bool:
        return any(_identity(handle) != identity for handle, identity in self._files.items())

    def published(self) -> Evidence | None:
        """Return what the sampler has written last, while the run goes on.

        :raises SamplerError: where the program has closed the descriptors.
        """
        if self._has_lost_files():
            raise SamplerError(_CLOSED)
        found: Evidence | None = self._store.read()
        return found

    def evidence(self) -> Evidence | None:
        """Return what the sampler has answered to the stop, or else has written last."""
        return self._evidence or (self._store.read() if self._open else None)

    def end(self) -> None:
        """Let go of everything; a sampler that still runs ends when it finds its pipe closed."""
        if not self._open:
            return
        self._open = False
        if self._kept is not None:
            self._kept.remove()  # first: a sampler that finds its pipe closed says what is in the file
        elif self.pid is None:
            self._send(DISCARD_MESSAGE)  # it was not waited for
        self._channels.close()
        self._channels.wait_for_child(_LONGEST_END)  # before its files are removed, which Windows refuses until then
        self._close_store()
        if self._is_child and self.pid is not None:
            OwnChildren.wait_for(self.pid)  # pid 1 of a container adopts it, where that is this process

    def _handles(self) -> tuple[int, ...]:
        return self._store.handle, self._channels.control, self._channels.status

    def _receive(self) -> Message:
        """Return the next message that is not one of a limit, which may be sent at any time.

        :raises EOFError: where none will come.
        """
        answer, self._waiting = self._waiting, None
        while answer is None or self._takes(answer):
            answer = messages.receive(self._channels.status)
        return answer

    def _takes(self, answer: Message) -> bool:
        """Take note of a limit that was exceeded; return False where the message is another."""
        if 'exceeded' not in answer:
            return False
        self._exceeded = (answer['exceeded'], answer['amount'])
        return True

    def _send(self, message: bytes) -> bool:
        """Send ``message`` and tell whether there is a sampler to receive it."""
        if self._watches_limits:
            self.exceeded()
        if self._waiting is not None or self._channels.is_readable(0):
            return False  # it has nothing to say before it is asked, so this is its end: writing would raise SIGPIPE
        try:
            os.write(self._channels.control, message)
        except BrokenPipeError:
            return False
        return True

    def _answers(self, seconds: float) -> bool:
        """Wait for an answer, and end a sampler that is stopped by a signal: its end is an answer too."""
        while seconds > 0:
            step = min(seconds, _LONGEST_STOPPED)
            if self._channels.is_readable(step):
                return True
            seconds -= step
            if self._is_stopped():
                self._was_stopped = True
                self._kill()
        return False

    def _is_stopped(self) -> bool:
        """Return whether a signal has stopped the sampler (Linux)."""
        try:
            handle = os.open(f'/proc/{self.pid}/stat', os.O_RDONLY)
        except OSError:
            return False
        try:
            return b') T ' in os.read(handle, 1 << 10)
        finally:
            os.close(handle)

    def _kill(self) -> None:
        """End a sampler that has not answered, stopped ones as well."""
        try:
            if sys.platform == 'win32':
                os.kill(self._channels.group, signal.SIGTERM)
            else:
                os.killpg(self._channels.group, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass  # it has ended by itself meanwhile; or the program has another user now

    def _close_store(self) -> None:
        self._store.close()
        if self._path is not None:
            try:
                os.unlink(self._path)
            except OSError:
                pass  # the sampler still has it open, on systems where that matters


def _failure(what: str, text: str) -> SamplerError:
    """Return an error with the reason in one line; the traceback that it stands in is a note for developers."""
    if not text:
        return SamplerError(f'{what}.')
    error = SamplerError(f'{what}: {_last_line(text)}')
    error.add_note(text)
    return error


def _last_line(text: str) -> str:
    return text.rstrip().rpartition('\n')[2]


def _identity(handle: int) -> tuple[int, int] | None:
    """Return what tells the file that a descriptor stands for; None where it is closed."""
    try:
        status = os.fstat(handle)
    except OSError:
        return None
    return status.st_dev, status.st_ino
