"""How ``gpu-tracker probe`` shows its reports: the last one as text or JSON, and those before it live."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.cli import output, screen
from gpu_tracker.cuda_probe.display.text import problem_text, recent, report_text
from gpu_tracker.cuda_probe.report import problem_json, report_json

if TYPE_CHECKING:
    from gpu_tracker.cli.probe_request import ProbeRequest
    from gpu_tracker.cuda_probe.report import CudaReport


def face_of(request: ProbeRequest) -> JsonFace | TextFace:
    """Return how the reports of ``request`` are shown."""
    return JsonFace(request) if request.as_json else TextFace(request)


class JsonFace:
    """Reports as JSON objects, on standard output beside live ones in one line."""

    def __init__(self, request: ProbeRequest) -> None:
        self._indent = None if request.live and not request.to_file else 2

    @staticmethod
    def show(report: CudaReport) -> int:
        """Print a report of what has happened until now; return an exit code, 0 where all went well."""
        return output.print_text(f'{report_json(report, indent=None)}\n')

    def clear(self) -> None:
        """Take nothing back: what was printed stays."""

    def last(self, report: CudaReport) -> str:
        """Return the last report as it is to be written."""
        return report_json(report, indent=self._indent)

    def problem(self, problem: str) -> str:
        """Return what is to be written where the probe could not look."""
        return problem_json(problem, indent=self._indent)


class TextFace:
    """Reports as tables; live ones, on a terminal, each in the place of the one before."""

    def __init__(self, request: ProbeRequest) -> None:
        self._top = request.top
        self._to_file = request.to_file
        self._place = screen.Place() if request.live and screen.can_go_back() else None
        self._before: CudaReport | None = None

    def show(self, report: CudaReport) -> int:
        """Print a report of what has happened until now; return an exit code, 0 where all went well."""
        width = screen.width() if self._place is None else self._place.width()
        before, self._before = self._before, report
        latest = recent(before, report)
        seconds = None if latest is report or before is None else report.seconds - before.seconds
        text = report_text(latest, top=self._top, width=width, rates_of=seconds, footnotes=False)
        return output.print_text(f'{text}\n\n' if self._place is None else self._place.show(text))

    def clear(self) -> None:
        """Make room for the last report, where it comes in the place of the live ones."""
        if self._place is not None and not self._to_file:
            output.print_text(self._place.show(''))

    def last(self, report: CudaReport) -> str:
        """Return the last report as it is to be written."""
        return report_text(report, top=self._top, width=None if self._to_file else screen.width())

    @staticmethod
    def problem(problem: str) -> str:
        """Return what is to be written where the probe could not look."""
        return problem_text(problem)
