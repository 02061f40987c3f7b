"""A program of the stand-in with somebody who looks at it from its start, or with nobody."""

from __future__ import annotations

import contextlib
import os
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.cuda_runs import begun, command_file, last_words, loops, said
from benchmarks.cuda_tracers import Counted, Place, Tracer
from benchmarks.processes import cpu_seconds, peak_memory
from benchmarks.running import fresh_folder
from benchmarks.session import FailedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.cuda_runs import Conversation, Loop
    from benchmarks.cuda_stand_in import StandIn
    from benchmarks.environments import Environment
    from benchmarks.session import Session

NOBODY = 'not probed'

_MAP = re.compile(r'^map_id:\t(\d+)$', re.MULTILINE)
_MEMORY = re.compile(r'^memlock:\t(\d+)$', re.MULTILINE)


@dataclass(frozen=True)
class Looking:
    """A program that waits, and who looks at it.

    :ivar seconds: From before all was started until the program waited.
    :ivar tracer: None: nobody looks.
    """

    program: Conversation
    place: Place
    seconds: float
    tracer: Tracer | None

    def loops(self) -> list[Loop]:
        """Return the loops of the program, once it has told them."""
        return loops(self.place.folder)

    def cpu(self) -> float:
        """Return the CPU seconds that the tracer has used."""
        used = cpu_seconds(self.program.pid)
        if used is None:
            raise FailedError('has ended')
        return used

    def memory(self) -> dict[str, float]:
        """Return the peak of the tracer's RSS, and what its maps have in the kernel, in bytes."""
        peak = peak_memory(self.program.pid)
        if peak is None:
            raise FailedError('has ended')
        maps = kernel_maps(self.program.pid)
        return {'rss': peak} if maps is None else {'rss': peak, 'maps': maps}

    def finish(self) -> Counted | None:
        """Let the program end, and the tracer, and return what that tells."""
        self.program.finish()
        return None if self.tracer is None else counted_by(self.tracer, self.place)


@contextlib.contextmanager
def looking(tracer: Tracer | None, environment: Environment, built: StandIn, script: str) -> Iterator[Looking]:
    """Start a program with a tracer around it; it waits before its script, and after it."""
    with fresh_folder() as folder:
        place = Place(environment, built.library, folder)
        command = command_file(folder, built.program, f'wait; {script}; wait')
        words = ['/bin/sh', str(command)] if tracer is None else tracer.around(place, command)
        variables = environment.variables(**({} if tracer is None else tracer.variables(place)))
        begin = time.monotonic()
        with begun(words, folder, variables) as program:
            program.wait_until_waiting()
            yield Looking(program, place, time.monotonic() - begin, tracer)


def able(session: Session, tracers: Sequence[Tracer]) -> list[tuple[Tracer, Environment]]:
    """Return those of the tracers whose tool is there; of the others, the session has a gap already."""
    return [(tracer, session.environments[tracer.tool]) for tracer in tracers if tracer.tool in session.environments]


def counted_by(tracer: Tracer, place: Place) -> Counted:
    """Return what a tracer tells that has ended."""
    if not place.output.exists():
        raise FailedError(last_words(place.folder) or 'has told nothing')
    return tracer.counted(place, said(place.folder))


def kernel_maps(pid: int) -> int | None:
    """Return the bytes that a process' BPF maps have in the kernel, each of them once; None: it does not tell."""
    held: dict[str, int] = {}
    try:
        for handle in os.listdir(f'/proc/{pid}/fdinfo'):
            with open(f'/proc/{pid}/fdinfo/{handle}', encoding='ascii') as file:
                text = file.read()
            found, memory = _MAP.search(text), _MEMORY.search(text)
            if found is not None and memory is not None:
                held[found[1]] = int(memory[1])
    except OSError:
        return None  # it is another user's, or has closed one meanwhile
    return sum(held.values()) if held else None
