"""Writes the report, and lines on standard error."""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections import deque
from typing import TYPE_CHECKING

from gpu_tracker.errors import ParameterError, see
from gpu_tracker.system import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

STANDARD_OUTPUT = 1
STANDARD_ERROR = 2

_READER_GONE = 141
_NOT_EXECUTABLE = 126
NOT_FOUND = 127

_reserved: set[int] = set()

_WRITTEN_BY_ANOTHER = (
    'another gpu-tracker that is running writes it; put {rank} or {pid} into the path, such as usage-{pid}.json'
)

FAILURE = 125
"""The exit code of gpu-tracker's own failures."""


def reserve_closed_streams() -> None:
    """Open missing standard descriptors.

    Otherwise the next pipe or file that is opened gets such a number, and is written to as if it were standard output.
    The place holders are closed on exec, so that a tracked command finds its descriptors as the caller left them.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free number is always the one taken, open(2).
            _reserved.add(os.open(os.devnull, os.O_RDWR))


def complain(text: str) -> None:
    """Print ``gpu-tracker: text`` on standard error."""
    say(f'gpu-tracker: {text}')


def say(text: str) -> None:
    """Print a line on standard error."""
    try:
        files.write_all(STANDARD_ERROR, f'{text}\n'.encode(errors='surrogateescape'))
    except OSError:
        pass  # nobody reads standard error any more, and there is no other place to say so


def write_standard_output(text: str) -> None:
    """Write ``text`` to standard output.

    Unbuffered, so that a failure is an OSError here and not a traceback when the interpreter ends.
    """
    _write_standard_output(_encoded(text))


def _encoded(text: str) -> bytes:
    """Return a text as UTF-8, with ``>=`` for ``≥`` if standard output has another encoding."""
    encoding = 'utf-8' if sys.stdout is None else sys.stdout.encoding
    return (text if encoding == 'utf-8' else text.replace('≥ ', '>=')).encode(errors='surrogateescape')


def _write_standard_output(data: bytes) -> None:
    if STANDARD_OUTPUT in _reserved:
        raise OSError('it is closed')
    files.write_all(STANDARD_OUTPUT, data)


def print_text(text: str) -> int:
    """Print ``text``, such as the help, on standard output, and return the exit code.

    If its reader has gone, as ``head`` does, nothing is printed and the exit code is 141, a shell's for SIGPIPE.
    """
    return print_pieces([_encoded(text)])


def deliver(text: str, path: str | None) -> int:
    """Write ``text`` to the file ``path``, or print it if that is None, and return the exit code."""
    if path is None:
        return print_text(f'{text}\n')
    return 0 if Destination(path).write(text) else FAILURE


def print_pieces(pieces: Iterable[bytes]) -> int:
    """Print pieces of bytes, and return the exit code as :func:`print_text` does."""
    for piece in pieces:
        try:
            _write_standard_output(piece)
        except BrokenPipeError:
            return _READER_GONE
        except OSError as error:
            complain(f'cannot write to standard output: {reason(error)}')
            return FAILURE
    return 0


def not_started(program: str, error: OSError) -> int:
    """Print why a program could not be started, with a suggestion, and return a shell's exit code."""
    from gpu_tracker.cli import command_words  # noqa: PLC0415 - only for who has mistyped something

    advice = command_words.start_advice(program, error)
    if advice is not None:
        why = f'{advice} {see("not-started")}'
    else:
        is_misnamed = isinstance(error, FileNotFoundError | PermissionError)
        meant = command_words.meant(program, os.get_exec_path()) if is_misnamed else None
        why = reason(error) + (f': did you mean {meant}?' if meant else '')
    complain(f'cannot start {program!r}: {why}')
    return NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE


