"""Tracks a command where a process can be neither forked and held nor waited for with its signals (Windows, macOS).

Its first instants pass before the tracker looks; everything else is as in ``track_command``.
"""

from __future__ import annotations

import signal
import subprocess
from typing import TYPE_CHECKING

from gpu_tracker.cli import output, tracking
from gpu_tracker.cli.command_regions import CommandRegions
from gpu_tracker.cli.portable_enforcing import PortableEnforcement
from gpu_tracker.limits import RunLimits

if TYPE_CHECKING:
    from gpu_tracker.cli.live import LiveView
    from gpu_tracker.cli.request import Request
    from gpu_tracker.command_tracker import ReportingTracker


def track(request: Request, view: LiveView | None = None) -> int:
    """Start the command of ``request``, track it to its end, write the report, and return the exit code.

    :param view: Shows what it uses meanwhile.
    """
    tracking.check(request)  # while there is nothing to end yet
    regions = CommandRegions(request)
    try:
        return _track(request, regions, view)
    finally:
        regions.remove()


def _track(request: Request, regions: CommandRegions, view: LiveView | None) -> int:
    """Track the command, which writes its regions to the log of ``regions``."""
    from gpu_tracker.command_tracker import ReportingTracker  # noqa: PLC0415

    # The terminal sends Ctrl-C to the command as well; a request to end comes to us alone. Both are handled before
    # there is a command, so that neither ends us beside it. Neither is ignored, for the command would inherit that.
    early: list[int] = []
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda number, _: early.append(number))
    try:
        with regions:
            command = subprocess.Popen(request.words)
    except OSError as error:
        return output.not_started(request.words[0], error)
    signal.signal(signal.SIGTERM, lambda number, _: command.send_signal(number))
    for number in early:
        command.send_signal(number)
    tracker = ReportingTracker(
        process_id=command.pid,
        report_file=request.destination.replaceable,
        report_format=request.format,
        warn=output.complain,
        configuration={
            'regions': regions.path,
            'recorded_command': request.words,
            'commit_interval': request.commit_interval,
            **({} if request.limits is None else {'limits': request.limits.sampled()}),
        },
        **request.parameters,
    )
    tracking_it = _start(tracker)
    if view is not None and tracking_it:
        view.begin()
    enforcement = PortableEnforcement(request.limits or RunLimits(), tracker if tracking_it else None)
    code = enforcement.wait(command)
    if view is not None:
        view.end()
    measured = tracking_it and tracking.stop(tracker)
    if measured:
        tracking.finish(tracker, code, enforcement.reason)
    elif tracking_it:
        tracking.note_exit(tracker, code)
    complete = f'{tracking.COMPLETE} ' if tracking_it else ''
    tracking.say(request, f'{complete}Process completed with status code: {code}')
    delivered = measured and tracking.deliver(tracker, request)
    return tracking.exit_code(code, enforcement.reason, delivered=delivered)


def _start(tracker: ReportingTracker) -> bool:
    """Start ``tracker``; print why where that fails, for the command runs already and goes on."""
    try:
        tracker.start()
        tracker.keep_file()
    except Exception as error:  # noqa: BLE001 (whatever it is, a command that runs is never abandoned)
        tracking.tell_unmeasured(error)
        return False
    return True
