"""The scripts of processes while they are being written, phase by phase, all processes next to one another."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from support.random_programs.script import COMMAND, PROCESS, TWIN, Actor, Program

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Act = Callable[['Writer', 'Draft'], None]

MOST_PROCESSES = 7
MOST_PAGES = 60_000
"""Of all processes in all phases together."""
MOST_BURNT = 300
"""Milliseconds, likewise."""


@dataclass(frozen=True)
class Block:
    """A mapping as a process knows it."""

    kind: str
    pages: int


class Draft:
    """A process while its script is being written."""

    def __init__(self, actor: Actor, lines: list[str], blocks: dict[int, Block]) -> None:
        self.actor = actor
        self.lines = lines
        self.blocks = blocks
        self.children: list[Actor] = []
        """Those that it can still wait for."""

    @property
    def has_twin(self) -> bool:
        """Tell whether another process lives in its memory, and has to end first."""
        return any(child.verb == TWIN and child.ended is None for child in self.children)


class Writer:
    """Writes one program.

    :param acts: What a process may do, and how often it does that, in relation to the rest.
    :param giving_back: Those of them with which memory is given back: half of all programs only grow.
    :param acts_of_twins: What a process may do that lives in the memory of another.
    """

    def __init__(
        self, seed: int, acts: Mapping[Act, int], giving_back: tuple[Act, ...], acts_of_twins: Mapping[Act, int]
    ) -> None:
        self.random = random.Random(seed)  # noqa: S311 - the same programs in every run
        self.program = Program(seed, self.random.choice((PROCESS, PROCESS, PROCESS, PROCESS, COMMAND)))
        self.phase = 0
        self.files: dict[int, int] = {}
        """Pages of the files that processes may map, once they are made."""
        self.living: list[Draft] = []
        self._grows_only = self.random.random() < 0.5
        self._acts = {act: often for act, often in acts.items() if not self._grows_only or act not in giving_back}
        self._acts_of_twins = acts_of_twins
        self._pages = self._burnt = self._slots = 0

    def write(self) -> Program:
        """Write the program."""
        program = self.program
        program.holds = self.random.randint(2, 4)
        self._begin(None, 'fork', {})
        for self.phase in range(program.holds + 1):
            for draft in self.living:  # grows while it is walked: new processes act at once
                acts = self._acts_of_twins if draft.actor.verb == TWIN else self._acts
                for _ in range(self.random.randint(0, 4)):
                    self.random.choices(list(acts), list(acts.values()))[0](self, draft)
            self._finish_phase()
        return program

    @property
    def is_unseen(self) -> bool:
        """Nothing is tracked yet: who loses its parent now cannot be known as a descendant later."""
        return self.phase < self.program.first_tracked

    def may_start(self, processes: int = 1) -> bool:
        """Tell whether there may be more processes."""
        return len(self.program.actors) + processes <= MOST_PROCESSES

    def start(self, parent: Draft, verb: str) -> Draft:
        """Have a process start another."""
        parent.actor.starts[self.phase] += 1 if verb in ('fork', TWIN) else 2
        child = self._begin(parent, verb, {} if verb == TWIN else parent.blocks)
        parent.lines.append(f'{verb} {child.actor.bodies[0]}')
        if verb in ('fork', TWIN):
            parent.children.append(child.actor)
        return child

    def bring(self, draft: Draft, pages: int) -> bool:
        """Take note that a process brings pages; tell whether it may."""
        if self._pages + pages > MOST_PAGES:
            return False
        self._pages += pages
        draft.actor.pages[self.phase] += pages
        return True

    def burn(self, draft: Draft, milliseconds: int) -> None:
        """Have a process use CPU time, if it may."""
        if self._burnt + milliseconds <= MOST_BURNT:
            self._burnt += milliseconds
            draft.actor.burnt[self.phase] += milliseconds
            draft.lines.append(f'burn {milliseconds}')

    def map(self, draft: Draft, kind: str, pages: int, number: int | None = None) -> int:
        """Have a process map memory; return its slot.

        :param number: The slot or the file that is meant, a new file where not given.
        """
        slot = self._slots
        self._slots += 1
        draft.lines.append(f'map {slot} {kind} {pages} {slot if number is None else number}')
        if kind == 'file' and number is None:
            self.files[slot] = pages
        kind = draft.blocks[number].kind if kind == 'again' else kind
        draft.blocks[slot] = Block(kind, pages)
        return slot

    def unmap(self, draft: Draft, slot: int) -> None:
        """Have a process give a mapping back."""
        draft.actor.gives_back.add(self.phase)
        draft.lines.append(f'unmap {slot}')
        del draft.blocks[slot]

    def become(self, draft: Draft) -> None:
        """Have a process become another program image."""
        body = len(self.program.bodies)
        draft.lines.append(f'exec {body}')
        draft.lines = self.program.bodies[body] = []
        draft.blocks = {}
        draft.children = []  # what it knew of them was in its memory
        draft.actor.bodies.append(body)
        draft.actor.starts[self.phase] += 1
        draft.actor.gives_back.add(self.phase)

    def _begin(self, parent: Draft | None, verb: str, blocks: dict[int, Block]) -> Draft:
        body = len(self.program.bodies)
        lines = self.program.bodies[body] = []
        actor = Actor(parent.actor if parent else None, verb, self.phase, [body])
        actor.maps_twice = parent is not None and parent.actor.maps_twice
        self.program.actors.append(actor)
        self.living.append(Draft(actor, lines, dict(blocks)))
        return self.living[-1]

    def _finish_phase(self) -> None:
        """Decide who ends and who is waited for; children come first, because their parents may wait for them."""
        last = self.phase == self.program.holds
        for draft in reversed(self.living):
            actor = draft.actor
            for child in draft.children[:]:
                if child.ended is not None and (child.verb == TWIN or self.random.random() < 0.6):
                    draft.lines.append(f'wait {child.bodies[0]}')
                    child.waited = self.phase
                    draft.children.remove(child)
            if last or self._may_end(draft):
                actor.ended = self.phase
                actor.gives_back.add(self.phase)
            else:
                draft.lines.append(f'hold {self.phase}')
        self.living = [draft for draft in self.living if draft.actor.ended is None]

    def _may_end(self, draft: Draft) -> bool:
        if draft.actor is self.program.root or draft.has_twin or self._grows_only or self.random.random() < 0.75:
            return False
        return not self.is_unseen or all(child.ended is not None for child in draft.children)
