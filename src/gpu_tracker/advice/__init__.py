"""What a result suggests for the next run: pure rules over the facts of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpu_tracker.advice.facts import RecordedFacts, facts_of
from gpu_tracker.advice.recorded import recorded_in
from gpu_tracker.advice.rules import advise
from gpu_tracker.advice.thresholds import Thresholds
from gpu_tracker.errors import RecordingError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_tracker.recording.reading.recording import Recording
    from gpu_tracker.result.usage import ResourceUsage


def with_advice(
    usage: ResourceUsage, totals: Mapping[str, Any], exit_code: int | None, recording: Recording | None = None
) -> ResourceUsage:
    """Return a result with what it suggests.

    :param totals: The totals from which it was made.
    :param exit_code: The exit code of the command; -n if signal n has ended it; None: it is unknown.
    :param recording: The recording of the run.
    """
    try:
        recorded = RecordedFacts() if recording is None else recorded_in(recording)
    except RecordingError:
        recorded = RecordedFacts()  # it is damaged, which is reported elsewhere
    return replace(usage, advice=advise(facts_of(usage, totals, exit_code, recorded), Thresholds()))
