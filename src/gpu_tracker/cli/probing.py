"""A running probe: its live reports, its end and its last report."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import TYPE_CHECKING

from gpu_tracker.cli import output, screen
from gpu_tracker.cli.probe_request import of_option
from gpu_tracker.cuda_probe.cuda_report import problem_json, report_json
from gpu_tracker.cuda_probe.report_text import problem_text, recent, report_text
from gpu_tracker.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpu_tracker.cli.probe_request import ProbeRequest
    from gpu_tracker.cuda_probe.cuda_report import CudaReport
    from gpu_tracker.cuda_probe.limits import Limits
    from gpu_tracker.cuda_probe.probe_session import Probe

    ProbeMaker = Callable[[Limits, Sequence[str], Sequence[str]], Probe]

COMPLETE = 'CUDA probing complete.'


def attached(request: ProbeRequest, process_id: int, make_probe: ProbeMaker | None) -> Probe:
    """Return a probe attached to the process and its descendants. It does not collect yet.

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
    from gpu_tracker.cuda_probe.probe_session import Probe  # noqa: PLC0415 - not where only help is wanted

    return Probe(limits, libraries, command)


class Probing:
    """Shows a probe's live reports, and ends it by :meth:`end` or after ``--duration``.

    :param probe: Attached already; None: there is none.
    :param problem: Why there is no probe, in a sentence.
    """

    def __init__(self, request: ProbeRequest, probe: Probe | None, problem: str = '') -> None:
        self._request = request
        self._probe = probe
        self._problem = problem
        self._view = JsonView(request) if request.as_json else TextView(request)
        self._report: CudaReport | None = None
        self._is_finished = False
        self._is_closed = False
        self._is_delivered: bool | None = None
        self._end_requested = threading.Event()
        self._thread: threading.Thread | None = None
        self.over, self._over_writer = os.pipe()
        """A pipe that is closed when the probing ended by itself."""
        self.live_code = 0
        """Exit code if live reports could not be printed, otherwise 0."""

    def begin(self) -> None:
        """Begin to collect and to show."""
        if self._probe is None:
            return
        self._probe.start()
        if self._request.live or self._request.duration is not None:
            # In a thread of its own: whoever waits for the command must not wait for the reader of a report.
            self._thread = threading.Thread(target=self._show_reports, name='probing')
            self._thread.start()

    def end(self) -> None:
        """End the probing, if it still runs. Afterwards the report can be delivered."""
        self._end_requested.set()
        if self._thread is not None:
            self._thread.join()
        self._finish()

    def discard(self) -> None:
        """End the probing without a report: the command could not be started."""
        self._is_delivered = True
        self.end()
        self.close()
        self._request.destination.forget()

    @property
    def is_complete(self) -> bool:
        """Whether there is a report that has not been delivered."""
        return self._report is not None and self._is_delivered is None

    def deliver(self) -> bool:
        """Write the report once; return whether that succeeded."""
        if self._is_delivered is None:
            self._is_delivered = self._written()
        return self._is_delivered

    def close(self) -> None:
        """Detach the probe once. This is after the report, because it takes time."""
        if self._probe is not None and not self._is_closed:
            self._is_closed = True
            with _failures_reported():
                self._probe.close()

    def _written(self) -> bool:
        if self._probe is None:
            return self._request.destination.write(self._view.problem(self._problem))
        if self._report is None:
            return False  # the reason has been reported
        return self._request.destination.write(self._view.last(self._report))

    def _show_reports(self) -> None:
        """Show a report at each interval, and deliver the last one at the end."""
        with _failures_reported():
            self._show_until_end()
        os.close(self._over_writer)

    def _show_until_end(self) -> None:
        began = time.monotonic()
        end = began + (self._request.duration or float('inf'))
        following = began + self._request.interval if self._request.live else float('inf')
        while not self._end_requested.wait(max(min(following, end) - time.monotonic(), 0)):
            now = time.monotonic()
            if now >= end:
                self._finish()
                output.say(COMPLETE)
                self.deliver()
                self.close()
                return
            if self._probe is not None and not self.live_code:
                self.live_code = self._view.show(self._probe.report())
            if self.live_code and self._request.process_id is not None:
                return  # nobody reads, and there is nothing else to do
            following = max(following + self._request.interval, now)

    def _finish(self) -> None:
        """Take the last report; print the reason if there is none."""
        if self._probe is None or self._is_finished:
            return
        self._is_finished = True
        self._view.clear()
        with _failures_reported():
            self._report = self._probe.finish()


@contextlib.contextmanager
def _failures_reported() -> Iterator[None]:
    """Report errors and go on, because the command's exit code must not be lost."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, as above
        output.complain(f'internal error: {type(error).__name__}: {error}')


class JsonView:
    """Reports as JSON objects; with ``--live`` on one line each."""

    def __init__(self, request: ProbeRequest) -> None:
        self._indent = None if request.live and not request.to_file else 2

    @staticmethod
    def show(report: CudaReport) -> int:
        """Print the report so far; return the exit code."""
        return output.print_text(f'{report_json(report, indent=None)}\n')

    def clear(self) -> None:
        """Do nothing. Printed reports stay."""

    def last(self, report: CudaReport) -> str:
        """Return the last report as text."""
        return report_json(report, indent=self._indent)

    def problem(self, problem: str) -> str:
        """Return the output for a run that could not be probed."""
        return problem_json(problem, indent=self._indent)


class TextView:
    """Reports as tables. On a terminal, each live table replaces the one before."""

    def __init__(self, request: ProbeRequest) -> None:
        self._top = request.top
        self._to_file = request.to_file
        self._place = screen.Place() if request.live and screen.can_go_back() else None
        self._before: CudaReport | None = None

    def show(self, report: CudaReport) -> int:
        """Print the report so far; return the exit code."""
        width = screen.width() if self._place is None else self._place.width()
        before, self._before = self._before, report
        latest = recent(before, report)
        seconds = None if latest is report or before is None else report.seconds - before.seconds
        text = report_text(latest, top=self._top, width=width, rates_of=seconds, footnotes=False)
        return output.print_text(f'{text}\n\n' if self._place is None else self._place.show(text))

    def clear(self) -> None:
        """Clear the live table, if the last report replaces it."""
        if self._place is not None and not self._to_file:
            output.print_text(self._place.show(''))

    def last(self, report: CudaReport) -> str:
        """Return the last report as text."""
        return report_text(report, top=self._top, width=None if self._to_file else screen.width())

    @staticmethod
    def problem(problem: str) -> str:
        """Return the output for a run that could not be probed."""
        return problem_text(problem)
