"""The figures of a recorded run by which people decide, and how much those of two runs differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker import figures
from gpu_tracker.errors import RecordingError

if TYPE_CHECKING:
    from gpu_tracker.recording.reading.recording import Recording

_PERCENT = 100
_FULLEST = 'gpus.max_ram.combined'
_LEAST_CHANGE = 0.05
"""In percent: smaller ones would be shown as none."""


class Tile(NamedTuple):
    """One tile of a page.

    :ivar title: What it is.
    :ivar value: In its base unit; None if it is not known.
    :ivar text: The value as people read it.
    :ivar note: What else there is to say of it; may be empty.
    """

    title: str
    value: float | None
    text: str
    note: str


def tiles_of(recording: Recording) -> list[Tile]:
    """Return the figures of a recording; none if it has no result."""
    try:
        usage = recording.summary()
    except RecordingError:
        return []
    found = []
    rows = list(figures.rows(usage))
    if figures.value(usage, _FULLEST) or figures.value(usage, 'max_gpu_ram.combined'):
        rows.sort(key=lambda row: (row[0].section != 'compute_time', 'gpu' not in row[0].section))
    for row, paths in rows:
        if row.note is not None:
            path = paths[-1]  # of all processes
            note = figures.fill(row.note, usage)
            if path == _FULLEST:
                lines = [f'{gpu}: {line}' for gpu, line in figures.lines_of_gpus(usage)]
                note = f'of {figures.text(usage, "gpus.capacity")}' if len(lines) > 1 else lines[0]
            found.append(Tile(row.label, figures.value(usage, path), figures.text(usage, path), note))
    return found


def difference(value: float | None, first: float | None) -> str:
    """Return by how much a value differs from the first one: ``+12.3 %``; empty if nobody can say."""
    if value is None or first is None:
        return ''
    if value == first:
        return '='
    if not first:
        return ''
    change = (value / first - 1) * _PERCENT
    if abs(change) < _LEAST_CHANGE:
        return '='
    return f'{change:+.1f} %' if abs(change) < 10 * _PERCENT else f'{value / first:.3g} times'
