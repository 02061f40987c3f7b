"""Waits for the next sample or a message in systems whose pipes cannot be polled (Windows)."""

from __future__ import annotations

import queue
import threading

from gpu_tracker.sampler.control import ABANDONED, TrackerPipe


class ThreadControl(TrackerPipe):
    """Like :class:`gpu_tracker.sampler.control.Control`; a thread reads the tracker's messages."""

    def __init__(self, handle: int) -> None:
        super().__init__(handle)
        self._events: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._listen, name='control', daemon=True).start()

    def wait(self, seconds: float | None) -> str | None:
        """Return what happens within ``seconds`` (None: without end); None where nothing does."""
        try:
            return self._events.get(timeout=None if seconds is None else max(0.0, seconds))
        except queue.Empty:
            return None

    def _listen(self) -> None:
        event = ''
        while event != ABANDONED:
            event = self.read_event()
            self._events.put(event)