class Destination:
    """Where the report goes: standard output, or the file of ``--output``."""

    def __init__(self, path: str | None, *, appends: bool = False) -> None:
        """Take the ``path`` of ``--output``, or None for standard output.

        :param appends: Whether reports are lines of the table in that file, which several runs may write at once.
        """
        self.appends = appends
        # An empty path and one that ends in a slash can only be wrong, and a whole path would make them look right.
        self._path = path if not path or path.endswith('/') else _whole_path(path)
        self._made_for_us: str | None = None
        self._held: int | None = None

    def __del__(self) -> None:
        """Unlock the file."""
        if self._held is not None:
            os.close(self._held)

    def check(self, given: str | None) -> None:
        """Raise ParameterError if the report could not be written. An existing file does not change.

        :param given: The path as the user has written it.
        """
        fault = self._fault()
        if fault is not None:
            raise ParameterError('--output', given, f'a path that can be written ({fault})', see('cannot-write'))

    def _fault(self) -> str | None:
        """Return why the report could not be written, or None."""
        if self._path is None:
            return None
        try:
            files.check_writable(self._path)
            target = files.replaceable_file(self._path)
        except OSError as error:
            folder = os.path.dirname(self._path)
            return reason(error) if not folder or os.path.isdir(folder) else f'there is no folder {folder}'
        if self.appends:
            return self._table_fault()
        if target is not None:
            try:
                self._held = _hold(target)
            except FileExistsError:
                return _WRITTEN_BY_ANOTHER
            if not os.path.exists(target):
                self._made_for_us = target
        return 'it is closed' if files.own_descriptor(self._path) in _reserved else None

    def _table_fault(self) -> str | None:
        """Return why no line can be added to the table in the file."""
        from gpu_tracker.result import csv_table  # noqa: PLC0415 (for this alone)

        try:
            csv_table.check(self._path or '')
        except ValueError as error:
            return f'there is something that is no table of runs: {error}'
        return None

    @property
    def replaceable(self) -> str | None:
        """The path, if it can be replaced while the command runs: a missing or regular file. Otherwise None."""
        if self._path is None or files.replaceable_file(self._path) is None:
            return None
        return self._path

    def forget(self) -> None:
        """Remove a file made by this run, because nothing was tracked."""
        if self._made_for_us is not None:
            try:
                os.unlink(self._made_for_us)
            except FileNotFoundError:
                pass  # nothing had been written yet

    def write(self, report: str) -> bool:
        """Write ``report``, to standard output if the file fails; return whether the file was written."""
        report = f'{report.rstrip()}\n'
        if self._path is not None:
            try:
                self._write_file(self._path, report)
            except (OSError, ValueError) as error:
                complain(f'cannot write {self._path}: {reason(error) if isinstance(error, OSError) else error}')
                self._write_standard_output(report)
                return False
            return True
        return self._write_standard_output(report)

    def _write_file(self, path: str, report: str) -> None:
        if self.appends:
            from gpu_tracker.result import csv_table  # noqa: PLC0415 (as above)

            csv_table.append(path, report.rstrip('\n'))
        else:
            files.write_whole(path, report)

    def _write_standard_output(self, report: str) -> bool:
        try:
            write_standard_output(report)
        except OSError as error:
            complain(f'cannot write the report to standard output: {reason(error)}')
            return False
        return True


def _hold(path: str) -> int | None:
    """Return a descriptor that locks ``path`` while it is open; None if it cannot be locked.

    A lock on the file would be gone with it, since a rename puts another one in its place. The name of an abstract
    socket, unix(7), lies in no folder, and the kernel takes it back when this process ends, however it ends.

    :raises FileExistsError: where another process keeps it.
    """
    if sys.platform != 'linux':
        return None
    try:
        import _socket  # noqa: PLC0415 (the module socket costs ten times as much)
        from _blake2 import blake2b  # noqa: PLC0415 (hashlib brings OpenSSL, whose memory would be lent to the command)

        name = f'\0gpu-tracker-output-{blake2b(os.fsencode(path), digest_size=16).hexdigest()}'
        held = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
    except (ImportError, AttributeError, OSError):
        return None  # there is no descriptor left
    try:
        held.bind(name)
    except OSError as error:
        held.close()
        if error.errno == errno.EADDRINUSE:
            raise FileExistsError from error
        return None
    return held.detach()


def _whole_path(path: str) -> str:
    try:
        return os.path.abspath(path)
    except FileNotFoundError:
        return path  # the working folder was removed: the check says that it cannot be written


def reason(error: OSError) -> str:
    """Return the text of an OSError without number and path."""
    return error.strerror or str(error)


_MOST = 256
"""Lines that may wait."""


class PatientOutput:
    """Writes lines in a thread, so that a slow reader does not block the caller.

    Lines beyond `most` are counted, and the count is printed later.

    :param write: Writes a line, however long that takes.
    :param most: Lines that may wait.
    """

    def __init__(self, write: Callable[[str], None], most: int = _MOST) -> None:
        self._write = write
        self._most = most
        self._lines: deque[str] = deque()
        self._left_out = 0
        self._is_writing = False
        self._changed = threading.Condition()
        threading.Thread(target=self._work, daemon=True).start()

    def __call__(self, line: str) -> None:
        """Queue a line. Never blocks."""
        with self._changed:
            if len(self._lines) < self._most:
                self._lines.append(line)
            else:
                self._left_out += 1
            self._changed.notify_all()

    def flush(self, timeout: float) -> None:
        """Wait until all lines are written, at most this many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: not (self._lines or self._left_out or self._is_writing), timeout)

    def _work(self) -> None:
        while True:
            line = self._next()
            self._write(line)

    def _next(self) -> str:
        """Wait for a line, and return it."""
        with self._changed:
            self._is_writing = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._lines or self._left_out)
            self._is_writing = True
            if self._lines:
                return self._lines.popleft()
            left_out, self._left_out = self._left_out, 0
            return f'{left_out} messages were left out: nobody took them in time'
