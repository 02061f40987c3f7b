"""A resource that is read in a thread of its own: reading it may take its time, may hang and may fail.

The thread publishes what it has read whole, by assignment, and the sampler's loop takes the latest without waiting.
"""

from __future__ import annotations

import marshal
import threading
import time
from collections import deque
from typing import NamedTuple

from gpu_tracker.errors import GpuTrackerError
from gpu_tracker.resources import Resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Protocol

    from gpu_tracker.resources import Message

    class Source(Protocol):
        """Measures something of the tracked processes."""

        def read(self, members: frozenset[int]) -> Mapping[str, object]:
            """Return all that is known so far, for the whole run: dicts, lists, texts, numbers and None.

            Values are in base units: bytes, seconds, counts. What it raises ends the readings, and the run goes on.

            :param members: The process IDs that are tracked now.
            """

        def close(self) -> None:
            """Let go of everything; called after a reading that failed. Else the end of the process does it."""

    OpenSource = Callable[['Target'], Source]
    """Makes a source, before a command that is to be tracked runs.

    Where it cannot, it raises GpuTrackerError with a whole sentence that names what is missing.
    """

_INTERVAL = 1.0
"""Seconds between two readings."""
_REST = 4
"""Readings that take long are followed by a pause that is so many times as long."""
_LARGEST = 1_900_000
"""Bytes of a reading: it has to find room in the sampler's store."""
_LONGEST_SILENCE = 2.0
"""Seconds after which a reading that has not ended is reported."""


class Target(NamedTuple):
    """What is tracked."""

    pid: int
    """The tracked process; where it is a command, it is still held back."""
    descendants: frozenset[int] = frozenset()
    """The process IDs of what it has started already."""
    command: tuple[str, ...] = ()
    """The words of a command that is held back; empty: the process runs already."""
    folder: str = ''
    """Where a command is started."""


