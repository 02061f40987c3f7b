"""What a run is measured by: one module, or one package, for each resource, and one line in :data:`RESOURCES`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import ModuleType

    from gpu_tracker.report import Totals


class Entry:
    """A line of the table.

    :ivar name: The name of the resource, which is that of its module and the key of its totals.
    :ivar is_optional: It is sampled only where it is asked for by that name, in ``Tracker(sections=…)``.
    """

    __slots__ = ('is_optional', 'name')

    def __init__(self, name: str, *, is_optional: bool = False) -> None:
        self.name = name
        self.is_optional = is_optional

    def load(self) -> ModuleType:
        """Return the module: ``open_resource`` is for the sampler, ``usage_of`` makes the sections of the result."""
        module: ModuleType = __import__(f'{__name__}.{self.name}').resources
        return getattr(module, self.name)  # type: ignore[no-any-return]  # it has just been imported


RESOURCES = (
    Entry('gpu'),  # first: its driver is opened in a thread while the others are
    Entry('cpu'),  # before RAM, whose exact readings take a while, in which CPU time goes by
    Entry('ram'),
    Entry('cuda', is_optional=True),
    Entry('io', is_optional=True),
    Entry('energy', is_optional=True),
)
"""All resources, in the order in which they are opened and sampled."""

SECTIONS = tuple(entry.name for entry in RESOURCES if entry.is_optional)
"""The names of those that have to be asked for."""


def settle(totals: Totals, switches: Mapping[str, tuple[int, int]]) -> None:
    """Add to the totals of the optional resources, in place, what the kernel has told at the end of a run.

    :param switches: Voluntary and involuntary context switches of the groups of which they are known.
    """
    for entry in RESOURCES:
        if entry.is_optional and entry.name in totals and hasattr(module := entry.load(), 'settle'):
            module.settle(totals[entry.name], switches)


def chosen(sections: Iterable[str]) -> list[Entry]:
    """Return the lines of the resources that are always sampled, and of those that are asked for by name."""
    return [entry for entry in RESOURCES if not entry.is_optional or entry.name in sections]
