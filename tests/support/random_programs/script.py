"""What a random program does, and what is known of it by construction.

A script has bodies, each a list of lines that one process performs until it ends:

``map SLOT KIND PAGES [NUMBER]``
    Map memory: ``private``, ``huge`` (private, in transparent huge pages), ``shared`` (all three anonymous), ``memfd``,
    ``file`` NUMBER, ``copied`` (a private mapping of file NUMBER), ``again`` (a second mapping of the memfd or file
    that stands in slot NUMBER).
``write``, ``read``, ``drop`` ``SLOT FIRST PAGES``, ``unmap SLOT``
    Use memory: touch each page, or give it back.
``give SLOT PAGES NUMBER``, ``take SLOT PAGES NUMBER``
    Give memory back piece by piece while another process brings as much, each waiting for the other.
``burn MILLISECONDS``, ``nap MILLISECONDS``
    Use CPU time; sleep.
``fork BODY``, ``orphan BODY``, ``daemon BODY``, ``twin BODY``, ``exec BODY``, ``wait BODY``
    Start a process; one whose parent has ended already, a daemon in a session of its own as well; one in the memory of
    its parent (CLONE_VM); become another program image; wait for a child.
``hold NUMBER``
    Stand still, with all processes that live at that time, until the kernel has been asked about all of them.

The phase of the same number comes before each hold; one more comes after the last. Phase 0 is over when the tracking
of a process starts, while a command is tracked from its beginning.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

PROCESS = 'process'
COMMAND = 'command'
TWIN = 'twin'
"""The verb of who lives in the memory of its parent."""


@dataclass(eq=False)
class Actor:
    """One process: the bodies that it performs one after the other, and its life in phases."""

    parent: Actor | None
    verb: str
    born: int
    bodies: list[int]
    ended: int | None = None
    waited: int | None = None
    """When its parent waits for it, where that does."""
    pages: Counter[int] = field(default_factory=Counter)
    """Pages that it brings in each phase, at most."""
    starts: Counter[int] = field(default_factory=Counter)
    """How many processes it starts in each phase, or images by exec."""
    gives_back: set[int] = field(default_factory=set)
    """Phases in which it gives memory back, or ends."""
    maps_twice: bool = False
    """It may have mapped the same pages twice: its resident size counts them twice, a union of frames does not."""
    burnt: Counter[int] = field(default_factory=Counter)
    """Milliseconds of CPU time in each phase."""

    @property
    def is_child(self) -> bool:
        """Tell whether its parent can wait for it."""
        return self.verb in ('fork', TWIN)

    def lives_at(self, hold: int) -> bool:
        """Tell whether it takes part in a hold."""
        return self.born <= hold and (self.ended is None or hold < self.ended)

    def is_zombie_at(self, hold: int) -> bool:
        """Tell whether it has ended before a hold and is still there, because its parent has not waited for it yet."""
        if self.parent is None or not self.is_child or self.ended is None or hold < self.ended:
            return False
        return self.parent.lives_at(hold) and (self.waited is None or hold < self.waited)

    def reaper(self) -> Actor | None:
        """Return who is told of its CPU time at its end: its parent, where that waits for it."""
        return self.parent if self.waited is not None else None


@dataclass(frozen=True)
class HandOver:
    """Memory that one process gives back while another brings as much: together they have it once."""

    phase: int
    giver: Actor
    taker: Actor
    pages: int


@dataclass
class Program:
    """A script, and what is known of it."""

    seed: int | None
    way: str
    """How it is tracked: as a PROCESS that runs already, or as a COMMAND."""
    holds: int = 0
    bodies: dict[int, list[str]] = field(default_factory=dict)
    actors: list[Actor] = field(default_factory=list)
    """The root comes first, parents before their children."""
    handed: list[HandOver] = field(default_factory=list)

    @property
    def root(self) -> Actor:
        """The process that is tracked."""
        return self.actors[0]

    @property
    def first_tracked(self) -> int:
        """The first phase that is tracked."""
        return 1 if self.way == PROCESS else 0

    @property
    def has_descendants(self) -> bool:
        """Tell whether there is a descendant at any time while it is tracked."""
        return any(actor.ended is None or actor.ended >= self.first_tracked for actor in self.actors[1:])

    def living(self, hold: int) -> list[Actor]:
        """Return who takes part in a hold."""
        return [actor for actor in self.actors if actor.lives_at(hold)]

    def __str__(self) -> str:
        """Return the script."""
        lines = [f'# seed {self.seed}, tracked as a {self.way}']
        for number, body in self.bodies.items():
            lines += [f'body {number}', *(f'    {line}' for line in body)]
        return '\n'.join(lines) + '\n'
