"""Tracks a running process until it ends or a signal ends the tracking."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.cli import output, tracking
from gpu_tracker.cli.output import FAILURE
from gpu_tracker.cli.running_process import Waiting, end_of, open_process

if TYPE_CHECKING:
    from gpu_tracker.cli.live import LiveView
    from gpu_tracker.cli.request import Request


def track(request: Request, process_id: int, view: LiveView | None = None) -> int:
    """Watch ``process_id``, write the report, and return the exit code.

    :param view: Shows its use meanwhile.
    """
    tracking.check_format(request)
    handle = open_process(process_id)
    ended = end_of(process_id)
    if ended is not None and not request.parameters.get('disable_logs'):
        output.complain(ended)
    run = tracking.new_run(request, process_id, None)
    run.start()
    run.keep_files()
    run.notify_first()
    waiting = Waiting(process_id, handle)
    if view is None:
        waiting.wait()
    else:
        view.begin()
        waiting.wait()
        view.end()
    measured = tracking.stop(run)
    if measured:
        tracking.finish(run, None)
    tracking.say(request, tracking.COMPLETE)
    return 0 if measured and tracking.deliver(run, request, None) else FAILURE
