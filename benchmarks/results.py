"""The raw figures of a run: what was measured of which peer in which round, and why something is missing."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import re
    from pathlib import Path


@dataclass(frozen=True)
class Figure:
    """One value in base units (seconds, bytes, shares of 1).

    :ivar part: The part of the benchmark: ``cost``, ``latency``, ``scale``, ``effect``, ``gpu``, ``drm``,
        ``inventory``, ``atopgpud``, ``idle``, ``fleet``, ``cuda``, ``truth``, ``children``, ``children-cost`` or
        ``before``.
    :ivar row: The workload.
    :ivar peer: The peer's name, or in ``inventory`` the command, or the floor.
    :ivar kind: What was measured.
    :ivar round: The round, counted from 0.
    """

    part: str
    row: str
    peer: str
    kind: str
    round: int
    value: float


@dataclass(frozen=True)
class Gap:
    """A peer that has no figures of a workload, and why."""

    part: str
    row: str
    peer: str
    reason: str


@dataclass
class Results:
    """All figures of a run.

    :ivar machine: What they were measured on: one text a property.
    :ivar conditions: Of each part, when and how it was measured.
    :ivar versions: The version of each peer.
    :ivar truth: What the part ``truth`` has returned, without hard programs.
    """

    machine: dict[str, str] = field(default_factory=dict)
    conditions: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    figures: list[Figure] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    truth: list[dict[str, Any]] = field(default_factory=list)

    def add(self, part: str, row: str, peer: str, number: int, values: dict[str, float]) -> None:
        """Keep the figures of one round."""
        self.figures += [Figure(part, row, peer, kind, number, value) for kind, value in values.items()]

    def forget(self, part: str, rows: re.Pattern[str] | None = None) -> None:
        """Drop what is known of a part, which is about to be measured anew.

        :param rows: Only rows in whose names this is found are; what holds for all rows is dropped too.
        """

        def is_kept(known: Figure | Gap) -> bool:
            concerned = rows is None or known.row == 'all' or rows.search(known.row) is not None
            return known.part != part or not concerned

        self.figures = [figure for figure in self.figures if is_kept(figure)]
        self.gaps = [gap for gap in self.gaps if is_kept(gap)]
        if part == 'truth':
            self.truth = []

    def rows(self, part: str) -> list[str]:
        """Return the workloads of a part of which there are figures, in the order in which they were measured."""
        return list(dict.fromkeys([f.row for f in self.figures if f.part == part]))

    def peers(self, part: str, kind: str | None = None) -> list[str]:
        """Return who has figures of a part, in the order of the versions."""
        having = {f.peer for f in self.figures if f.part == part and kind in {None, f.kind}}
        return [*(name for name in self.versions if name in having), *sorted(having - set(self.versions))]

    def rounds(self, part: str, row: str, peer: str, kind: str) -> dict[int, float]:
        """Return the values by round."""
        return {f.round: f.value for f in self.figures if (f.part, f.row, f.peer, f.kind) == (part, row, peer, kind)}

    def save(self, path: Path) -> None:
        """Write them as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1) + '\n')

    @classmethod
    def load(cls, path: Path) -> Results:
        """Read what was saved."""
        saved = json.loads(path.read_text())
        return cls(
            machine=saved['machine'],
            conditions=saved['conditions'],
            versions=saved['versions'],
            figures=[Figure(**figure) for figure in saved['figures']],
            gaps=[Gap(**gap) for gap in saved['gaps']],
            truth=saved['truth'],
        )