class ThreadedReader:
    """Reads one source once a second.

    :param name: Of the source, and of the extra that installs what it needs.
    :param title: What is measured, as messages call it.
    :param check: Raises where a reading cannot be made a part of the result.
    :param monotonic: The clock, in seconds.
    :param has_extra: Whether there is an extra of that name.
    """

    def __init__(
        self,
        name: str,
        title: str,
        check: Callable[[Mapping[str, object]], object],
        monotonic: Callable[[], float] = time.monotonic,
        *,
        has_extra: bool = True,
    ) -> None:
        self._extra = name if has_extra else None
        self._title = title
        self._check = check
        self._monotonic = monotonic
        self._source: Source | None = None
        self._members: frozenset[int] = frozenset()
        self._published: dict[str, object] = {}
        self._messages: deque[Message] = deque()
        self._is_to_finish = threading.Event()
        self._is_finished = threading.Event()
        self._asked_at: float | None = None
        self._delay_is_reported = False
        self._first_pause = _INTERVAL
        self._thread = threading.Thread(target=self._run, name=f'{name}-reader', daemon=True)

    def open(self, open_source: OpenSource, target: Target, *, is_waited_for: bool = True) -> None:
        """Open the source and read it for the first time; where that fails, the result says why.

        :param is_waited_for: Read for the first time before this returns, else in the thread, where that may hang.
        """
        self._members = target.descendants | {target.pid}
        try:
            self._source = open_source(target)
        except Exception as error:  # noqa: BLE001 - whatever it is, the run goes on without
            self._fail(error)
        else:
            if is_waited_for:
                self._read()
            else:
                self._first_pause = 0.0
        source = self._source
        if source is not None:
            try:
                self._thread.start()
            except RuntimeError as error:  # a limit on processes, which counts threads
                self._source = None
                self._fail(error)
                _close(source)

    def follow(self, members: frozenset[int]) -> None:
        """Take note of which processes are tracked, from the next reading on."""
        self._members = members

    def request_last(self) -> None:
        """Ask for one last reading; return at once."""
        self._is_to_finish.set()

    def wait_for_last(self, timeout: float) -> None:
        """Wait for the last reading, which was asked for.

        :param timeout: Seconds to wait at most.
        """
        if self._thread.is_alive() and not self._is_finished.wait(timeout):
            self._report_delay('had not reported its last figures when the run ended; those before them are given')

    def result(self) -> dict[str, object]:
        """Return the last reading, with a ``problem`` where there is one. Never waits for it."""
        return self._published

    def take_messages(self) -> list[Message]:
        """Return the warnings that were not taken yet, one for each cause."""
        asked_at = self._asked_at
        if asked_at is not None and self._monotonic() - asked_at > _LONGEST_SILENCE:
            self._report_delay(f'has not answered for {_LONGEST_SILENCE:g} s; its figures are old until it does')
        messages = []
        while self._messages:
            messages.append(self._messages.popleft())
        return messages

    def _report_delay(self, what: str) -> None:
        if not self._delay_is_reported:
            self._delay_is_reported = True
            self._messages.append(('warning', f'What probes {self._title} {what}.'))

    def _run(self) -> None:
        is_last = False
        pause = self._first_pause
        while self._source is not None and not is_last:
            self._is_to_finish.wait(pause)
            is_last = self._is_to_finish.is_set()  # asked for before this reading begins, which is then the last
            begun = self._asked_at = self._monotonic()
            self._read()
            self._asked_at = None
            took = self._monotonic() - begun
            pause = max(_INTERVAL - took, _REST * took)
        self._is_finished.set()

    def _read(self) -> None:
        source = self._source
        if source is None:
            return
        try:
            found = dict(source.read(self._members))
            self._check(found)
            size = len(marshal.dumps(found))  # this fails where it is no plain data
            if size > _LARGEST:
                raise ValueError(f'the figures are too large: {size} bytes')  # noqa: TRY301 - as any other failure
            self._published = found
        except Exception as error:  # noqa: BLE001 - whatever it is, the run goes on without
            self._source = None
            self._fail(error)
            _close(source)

    def _fail(self, error: Exception) -> None:
        """Report what went wrong; what was known until then stays."""
        problem = problem_of(self._title, error, extra=self._extra)
        self._published = {**self._published, 'problem': problem}
        self._messages.append(('warning', problem))


class ThreadedResource(Resource):
    """The figures that the thread of a reader has published last.

    :param longest_end: Seconds that the end of a run waits for the last reading.
    """

    def __init__(self, reader: ThreadedReader, longest_end: float) -> None:
        self._reader = reader
        self._longest_end = longest_end

    def follow(self, main: int | None, descendants: frozenset[int]) -> None:
        """Hand the pids of the tree to the thread."""
        self._reader.follow(descendants if main is None else descendants | {main})

    def sample(self, now: float, kind: str) -> None:
        """Do nothing: the thread reads once a second."""

    def request_last(self) -> None:
        """Ask the thread for its last reading."""
        self._reader.request_last()

    def wait_for_last(self) -> None:
        """Wait for that reading."""
        self._reader.wait_for_last(self._longest_end)

    def totals(self) -> dict[str, object]:
        """Return the last reading, or why there is none."""
        return self._reader.result()

    def take_messages(self) -> list[Message]:
        """Return why there is nothing, or that a reading does not end."""
        return self._reader.take_messages()


def problem_of(title: str, error: Exception, *, extra: str | None) -> str:
    """Return in a sentence why something cannot be probed; what is raised as ours is such a sentence already.

    :param title: What cannot be probed.
    :param extra: The extra of the package that installs what is needed for that; None: nothing beside it is needed.
    """
    if isinstance(error, GpuTrackerError):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and extra is not None:
        from gpu_tracker.installation import install_command  # noqa: PLC0415 - the sampler does without

        return f'{title} cannot be probed: a package is missing ({error}): {install_command(extra)}'
    return f'{title} cannot be probed: {type(error).__name__}: {error}.'


def _close(source: Source) -> None:
    try:
        source.close()
    except Exception:  # noqa: BLE001, S110 - it has failed already, and that is reported
        pass
