"""Makes a random program from a seed."""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass

from random_programs.script import COMMAND, PROCESS, Actor, Program

MOST_PROCESSES = 7
MOST_PAGES = 60_000
"""Of all processes in all phases together."""
MOST_BURNT = 300
"""Milliseconds, likewise."""
_SIZES = (512, 1024, 2048, 4096, 8192)
_KINDS = ('private', 'private', 'private', 'shared', 'memfd', 'file', 'copied')
_OF_FILES = ('memfd', 'file')
_OF_FORKS = ('private', 'copied')
_FAULT_AROUND = 16
"""Pages of a file that one fault maps at most (fault_around_bytes)."""


@dataclass
class _Block:
    """A mapping as a process knows it."""

    kind: str
    pages: int
    touched: int = 0
    copied: bool = False
    """A fork has copied it."""
    rewritten: bool = False
    """It was written to after that, so that at the same addresses there are different pages in different processes."""


class _Draft:
    """A process while its script is being written."""

    def __init__(self, actor: Actor, lines: list[str], blocks: dict[int, _Block]) -> None:
        self.actor = actor
        self.lines = lines
        self.blocks = blocks
        self.children: list[Actor] = []
        """Those that it can still wait for."""


class _Writer:
    """Writes one program, phase by phase, all processes next to one another."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - the same programs in every run
        self.program = Program(seed, self._random.choice((PROCESS, PROCESS, PROCESS, PROCESS, COMMAND)))
        self._grows_only = self._random.random() < 0.5
        self._pages = self._burnt = self._slots = 0
        self._files: dict[int, int] = {}
        """Pages of the files that processes may map, once they are made."""
        self._living: list[_Draft] = []
        self._phase = 0
        self._act = {
            self._map: 6, self._write: 4, self._read: 2, self._map_again: 1, self._map_made: 1, self._burn: 3,
            self._nap: 1, self._start: 4, self._exec: 1, self._drop: 2, self._unmap: 1, self._spike: 1,
        }  # fmt: skip
        if self._grows_only:
            for giving_back in (self._exec, self._drop, self._unmap, self._spike):
                del self._act[giving_back]

    def write(self) -> Program:
        """Write the program."""
        program = self.program
        program.holds = self._random.randint(2, 4)
        self._begin(None, 'fork', {})
        for self._phase in range(program.holds + 1):
            for draft in self._living:  # grows while it is walked: new processes act at once
                for _ in range(self._random.randint(0, 4)):
                    self._random.choices(list(self._act), list(self._act.values()))[0](draft)
            self._finish_phase()
        return program

    def _begin(self, parent: _Draft | None, verb: str, blocks: dict[int, _Block]) -> int:
        body = len(self.program.bodies)
        lines = self.program.bodies[body] = []
        actor = Actor(parent.actor if parent else None, verb, self._phase, [body])
        actor.maps_twice = parent is not None and parent.actor.maps_twice
        self.program.actors.append(actor)
        self._living.append(_Draft(actor, lines, copy.deepcopy(blocks)))
        return body

    def _finish_phase(self) -> None:
        """Decide who ends and who is waited for; children come first, because their parents may wait for them."""
        last = self._phase == self.program.holds
        for draft in reversed(self._living):
            actor = draft.actor
            for child in draft.children[:]:
                if child.ended is not None and self._random.random() < 0.6:
                    draft.lines.append(f'wait {child.bodies[0]}')
                    child.waited = self._phase
                    draft.children.remove(child)
            if last or self._may_end(draft):
                actor.ended = self._phase
                actor.gives_back.add(self._phase)
            else:
                draft.lines.append(f'hold {self._phase}')
        self._living = [draft for draft in self._living if draft.actor.ended is None]

    def _may_end(self, draft: _Draft) -> bool:
        actor = draft.actor
        if actor is self.program.root or self._grows_only or self._random.random() < 0.75:
            return False
        return not self._is_unseen or all(child.ended is not None for child in draft.children)

    @property
    def _is_unseen(self) -> bool:
        """Nothing is tracked yet: who loses its parent now cannot be known as a descendant later."""
        return self._phase < self.program.first_tracked

    def _bring(self, draft: _Draft, pages: int) -> bool:
        """Take note that a process brings pages; tell whether it may."""
        if self._pages + pages > MOST_PAGES:
            return False
        self._pages += pages
        draft.actor.pages[self._phase] += pages
        return True

    def _slot(self, draft: _Draft, line: str, block: _Block) -> int:
        slot = self._slots
        self._slots += 1
        draft.lines.append(line.format(slot))
        draft.blocks[slot] = block
        return slot

    def _map(self, draft: _Draft) -> None:
        kind = self._random.choice(_KINDS)
        pages = self._random.choice(_SIZES)
        touched = self._random.choice((pages, pages // 2))
        if not self._bring(draft, 2 * touched + _FAULT_AROUND):
            return
        slot = self._slot(draft, f'map {{}} {kind} {pages} {self._slots}', _Block(kind, pages, touched))
        if kind == 'copied':
            draft.lines.append(f'read {slot} 0 {touched}')
            draft.lines.append(f'write {slot} 0 {touched // 2}')
        else:
            draft.lines.append(f'write {slot} 0 {touched}')
        if kind == 'file':
            self._files[slot] = pages

    def _map_again(self, draft: _Draft) -> None:
        slots = [slot for slot, block in draft.blocks.items() if block.kind in _OF_FILES]
        if slots:
            of = self._random.choice(slots)
            block = _Block(draft.blocks[of].kind, draft.blocks[of].pages)
            if self._bring(draft, block.pages):
                draft.actor.maps_twice = True
                slot = self._slot(draft, f'map {{}} again {block.pages} {of}', block)
                draft.lines.append(f'read {slot} 0 {block.pages}')

    def _map_made(self, draft: _Draft) -> None:
        """Map a file that perhaps another process has made; whoever is first makes it."""
        if self._files:
            number, pages = self._random.choice(list(self._files.items()))
            if self._bring(draft, pages):
                draft.actor.maps_twice = True  # it may have this file already
                slot = self._slot(draft, f'map {{}} file {pages} {number}', _Block('file', pages, pages))
                draft.lines.append(f'read {slot} 0 {pages}')

    def _part(self, draft: _Draft) -> tuple[int, int, int] | None:
        """Return some pages of a mapping."""
        if not draft.blocks:
            return None
        slot = self._random.choice(list(draft.blocks))
        pages = draft.blocks[slot].pages
        first = self._random.choice((0, 0, pages // 2, pages // 4))
        return slot, first, self._random.choice((pages - first, (pages - first) // 2))

    def _write(self, draft: _Draft) -> None:
        part = self._part(draft)
        if part and self._bring(draft, part[2] + _FAULT_AROUND):
            draft.lines.append('write {} {} {}'.format(*part))
            block = draft.blocks[part[0]]
            block.rewritten = block.copied
            if block.rewritten and block.kind == 'copied':
                self.program.mixed += block.pages
            self._touch_part(block, part)

    def _touch_part(self, block: _Block, part: tuple[int, int, int]) -> None:
        if block.kind not in _OF_FORKS and part[1]:
            self.program.ambiguous += part[2]

    def _read(self, draft: _Draft) -> None:
        part = self._part(draft)
        # Reading private memory that was never written to maps the one page of zeros, which is nobody's memory.
        if part and draft.blocks[part[0]].kind != 'private' and self._bring(draft, part[2] + _FAULT_AROUND):
            draft.lines.append('read {} {} {}'.format(*part))
            self._touch_part(draft.blocks[part[0]], part)

    def _drop(self, draft: _Draft) -> None:
        part = self._part(draft)
        if part:
            draft.actor.gives_back.add(self._phase)
            draft.lines.append('drop {} {} {}'.format(*part))
            self.program.ambiguous += part[2]

    def _unmap(self, draft: _Draft) -> None:
        if draft.blocks:
            slot = self._random.choice(list(draft.blocks))
            draft.actor.gives_back.add(self._phase)
            draft.lines.append(f'unmap {slot}')
            del draft.blocks[slot]

    def _spike(self, draft: _Draft) -> None:
        pages = self._random.choice(_SIZES)
        if self._bring(draft, pages):
            slot = self._slot(draft, f'map {{}} private {pages}', _Block('private', pages))
            draft.lines += [f'write {slot} 0 {pages}', f'unmap {slot}']
            draft.actor.gives_back.add(self._phase)
            del draft.blocks[slot]

    def _burn(self, draft: _Draft) -> None:
        milliseconds = self._random.randint(5, 60)
        if self._burnt + milliseconds <= MOST_BURNT:
            self._burnt += milliseconds
            draft.actor.burnt[self._phase] += milliseconds
            draft.lines.append(f'burn {milliseconds}')

    def _nap(self, draft: _Draft) -> None:
        draft.lines.append(f'nap {self._random.randint(1, 40)}')

    def _start(self, draft: _Draft) -> None:
        if len(self.program.actors) >= MOST_PROCESSES:
            return
        # Only a command's launcher is handed the daemons that nobody has seen with their parents.
        verbs = ('fork', 'fork', 'fork', 'orphan', 'daemon' if self.program.way == COMMAND else 'orphan')
        verb = 'fork' if self._is_unseen else self._random.choice(verbs)
        draft.actor.starts[self._phase] += 1 if verb == 'fork' else 2
        for block in draft.blocks.values():
            if block.kind in _OF_FORKS:
                block.copied = True
                self.program.ambiguous += block.pages if block.rewritten else 0
        body = self._begin(draft, verb, draft.blocks)
        draft.lines.append(f'{verb} {body}')
        if verb == 'fork':
            draft.children.append(self.program.actors[-1])

    def _exec(self, draft: _Draft) -> None:
        body = len(self.program.bodies)
        draft.lines.append(f'exec {body}')
        draft.lines = self.program.bodies[body] = []
        draft.blocks = {}
        draft.children = []  # what it knew of them was in its memory
        draft.actor.bodies.append(body)
        draft.actor.starts[self._phase] += 1
        draft.actor.gives_back.add(self._phase)


def generate(seed: int) -> Program:
    """Return the program of a seed."""
    return _Writer(seed).write()
