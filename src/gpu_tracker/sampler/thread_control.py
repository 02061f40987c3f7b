"""The same as :mod:`gpu_tracker.sampler.control`, where pipes cannot be polled (Windows)."""

from __future__ import annotations

import os
import queue
import threading

from gpu_tracker.sampler.control import ABANDONED, DISCARD, FINISH, LAUNCH, STOP
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

_EVENTS = {STOP_MESSAGE: STOP, LAUNCH_MESSAGE: LAUNCH, FINISH_MESSAGE: FINISH, DISCARD_MESSAGE: DISCARD}


class ThreadControl:
    """A thread reads the tracker's messages; the end of the pipe tells that the tracker's program has ended."""

    def __init__(self, handle: int) -> None:
        self.tracked_seconds: float | None = None
        self.exit_code: int | None = None
        self._handle = handle
        self._events: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._listen, name='control', daemon=True).start()

    def wait(self, seconds: float | None) -> str | None:
        """Return what happens within ``seconds`` (None: without end); None where nothing does."""
        try:
            return self._events.get(timeout=None if seconds is None else max(0.0, seconds))
        except queue.Empty:
            return None

    def _listen(self) -> None:
        while True:
            message = os.read(self._handle, 1)
            event = _EVENTS.get(message, ABANDONED)
            if event == STOP:
                self.tracked_seconds = seconds_of_stop(os.read(self._handle, SECONDS_LENGTH))
            if event == FINISH:
                self.exit_code = exit_code_of_finish(os.read(self._handle, LONGEST_EXIT_CODE))
            self._events.put(event)
            if event == ABANDONED:
                return
