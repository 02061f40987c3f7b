"""File systems of which some are mounted from a machine that is down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.binaries.file_systems import FileSystems
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from gpu_tracker.cuda_probe.binaries.region import MappedPart

BRIEF = 0.01


class Mounts(FileSystems):
    """Gives those up at once whose files have a word in their paths, and waits for all others until they answer."""

    def __init__(self, dead: str, *words, **options) -> None:
        super().__init__(*words, **options)
        self._dead = dead

    def answers(self, mapping: MappedPart, folder: str) -> bool:
        """Return whether the file system of a mapped file answers."""
        self._timeout = BRIEF if self._dead in (mapping.path or '') else TIMEOUT
        return super().answers(mapping, folder)
