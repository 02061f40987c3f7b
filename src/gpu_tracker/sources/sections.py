"""The sections of a run beside the documented five, as far as they were asked for by name."""

from __future__ import annotations

from functools import partial

from gpu_tracker.cuda_usage import cuda_usage
from gpu_tracker.sources.entry_points import load
from gpu_tracker.sources.section import SectionReader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpu_tracker.sources.section import OpenSection, Target

GROUP = 'gpu_tracker.sources'
"""The group of entry points; each returns a :class:`gpu_tracker.sources.section.Section`."""

_CHECKS = {'cuda': lambda told: cuda_usage(told, 'bytes')}
"""What makes a part of the result of what each section tells."""


class Sections:
    """The sections that were asked for; none of them delays or ends the run.

    :param names: Of entry points.
    :param find: Returns what opens the section of a name.
    """

    def __init__(
        self,
        names: Sequence[str],
        target: Target,
        find: Callable[[str], OpenSection] = lambda name: load(GROUP, name),
    ) -> None:
        self._readers = [SectionReader(name, _CHECKS[name]) for name in names]
        for reader in self._readers:
            reader.open(partial(find, reader.name), target)

    def members(self, main: int | None, descendants: frozenset[int]) -> None:
        """Say which processes are the root and its descendants."""
        members = descendants if main is None else descendants | {main}
        for reader in self._readers:
            reader.members(members)

    def finish(self, timeout: float) -> None:
        """Ask each for its last figures, and wait for them.

        :param timeout: Seconds to wait for each at most.
        """
        for reader in self._readers:
            reader.finish(timeout)

    def totals(self) -> dict[str, dict[str, object]]:
        """Return what each has told last, by name."""
        return {reader.name: reader.result() for reader in self._readers}

    def take_messages(self) -> list[tuple[str, str]]:
        """Return what is to be told and was not taken yet: ('warning', text)."""
        return [message for reader in self._readers for message in reader.take_messages()]
