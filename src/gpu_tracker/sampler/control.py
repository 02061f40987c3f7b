"""What ends or interrupts the sampler's wait for its next sample: its tracker's word, or the end of a process."""

from __future__ import annotations

import os
import select

from gpu_tracker.processes import process_exists
from gpu_tracker.sampler.descriptors import open_process
from gpu_tracker.sampler.messages import (
    DISCARD_MESSAGE,
    FINISH_MESSAGE,
    LAUNCH_MESSAGE,
    LONGEST_EXIT_CODE,
    SECONDS_LENGTH,
    STOP_MESSAGE,
    exit_code_of_finish,
    seconds_of_stop,
)

STOP = 'stop'
"""The tracker asks for the last sample."""
LAUNCH = 'launch'
"""The tracker is about to let the command go."""
ABANDONED = 'abandoned'
"""The tracked program has lost its end of the pipe, or the program that started the tracker has ended."""
FINISH = 'finish'
"""The tracker has settled the totals."""
DISCARD = 'discard'
"""The tracker has nothing to track."""
TARGET_ENDED = 'target ended'
"""The tracked process has ended; its tracker has not said anything yet."""

_EVENTS = {STOP_MESSAGE: STOP, LAUNCH_MESSAGE: LAUNCH, FINISH_MESSAGE: FINISH, DISCARD_MESSAGE: DISCARD}
_LONGEST_WAIT = 0.5
"""Seconds between looks at processes of which the system does not report the end."""


class TrackerPipe:
    """Reads the tracker's messages.

    :ivar tracked_seconds: How long was tracked. Known after STOP.
    :ivar exit_code: How the command has ended. Known after FINISH.
    """

    def __init__(self, handle: int) -> None:
        self.tracked_seconds: float | None = None
        self.exit_code: int | None = None
        self._handle = handle

    def read_event(self) -> str:
        """Wait for the next message and return its event; ABANDONED at the end of the pipe."""
        event = _EVENTS.get(os.read(self._handle, 1), ABANDONED)
        if event == STOP:
            self.tracked_seconds = seconds_of_stop(os.read(self._handle, SECONDS_LENGTH))
        elif event == FINISH:
            self.exit_code = exit_code_of_finish(os.read(self._handle, LONGEST_EXIT_CODE))
        return event


class Control(TrackerPipe):
    """Waits for the next sample's time, or for a message or an end that comes before it.

    select(2) and not poll(2), whose milliseconds are too coarse; its limit of 1,024 is no matter for descriptors that
    are opened first.

    :param handle: The reading end of the pipe on which the tracker sends messages.
    :param owner: The process that started the tracker. The end of the pipe alone does not show its end: workers that it
        has forked hold their copies open.
    :param target: The process that is tracked.
    """

    def __init__(self, handle: int, owner: int, target: int) -> None:
        super().__init__(handle)
        self._owner = owner
        self._owner_handle = open_process(owner)
        self._is_child = os.getppid() == owner
        """Whether it shows in the parent's ID that the owner has ended (macOS)."""
        target_handle = open_process(target) if target != owner else None
        self._handles = [h for h in (handle, self._owner_handle, target_handle) if h is not None]

    def wait(self, seconds: float | None) -> str | None:
        """Return what happens within ``seconds`` (None: without end); None where nothing does."""
        if self._owner_handle is not None:
            return self._wait_once(seconds)
        left = seconds
        while True:
            step = _LONGEST_WAIT if left is None else min(left, _LONGEST_WAIT)
            event = self._wait_once(step)
            if event is not None or step == left:
                return event
            if left is not None:
                left -= step

    def _wait_once(self, seconds: float | None) -> str | None:
        ready = select.select(self._handles, (), (), seconds if seconds is None else max(0.0, seconds))[0]
        if not ready:
            return ABANDONED if self._owner_handle is None and self._owner_has_ended() else None
        if self._handle in ready:
            return self.read_event()
        if self._owner_handle in ready:
            return ABANDONED
        self._handles.remove(ready[0])  # the target has ended once and for all
        return TARGET_ENDED

    def _owner_has_ended(self) -> bool:
        """Return whether it has, where the system reports no ends: another process may have its ID by now."""
        if self._is_child:
            return os.getppid() != self._owner
        return not process_exists(self._owner)
