"""A log of regions that a test and its programs write to, read."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from gpu_tracker.recording.writing.region_lines import Begin, End, Fold, parse
from gpu_tracker.regions import log

if TYPE_CHECKING:
    from collections.abc import Iterator


class RegionLog:
    """The log at ``path``, and what its lines say so far."""

    def __init__(self, path: str) -> None:
        self.path = path

    @property
    def lines(self) -> list[bytes]:
        with open(self.path, 'rb') as file:
            return file.readlines()

    @property
    def parsed(self) -> list[Begin | End | Fold]:
        parsed = [parse(line) for line in self.lines]
        assert None not in parsed, [line for line in self.lines if parse(line) is None]
        return parsed

    @property
    def begins(self) -> list[Begin]:
        return [line for line in self.parsed if isinstance(line, Begin)]

    @property
    def ends(self) -> dict[int, End]:
        found = [line for line in self.parsed if isinstance(line, End)]
        ends = {line.id: line for line in found}
        assert len(ends) == len(found), 'a region has ended twice'
        return ends

    @property
    def folds(self) -> list[Fold]:
        return [line for line in self.parsed if isinstance(line, Fold)]

    def begin(self, name: str) -> Begin:
        """Return the only region of the name."""
        (found,) = [line for line in self.begins if line.name == name]
        return found

    def end(self, name: str) -> End:
        return self.ends[self.begin(name).id]

    @property
    def parents(self) -> list[tuple[str, str | None]]:
        """The names of all regions in order, each with that of its parent."""
        names = {line.id: line.name for line in self.parsed if not isinstance(line, End)}
        return [(line.name, names.get(line.parent)) for line in self.parsed if not isinstance(line, End)]

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a program that writes to the log."""
        return {**os.environ, log.LOGS_VARIABLE: self.path}


@contextlib.contextmanager
def made_log(*, joined: bool) -> Iterator[RegionLog]:
    """Give an empty log, to which this process writes if ``joined``."""
    path = log.create_log()
    try:
        if joined:
            log.join(path)
        yield RegionLog(path)
    finally:
        if joined:
            log.leave(path)
        os.unlink(path)
