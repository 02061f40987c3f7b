"""A probe while it looks at a command or a process: it is shown live, ends in time, and its report is delivered."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import TYPE_CHECKING

from gpu_tracker.cli import output
from gpu_tracker.cli.probe_faces import face_of
from gpu_tracker.cli.probe_request import of_option
from gpu_tracker.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpu_tracker.cli.probe_request import ProbeRequest
    from gpu_tracker.cuda_probe.limits import Limits
    from gpu_tracker.cuda_probe.report import CudaReport
    from gpu_tracker.cuda_probe.session import Probe

    ProbeMaker = Callable[[Limits, Sequence[str], Sequence[str]], Probe]

COMPLETE = 'CUDA probing complete.'


def attached(request: ProbeRequest, process_id: int, make_probe: ProbeMaker | None) -> Probe:
    """Return a probe that looks at the process and all that it has started, and that is to be started.

    :raises GpuTrackerError: It cannot: the text says why.
    :raises ProcessLookupError: The process has ended.
    """
    try:
        probe = (make_probe or _ask_kernel)(request.limits, request.libraries, request.words)
        probe.open()
    except ParameterError as error:
        raise of_option(error) from error
    try:
        probe.follow(process_id)
    except BaseException:
        probe.close()
        raise
    return probe


def _ask_kernel(limits: Limits, libraries: Sequence[str], command: Sequence[str]) -> Probe:
    from gpu_tracker.cuda_probe.session import Probe  # noqa: PLC0415 - not where only help is wanted

    return Probe(limits, libraries, command)


class Probing:
    """Shows a probe's reports while it looks, and ends it: when told to, or after the time that was asked for.

    :param probe: Attached already; None: there is none.
    :param problem: Why there is no probe, in a sentence.
    """

    def __init__(self, request: ProbeRequest, probe: Probe | None, problem: str = '') -> None:
        self._request = request
        self._probe = probe
        self._problem = problem
        self._face = face_of(request)
        self._report: CudaReport | None = None
        self._is_finished = False
        self._is_closed = False
        self._is_delivered: bool | None = None
        self._told_to_end = threading.Event()
        self._thread: threading.Thread | None = None
        self.over, self._over_writer = os.pipe()
        """At its end, there to be read, when the looking has ended by itself."""
        self.live_code = 0
        """The exit code where live reports could not be printed, 0 where all went well."""

    def begin(self) -> None:
        """Begin to look."""
        if self._probe is None:
            return
        self._probe.start()
        if self._request.live or self._request.duration is not None:
            # In a thread of its own: whoever waits for the command must not wait for the reader of a report.
            self._thread = threading.Thread(target=self._look, name='probing')
            self._thread.start()

    def end(self) -> None:
        """End the looking, where that has not happened; the report is there to be delivered."""
        self._told_to_end.set()
        if self._thread is not None:
            self._thread.join()
        self._finish()

    def discard(self) -> None:
        """End the looking without a report: the command could not be started."""
        self._is_delivered = True
        self.end()
        self.close()
        self._request.destination.forget()

    @property
    def is_complete(self) -> bool:
        """Whether there is a report that has not been delivered."""
        return self._report is not None and self._is_delivered is None

    def deliver(self) -> bool:
        """Write the report where it is wanted, once; return whether all went well."""
        if self._is_delivered is None:
            self._is_delivered = self._written()
        return self._is_delivered

    def close(self) -> None:
        """Detach, once, which nobody who waits for the report has to wait for."""
        if self._probe is not None and not self._is_closed:
            self._is_closed = True
            with _told():
                self._probe.close()

    def _written(self) -> bool:
        if self._probe is None:
            return self._request.destination.write(self._face.problem(self._problem))
        if self._report is None:
            return False  # the reason has been told
        return self._request.destination.write(self._face.last(self._report))

    def _look(self) -> None:
        """Show reports at each point of a grid of time, and deliver the last one when the time is over."""
        with _told():
            self._look_until_end()
        os.close(self._over_writer)

    def _look_until_end(self) -> None:
        began = time.monotonic()
        end = began + (self._request.duration or float('inf'))
        following = began + self._request.interval if self._request.live else float('inf')
        while not self._told_to_end.wait(max(min(following, end) - time.monotonic(), 0)):
            now = time.monotonic()
            if now >= end:
                self._finish()
                output.say(COMPLETE)
                self.deliver()
                self.close()
                return
            if self._probe is not None and not self.live_code:
                self.live_code = self._face.show(self._probe.report())
            if self.live_code and self._request.process_id is not None:
                return  # nobody reads, and there is nothing else to do
            following = max(following + self._request.interval, now)

    def _finish(self) -> None:
        """Take the last report; print why where there is none."""
        if self._probe is None or self._is_finished:
            return
        self._is_finished = True
        self._face.clear()
        with _told():
            self._report = self._probe.finish()


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Tell what goes wrong, and go on: the command runs or has run, and its exit code must not be lost."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, as above
        output.complain(f'internal error: {type(error).__name__}: {error}')
