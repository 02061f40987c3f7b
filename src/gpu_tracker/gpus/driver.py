"""A driver of GPUs, opened and called in a thread of its own: a call into a driver that hangs cannot be interrupted."""

from __future__ import annotations

import threading
import time

from gpu_tracker.errors import GpuError
from gpu_tracker.vendors import title

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from gpu_tracker.gpus.backend import GpuBackend

    Question = Callable[[GpuBackend], object]

_SLOW = 5.0
"""Seconds after which it is reported that an answer is awaited."""
_CLOSING_TIMEOUT = 5.0
"""Seconds to wait for a driver that is closed."""


class Driver:
    """The driver of one vendor, opened by the first question. While it does not answer, it gets no other question.

    :param name: Its key in ``BACKENDS``.
    :param opener: Opens it; returns None if the machine has no such driver.
    :param charge: Takes the CPU seconds of each question, in the driver's thread.
    """

    backend: GpuBackend | None = None
    """None: not open."""

    def __init__(
        self, name: str, opener: Callable[[], GpuBackend | None], charge: Callable[[float], None] = lambda _: None
    ) -> None:
        self.name = name
        self._opener = opener
        self._charge = charge
        self._thread: threading.Thread | None = None
        self._question: Question | None = None
        self._result: object = None
        self._failure: BaseException | None = None
        self._is_due = threading.Lock()
        self._is_due.acquire()
        self._has_answered = threading.Lock()
        self._has_answered.acquire()
        self._is_awaited = False

    def ask(self, question: Question | None) -> None:
        """Put a question; ``answer`` is to follow.

        :param question: None: close the driver.
        :raises TimeoutError: An earlier question has no answer yet.
        :raises RuntimeError: No thread can be started.
        """
        if self._is_awaited and not self._has_answered.acquire(blocking=False):
            raise TimeoutError
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=f'gpus-{self.name}', daemon=True)
            thread.start()
            self._thread = thread
        self._question = question
        self._is_awaited = True
        self._is_due.release()

    def answer(self, timeout: float, report_delay: Callable[[], object] = lambda: None) -> Any:  # noqa: ANN401
        """Return what the question returns, None if there is no such driver; raise what it raises.

        :param timeout: Seconds to wait at most.
        :param report_delay: Called if the answer takes long.
        :raises TimeoutError: There is no answer by then.
        """
        if not self._has_answered.acquire(timeout=max(0.0, min(_SLOW, timeout))):
            report_delay()
            if not self._has_answered.acquire(timeout=max(0.0, timeout - _SLOW)):
                raise TimeoutError
        self._is_awaited = False
        result, failure = self._result, self._failure
        self._result = self._failure = None
        if failure is not None:
            raise failure
        return result

    def close(self, timeout: float = _CLOSING_TIMEOUT) -> None:
        """Let go of the driver; if it does not answer in time, only the end of this process does."""
        if self._thread is not None:
            try:
                self.ask(None)
                self.answer(timeout)
            except TimeoutError:
                pass

    def _run(self) -> None:
        is_open = True
        while is_open:
            self._is_due.acquire()
            before = time.thread_time()
            try:
                self._result, self._failure = self._answer_to(self._question), None
            except BaseException as error:  # noqa: BLE001 - raised anew in the thread that waits
                self._result, self._failure = None, error
            self._charge(time.thread_time() - before)
            if self.backend is None:
                is_open, self._thread = False, None
            self._has_answered.release()

    def _answer_to(self, question: Question | None) -> object:
        if question is None:
            backend, self.backend = self.backend, None
            if backend is not None:
                backend.close()
            return None
        if self.backend is None:
            self.backend = self._opener()
        return None if self.backend is None else question(self.backend)


def ask_all(
    drivers: Sequence[Driver],
    question: Question,
    timeout: float,
    report_delay: Callable[[], object] = lambda: None,
) -> tuple[dict[str, Any], dict[str, GpuError]]:
    """Ask drivers at the same time.

    :param timeout: Seconds to wait for all answers together.
    :param report_delay: Called for each driver that takes long to answer.
    :returns: The answers by name, None for a driver that is missing; and by name why the other drivers do not answer.
    """
    answers: dict[str, Any] = {}
    problems: dict[str, GpuError] = {}
    asked = []
    for driver in drivers:
        try:
            driver.ask(question)
            asked.append(driver)
        except TimeoutError:
            problems[driver.name] = _silence(driver, timeout)
    deadline = time.monotonic() + timeout
    for driver in asked:
        try:
            answers[driver.name] = driver.answer(deadline - time.monotonic(), report_delay)
        except TimeoutError:
            problems[driver.name] = _silence(driver, timeout)
        except GpuError as error:
            problems[driver.name] = error
    return answers, problems


def _silence(driver: Driver, timeout: float) -> GpuError:
    text = f'The driver of {title(driver.name)} GPUs has not answered for {timeout:g} seconds.'
    return GpuError(text, 'timeout')
