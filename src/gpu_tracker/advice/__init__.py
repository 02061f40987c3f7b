"""What a result suggests for the next run: pure rules over the facts of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpu_tracker.advice.facts import RecordedFacts, facts_of
from gpu_tracker.advice.rules import advise
from gpu_tracker.errors import RecordingError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_tracker.recording.reading.recording import Recording
    from gpu_tracker.result.usage import Advice, ResourceUsage


def advice_of(
    usage: ResourceUsage,
    totals: Mapping[str, Any],
    exit_code: int | None,
    recorded: RecordedFacts = RecordedFacts(),  # noqa: B008 - it cannot be changed
) -> tuple[Advice, ...]:
    """Return what a result suggests.

    :param totals: The totals from which it was made.
    :param exit_code: The exit code of the command, -n if signal n has ended it; None: it is unknown.
    :param recorded: What the recording of the run adds, if there is one.
    """
    return advise(facts_of(usage, totals, exit_code, recorded))


def advice_in(recording: Recording) -> tuple[Advice, ...]:
    """Return what the run of a recording suggests; nothing if it has no result."""
    from gpu_tracker.advice.recorded import recorded_in  # noqa: PLC0415 - takes 10 ms, and most runs have no recording

    try:
        usage, recorded = recording.summary(), recorded_in(recording)
    except RecordingError:
        return ()  # readers of the recording report why
    return advice_of(usage, recording.meta.totals or {}, recording.meta.exit_code, recorded)
