"""Threads for an event loop that keep nobody from ending."""

from __future__ import annotations

import queue
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Parameters = ParamSpec('Parameters')
Result = TypeVar('Result')

MOST_THREADS = 16


class DaemonThreads(ThreadPoolExecutor):
    """What asyncio runs beside its loop, such as the look-up of a host's name.

    The interpreter waits at its end for the threads of the usual executor, and a look-up takes as long as a name server
    that is down makes it take. asyncio accepts no executor but a ThreadPoolExecutor; nothing of it is used here.
    """

    def __init__(self) -> None:
        super().__init__(1)  # starts no thread before it gets work, and gets none
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._started = 0
        self._free = 0
        self._counting = threading.Lock()

    def submit(
        self, function: Callable[Parameters, Result], /, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Future[Result]:
        """Have a thread call the function, and return what will have its result."""
        future: Future[Result] = Future()

        def job() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(function(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
                future.set_exception(error)

        with self._counting:
            if self._free:
                self._free -= 1
            elif self._started < MOST_THREADS:
                self._started += 1
                threading.Thread(target=self._work, daemon=True).start()
        self._jobs.put(job)
        return future

    def _work(self) -> None:
        while True:
            self._jobs.get()()
            with self._counting:
                self._free += 1
