"""What processes of random programs do: each act writes some lines of a script, and notes what is known of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.random_programs.script import COMMAND, TWIN, HandOver

if TYPE_CHECKING:
    from support.random_programs.drafts import Draft, Writer

_SIZES = (512, 1024, 2048, 4096, 8192)
_KINDS = ('private', 'private', 'private', 'huge', 'shared', 'memfd', 'file', 'copied')
_OF_FILES = ('memfd', 'file')
_NOBODYS = ('private', 'huge')
"""Reading such memory that was never written to maps the one page of zeros, which is nobody's memory."""
_FAULT_AROUND = 16
"""Pages of a file that one fault maps at most (fault_around_bytes)."""
_HUGE = 512
"""Pages of a huge page, which come and go together."""


def map_memory(writer: Writer, draft: Draft) -> None:
    """Map memory, and write to all or to half of it."""
    kind = writer.random.choice(_KINDS)
    pages = writer.random.choice(_SIZES)
    touched = _whole(kind, writer.random.choice((pages, pages // 2)))
    if not writer.bring(draft, 2 * touched + _FAULT_AROUND):
        return
    slot = writer.map(draft, kind, pages)
    if kind == 'copied':
        draft.lines.append(f'read {slot} 0 {touched}')
        touched //= 2
    draft.lines.append(f'write {slot} 0 {touched}')


def map_again(writer: Writer, draft: Draft) -> None:
    """Map a memfd or a file a second time."""
    slots = [slot for slot, block in draft.blocks.items() if block.kind in _OF_FILES]
    if slots:
        of = writer.random.choice(slots)
        pages = draft.blocks[of].pages
        if writer.bring(draft, pages):
            draft.actor.maps_twice = True
            slot = writer.map(draft, 'again', pages, of)
            draft.lines.append(f'read {slot} 0 {pages}')


def map_made(writer: Writer, draft: Draft) -> None:
    """Map a file that perhaps another process has made; whoever is first makes it."""
    if writer.files:
        number, pages = writer.random.choice(list(writer.files.items()))
        if writer.bring(draft, pages):
            draft.actor.maps_twice = True  # it may have this file already
            slot = writer.map(draft, 'file', pages, number)
            draft.lines.append(f'read {slot} 0 {pages}')


def write(writer: Writer, draft: Draft) -> None:
    """Write to a part of some memory."""
    part = _part(writer, draft)
    if part and writer.bring(draft, part[2] + _FAULT_AROUND):
        draft.lines.append('write {} {} {}'.format(*part))


def read(writer: Writer, draft: Draft) -> None:
    """Read a part of some memory."""
    part = _part(writer, draft)
    if part and draft.blocks[part[0]].kind not in _NOBODYS and writer.bring(draft, part[2] + _FAULT_AROUND):
        draft.lines.append('read {} {} {}'.format(*part))


def drop(writer: Writer, draft: Draft) -> None:
    """Give a part of some memory back."""
    part = _part(writer, draft)
    if part:
        draft.actor.gives_back.add(writer.phase)
        draft.lines.append('drop {} {} {}'.format(*part))


def unmap(writer: Writer, draft: Draft) -> None:
    """Give some memory back."""
    if draft.blocks:
        writer.unmap(draft, writer.random.choice(list(draft.blocks)))


def spike(writer: Writer, draft: Draft) -> None:
    """Have memory for a moment."""
    pages = writer.random.choice(_SIZES)
    if writer.bring(draft, pages):
        slot = writer.map(draft, writer.random.choice(_NOBODYS), pages)
        draft.lines.append(f'write {slot} 0 {pages}')
        writer.unmap(draft, slot)


def burn(writer: Writer, draft: Draft) -> None:
    """Use CPU time."""
    writer.burn(draft, writer.random.randint(5, 60))


def nap(writer: Writer, draft: Draft) -> None:
    """Sleep."""
    draft.lines.append(f'nap {writer.random.randint(1, 40)}')


def start(writer: Writer, draft: Draft) -> None:
    """Start a process, which is perhaps an orphan at once."""
    if writer.may_start():
        # Only a command's launcher is handed the daemons that nobody has seen with their parents.
        verbs = ('fork', 'fork', 'fork', 'orphan', 'daemon' if writer.program.way == COMMAND else 'orphan')
        writer.start(draft, 'fork' if writer.is_unseen else writer.random.choice(verbs))


def start_twin(writer: Writer, draft: Draft) -> None:
    """Start a process in the same memory, unless it is main's: that would be main's and a descendant's at once."""
    if draft.actor is not writer.program.root and writer.may_start():
        writer.start(draft, TWIN)


def start_program(writer: Writer, draft: Draft) -> None:
    """Start a process that becomes another program image, which grows."""
    pages = writer.random.choice(_SIZES)
    if writer.may_start():
        child = writer.start(draft, 'fork')
        nap(writer, child)
        writer.become(child)
        if writer.bring(child, pages):
            slot = writer.map(child, 'private', pages)
            for part in range(4):
                child.lines.append(f'write {slot} {part * pages // 4} {pages // 4}')
                nap(writer, child)


def become(writer: Writer, draft: Draft) -> None:
    """Become another program image, unless somebody else stays in the memory of this one."""
    if not draft.has_twin:
        writer.become(draft)


def share_out(writer: Writer, draft: Draft) -> None:
    """Fill shared memory of which some children use a part each."""
    children = writer.random.randint(2, 3)
    pages = writer.random.choice(_SIZES)
    if writer.may_start(children) and writer.bring(draft, 2 * pages + _FAULT_AROUND):
        slot = writer.map(draft, writer.random.choice(('shared', *_OF_FILES)), pages)
        draft.lines.append(f'write {slot} 0 {pages}')
        verb = writer.random.choice(('read', 'write'))
        part = pages // children
        for number in range(children):
            child = writer.start(draft, 'fork')
            if writer.bring(child, part + _FAULT_AROUND):
                child.lines.append(f'{verb} {slot} {number * part} {part}')


def hand_over(writer: Writer, draft: Draft) -> None:
    """Give memory back piece by piece while another process brings as much.

    They wait for one another, so that only two of them do so in a phase, and neither may have been started in it.
    """
    program, phase = writer.program, writer.phase
    able = [other for other in writer.living if other.actor.born < phase and other.actor.verb != TWIN]
    others = [other for other in able if other is not draft]
    if draft not in able or not others or any(done.phase == phase for done in program.handed):
        return
    pages = writer.random.choice(_SIZES)
    if writer.bring(draft, pages):
        taker = writer.random.choice(others)
        number = len(program.handed)
        program.handed.append(HandOver(phase, draft.actor, taker.actor, pages))
        given = writer.map(draft, 'private', pages)
        draft.lines += [f'write {given} 0 {pages}', f'give {given} {pages} {number}']
        writer.unmap(draft, given)
        taken = writer.map(taker, 'private', pages)
        taker.lines.append(f'take {taken} {pages} {number}')


def _whole(kind: str, pages: int) -> int:
    """Return so many pages, in whole huge pages where there are such."""
    return -(-pages // _HUGE) * _HUGE if kind == 'huge' else pages


def _part(writer: Writer, draft: Draft) -> tuple[int, int, int] | None:
    """Return some pages of a mapping."""
    if not draft.blocks:
        return None
    slot = writer.random.choice(list(draft.blocks))
    kind, pages = draft.blocks[slot].kind, draft.blocks[slot].pages
    first = writer.random.choice((0, 0, pages // 2, pages // 4))
    if kind == 'huge':
        first = first // _HUGE * _HUGE
    return slot, first, _whole(kind, writer.random.choice((pages - first, (pages - first) // 2)))


ACTS = {
    map_memory: 6, write: 4, read: 2, map_again: 1, map_made: 1, burn: 3, nap: 1, start: 4, become: 1, drop: 2,
    unmap: 1, spike: 1, start_twin: 1, start_program: 1, share_out: 1, hand_over: 2,
}  # fmt: skip
"""How often each is done, in relation to the others."""
GIVING_BACK = (become, drop, unmap, spike, start_program, hand_over)
"""Those with which memory is given back."""
OF_TWINS = {burn: 3, nap: 1}
"""What a process does that lives in the memory of another: what that does to it happens to both."""
