"""A section of the result that another package measures, asked in a thread of its own: it delays and breaks nothing.

The thread publishes what the section tells whole, by assignment, and the sampler's loop takes the latest without
waiting for it.
"""

from __future__ import annotations

import marshal
import threading
import time
from collections import deque
from typing import NamedTuple

from gpu_tracker.resources.entry_points import TITLES, problem_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Protocol

    class Section(Protocol):
        """Measures something of the tracked processes that gpu-tracker itself does not."""

        def look(self, members: frozenset[int]) -> Mapping[str, object]:
            """Return all that is known so far, for the whole run: dicts, lists, texts, numbers and None.

            Values are in base units: bytes, seconds, counts. It may take its time, for it is called in a thread of its
            own; what it raises ends the section, and the run goes on.

            :param members: The process IDs that are tracked now.
            """

        def close(self) -> None:
            """Let go of everything; called after a look that failed. Else the end of the process does it."""

    OpenSection = Callable[['Target'], Section]
    """Makes a section, before a command that is to be tracked runs.

    Where it cannot, it raises GpuTrackerError with a whole sentence that names what is missing.
    """

_PACE = 1.0
"""Seconds between two looks."""
_REST = 4
"""Looks that take long are followed by a pause that is so many times as long."""
_LARGEST = 1_900_000
"""Bytes of what a section tells: it has to find room in the sampler's store."""
_PATIENCE = 2.0
"""Seconds after which a look that has not ended is told of."""


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


class SectionReader:
    """Looks at one section once a second.

    :param name: Under which the result has it, as ``{'problem': sentence}`` where it could not be opened.
    :param check: Raises where what it tells cannot be made a part of the result.
    :param monotonic: The clock, in seconds.
    """

    def __init__(
        self,
        name: str,
        check: Callable[[Mapping[str, object]], object],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._check = check
        self._monotonic = monotonic
        self._section: Section | None = None
        self._members: frozenset[int] = frozenset()
        self._published: dict[str, object] = {}
        self._messages: deque[tuple[str, str]] = deque()
        self._is_to_finish = threading.Event()
        self._is_finished = threading.Event()
        self._asked_at: float | None = None
        self._delay_is_told = False
        self._first_pause = _PACE
        self._thread = threading.Thread(target=self._run, name=f'section-{name}', daemon=True)

    def open(self, find: Callable[[], OpenSection], target: Target, *, is_waited_for: bool = True) -> None:
        """Open the section and look for the first time; where that fails, the result says why.

        :param find: Returns what opens it.
        :param is_waited_for: Look for the first time before this returns, else in the thread, where that may hang.
        """
        self._members = target.descendants | {target.pid}
        try:
            self._section = find()(target)
        except Exception as error:  # noqa: BLE001 - whatever it is, the run goes on without
            self._fail(error)
        else:
            if is_waited_for:
                self._look()
            else:
                self._first_pause = 0.0
        section = self._section
        if section is not None:
            try:
                self._thread.start()
            except RuntimeError as error:  # a limit on processes, which counts threads
                self._section = None
                self._fail(error)
                self._let_go(section)

    def members(self, members: frozenset[int]) -> None:
        """Say which processes are tracked, from the next look on."""
        self._members = members

    def finish(self, timeout: float) -> None:
        """Ask for one last look, and wait for it.

        :param timeout: Seconds to wait at most.
        """
        self._is_to_finish.set()
        if self._thread.is_alive() and not self._is_finished.wait(timeout) and timeout:
            self._tell_delay('had not told its last figures when the run ended; those before them are given')

    def result(self) -> dict[str, object]:
        """Return what the section has told last. Never waits for it."""
        return self._published

    def take_messages(self) -> list[tuple[str, str]]:
        """Return what is to be told and was not taken yet: ('warning', text), once for each cause."""
        asked_at = self._asked_at
        if asked_at is not None and self._monotonic() - asked_at > _PATIENCE:
            self._tell_delay(f'has not answered for {_PATIENCE:g} s; its figures are old until it does')
        messages = []
        while self._messages:
            messages.append(self._messages.popleft())
        return messages

    def _tell_delay(self, what: str) -> None:
        if not self._delay_is_told:
            self._delay_is_told = True
            self._messages.append(('warning', f'What probes {TITLES[self.name]} {what}.'))

    def _run(self) -> None:
        is_last = False
        pause = self._first_pause
        while self._section is not None and not is_last:
            self._is_to_finish.wait(pause)
            is_last = self._is_to_finish.is_set()  # asked for before this look begins, which is then the last
            begun = self._asked_at = self._monotonic()
            self._look()
            self._asked_at = None
            took = self._monotonic() - begun
            pause = max(_PACE - took, _REST * took)
        self._is_finished.set()

    def _look(self) -> None:
        section = self._section
        if section is None:
            return
        try:
            found = dict(section.look(self._members))
            self._check(found)
            size = len(marshal.dumps(found))  # this fails where it is no plain data
            if size > _LARGEST:
                raise ValueError(f'{size} bytes of figures are too many')  # noqa: TRY301 - as any other failure
            self._published = found
        except Exception as error:  # noqa: BLE001 - whatever it is, the run goes on without
            self._section = None
            self._fail(error)
            self._let_go(section)

    def _let_go(self, section: Section) -> None:
        try:
            section.close()
        except Exception:  # noqa: BLE001, S110 - it has failed already, and that is told
            pass

    def _fail(self, error: Exception) -> None:
        """Tell what went wrong; what was known until then stays."""
        problem = problem_of(self.name, error)
        self._published = {**self._published, 'problem': problem}
        self._messages.append(('warning', problem))
