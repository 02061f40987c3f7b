"""Probes a process that runs already, until it ends, the time is over, or a signal or a key ends the probing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.cli import FAILURE, output
from gpu_tracker.cli.keys import Keys
from gpu_tracker.cli.probing import COMPLETE, Probing, attached
from gpu_tracker.cli.running_process import Waiting, no_process, open_process

if TYPE_CHECKING:
    from gpu_tracker.cli.probe_request import ProbeRequest
    from gpu_tracker.cli.probing import ProbeMaker


def probe(request: ProbeRequest, process_id: int, make_probe: ProbeMaker | None) -> int:
    """Probe ``process_id``, write the report, and return the exit code."""
    try:
        handle = open_process(process_id, may_be_of_others=True)
        probing = Probing(request, attached(request, process_id, make_probe))
    except ProcessLookupError:
        request.destination.forget()
        raise no_process(process_id) from None
    except BaseException:
        request.destination.forget()
        raise
    try:
        waiting = Waiting(process_id, handle)
        probing.begin()
    except BaseException:
        probing.discard()
        raise
    with Keys(request.live) as keys:
        waiting.wait({probing.over: lambda: True, **keys.watched})
    probing.end()
    code = _deliver(probing, request)
    probing.close()
    return code


def _deliver(probing: Probing, request: ProbeRequest) -> int:
    """Write the report, and return the exit code."""
    if probing.live_code and not request.to_file:
        return probing.live_code  # nobody has read the reports before the last one either
    if probing.is_complete:
        output.say(COMPLETE)
    return probing.live_code if probing.deliver() else FAILURE
