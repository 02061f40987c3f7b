"""Calls that may hang for ever, made in threads of their own, and what is reported while they do not return.

A thread of these keeps nobody from ending. Nothing here imports asyncio or typing before it is needed: the sampler uses
it too.
"""

from __future__ import annotations

import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    Result = TypeVar('Result')

REPORT_INTERVAL = 60.0
"""Seconds between two lines on one matter: what comes and goes with each reading must not fill a log."""


class Call:
    """One call, begun at once.

    :param work: What is called.
    """

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._result: object = None
        self._failure: BaseException | None = None
        self._has_ended = threading.Event()  # Thread.is_alive() is wrong after Ctrl-C in Thread.join() up to 3.12
        threading.Thread(target=self._run, daemon=True).start()

    def has_ended(self, timeout: float) -> bool:
        """Return whether the call has ended, after ``timeout`` seconds at most."""
        return self._has_ended.wait(timeout)

    def result(self) -> object:
        """Return what the call, which has ended, has returned; raise what it has raised."""
        if self._failure is not None:
            raise self._failure
        return self._result

    def _run(self) -> None:
        try:
            self._result = self._work()
        except BaseException as error:  # noqa: BLE001 - raised anew in the thread that waits
            self._failure = error
        self._has_ended.set()


def call_in_time(work: Callable[[], Result], timeout: float) -> Result:
    """Return what a call returns that is made in a thread; raise what it raises.

    :param timeout: Seconds to wait at most.
    :raises TimeoutError: It has not ended by then.
    """
    call = Call(work)
    if not call.has_ended(timeout):
        raise TimeoutError
    return call.result()  # type: ignore[return-value] # it is that of work


async def in_thread(work: Callable[[], Result]) -> Result:
    """Return what a call returns that is made in a thread, beside an event loop."""
    import asyncio  # noqa: PLC0415 - who awaits this has it already

    loop = asyncio.get_running_loop()
    done: asyncio.Future[Result] = loop.create_future()

    def settle(result: Result | None, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type] # it is a result where there is no error

    def run() -> None:
        result, failure = None, None
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - raised anew where the result is awaited
            failure = error
        try:
            loop.call_soon_threadsafe(settle, result, failure)
        except RuntimeError:
            pass  # the loop is closed: nobody waits any more

    threading.Thread(target=run, daemon=True).start()
    return await done


class Poll:
    """Work that a thread does again and again.

    :param work: Called each time; returns the seconds until the next time, or None to end.
    :param name: The thread's.
    :param limit: Seconds after which work that has not returned is overdue.
    :param clock: Monotonic seconds.
    """

    def __init__(
        self,
        work: Callable[[], float | None],
        name: str,
        *,
        limit: float = float('inf'),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._work = work
        self._limit = limit
        self._clock = clock
        self._begun: float | None = None
        self._is_reported = False
        self._is_stopped = False
        self._woken = threading.Event()
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin; return at once.

        :raises RuntimeError: No thread can be started, as a limit on processes counts threads.
        """
        self._begun = self._clock()
        try:
            self._thread.start()
        except RuntimeError:
            self._begun = None
            raise

    def wake(self) -> None:
        """Have the work done at once; where it is being done, once more when that ends."""
        self._woken.set()

    def stop(self) -> None:
        """Have the work done no more; what is under way goes on by itself."""
        self._is_stopped = True
        self._woken.set()

    def has_ended(self, timeout: float) -> bool:
        """Return whether the thread is done, after ``timeout`` seconds at most.

        Those that the work under way has taken already count: one that is known to hang delays nothing.
        """
        return not self._thread.is_alive() or self._has_ended.wait(max(0.0, timeout - self.seconds_under_way))

    @property
    def seconds_under_way(self) -> float:
        """How long the work under way has taken so far."""
        begun = self._begun
        return 0.0 if begun is None else self._clock() - begun

    @property
    def is_overdue(self) -> bool:
        """Whether the work under way has taken longer than ``limit``."""
        return self.seconds_under_way > self._limit

    def report_once(self) -> bool:
        """Return whether a delay is still to be reported, which it then counts as."""
        was_reported, self._is_reported = self._is_reported, True
        return not was_reported

    def _run(self) -> None:
        try:
            while not self._is_stopped:
                self._begun = self._clock()
                pause = self._work()
                self._begun = None
                if pause is None:
                    return
                self._woken.wait(pause)
                self._woken.clear()
        finally:
            self._begun = None
            self._has_ended.set()


class Reported:
    """What has been reported already: a message once for each cause, as long as the cause lasts.

    :param report: Takes the messages.
    """

    def __init__(self, report: Callable[[Any], object]) -> None:
        self._report = report
        self._causes: set[object] = set()

    def once(self, cause: object, message: object) -> None:
        """Report a message, unless one was reported for this cause."""
        if cause not in self._causes:
            self._causes.add(cause)
            self._report(message)

    def keep(self, causes: set[object]) -> None:
        """Forget all causes but these: when one of the others comes back, it is reported again."""
        self._causes &= causes


class Changes:
    """The state of one thing that is read again and again, reported when it changes.

    A minute is between two lines at least. A change within this minute is reported after it, unless it has passed by
    then.

    :param report: Takes texts for people.
    :param over: Says that nothing is wrong any more.
    :param clock: Monotonic seconds.
    """

    def __init__(self, report: Callable[[str], None], over: str, clock: Callable[[], float]) -> None:
        self._report = report
        self._over = over
        self._clock = clock
        self._reported: str | None = None
        self._next = clock()

    def note(self, problem: str | None) -> None:
        """Take what is wrong now; None: nothing."""
        if problem != self._reported and self._clock() >= self._next:
            self._reported = problem
            self._next = self._clock() + REPORT_INTERVAL
            self._report(self._over if problem is None else problem)
