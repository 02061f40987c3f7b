"""Who looks at CUDA calls: ``gpu-tracker probe``, scripts for bpftrace, and a program with BCC."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from benchmarks import bcc_headers
from benchmarks.peers import BCC, BPFTRACE, OURS
from benchmarks.running import PROGRAMS
from benchmarks.session import FailedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from benchmarks.environments import Environment

_LOST = re.compile(r'Lost (\d+) events')
_MOST_ALLOCATIONS = 131_072
"""As many as ours holds by default; bpftrace's maps have 4,096 otherwise."""
_BUFFER_PAGES = 4096
"""16 MiB for each processor; bpftrace's buffers have 64 pages otherwise."""
_OUTPUT, _HEADERS = 'tracer-output', 'headers'


@dataclass(frozen=True)
class Place:
    """What a tracer is to look at, and where its files go.

    :ivar library: With the functions.
    """

    environment: Environment
    library: Path
    folder: Path

    @property
    def output(self) -> Path:
        """What the tracer tells."""
        return self.folder / _OUTPUT


class Counted(NamedTuple):
    """What a tracer tells after a run.

    :ivar events_lost: None: it has no events.
    """

    launches: int
    events_lost: int | None = None


class Tracer(Protocol):
    """One who looks at CUDA calls.

    :ivar name: As the tables call it.
    :ivar tool: The name of the tool that it is made with.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - see above
    @property
    def tool(self) -> str: ...  # noqa: D102 - see above

    def variables(self, place: Place) -> Mapping[str, str]:
        """Return the environment variables that it needs."""

    def around(self, place: Place, command: Path) -> list[str]:
        """Return the words that look at a shell script from its start on."""

    def at(self, place: Place, pid: int) -> list[str]:
        """Return the words that look at a process that runs."""

    def counted(self, place: Place, said: str) -> Counted:
        """Return what it tells; ``said`` is what it and the program have printed as errors."""


@dataclass(frozen=True)
class Ours:
    """``gpu-tracker probe``.

    :ivar program: What is run in place of the command, in the same environment, and its first arguments.
    """

    name: str = OURS.name
    tool: str = OURS.name
    program: tuple[str, ...] = ()

    def variables(self, place: Place) -> dict[str, str]:
        """Return none."""
        del place
        return {}

    def around(self, place: Place, command: Path) -> list[str]:
        """Return ``gpu-tracker probe`` with a command."""
        return [*self._words(place), '--', '/bin/sh', str(command)]

    def at(self, place: Place, pid: int) -> list[str]:
        """Return ``gpu-tracker probe`` with a process."""
        return [*self._words(place), f'--pid={pid}']

    def _words(self, place: Place) -> list[str]:
        environment = place.environment
        name, *first = self.program or ('',)
        probe = [str(PROGRAMS / name), *first] if name else ['-m', 'gpu_tracker', 'probe']
        return [environment.python, '-P', *probe, '--json', f'--output={place.output}', f'--library={place.library}']

    def counted(self, place: Place, said: str) -> Counted:
        """Read the report."""
        del said
        report = json.loads(place.output.read_text())
        if 'problem' in report:
            raise FailedError(str(report['problem']))
        return Counted(sum(process['launches'] for process in report['processes']), report['events_lost'])


@dataclass(frozen=True)
class Script:
    """bpftrace with a script.

    :ivar script: Its name among the programs.
    :ivar tells_events: Whether it prints a line for each call, and no totals.
    """

    name: str
    script: str
    tells_events: bool = False
    tool: str = BPFTRACE.name

    def variables(self, place: Place) -> dict[str, str]:
        """Return how large its maps and buffers are."""
        del place
        return {'BPFTRACE_MAP_KEYS_MAX': str(_MOST_ALLOCATIONS), 'BPFTRACE_PERF_RB_PAGES': str(_BUFFER_PAGES)}

    def around(self, place: Place, command: Path) -> list[str]:
        """Return bpftrace with a command."""
        return [*self._words(place), '-c', f'/bin/sh {command}', str(self._written(place))]

    def at(self, place: Place, pid: int) -> list[str]:
        """Return bpftrace with a process."""
        return [*self._words(place), '-p', str(pid), str(self._written(place))]

    @staticmethod
    def _words(place: Place) -> list[str]:
        return [place.environment.program('bpftrace'), '-o', str(place.output)]

    def _written(self, place: Place) -> Path:
        """Write the script, which names the library, and return where."""
        path = place.folder / self.script
        path.write_text((PROGRAMS / self.script).read_text().replace('LIBRARY', str(place.library)))
        return path

    def counted(self, place: Place, said: str) -> Counted:
        """Read what it has printed."""
        wanted = '"call":"launch"' if self.tells_events else '@launches['
        launches, lost = 0, _lost(said)
        for line in _lines(place.output):
            if wanted in line:
                launches += 1 if self.tells_events else int(line.rpartition(': ')[2])
            lost += _lost(line)
        return Counted(launches, lost if self.tells_events else None)


@dataclass(frozen=True)
class BccProgram:
    """``programs/cuda_bcc.py``."""

    name: str = 'BCC, ring buffer'
    tool: str = BCC.name

    def variables(self, place: Place) -> dict[str, str]:
        """Return where headers are."""
        return bcc_headers.variables(place.folder / _HEADERS, installed=bcc_headers.are_installed())

    def around(self, place: Place, command: Path) -> list[str]:
        """Return the program with a command."""
        return [*self._words(place), '--', '/bin/sh', str(command)]

    def at(self, place: Place, pid: int) -> list[str]:
        """Return the program with a process."""
        return [*self._words(place), '--pid', str(pid)]

    @staticmethod
    def _words(place: Place) -> list[str]:
        program = str(PROGRAMS / 'cuda_bcc.py')
        return [place.environment.program('python3'), program, str(place.library), str(place.output)]

    def counted(self, place: Place, said: str) -> Counted:
        """Read what it has written."""
        del said
        told = json.loads(place.output.read_text())
        return Counted(told['counts']['launch'], told['lost'])


def _lines(path: Path) -> Iterator[str]:
    with open(path, encoding='utf-8', errors='replace') as file:
        yield from file


def _lost(text: str) -> int:
    return sum(int(number) for number in _LOST.findall(text))


UPROBE_MULTI: Tracer = Ours()
BY_PERF: Tracer = Ours(f'{OURS.name}, perf', program=('probe_by_perf.py',))
EMPTY: Tracer = Script('bpftrace, an empty probe', 'cuda_empty.bt')
TOTALS: Tracer = Script('bpftrace, totals', 'cuda_totals.bt')
ENTRIES: Tracer = Script('bpftrace, entries only', 'cuda_entries.bt')
JSON_LINES: Tracer = Script('bpftrace, a JSON line a call', 'cuda_json.bt', tells_events=True)
WITH_BCC: Tracer = BccProgram()
PIECES: dict[str, Tracer] = {
    what: Ours(f'{OURS.name}, {piece} twice', program=('probe_twice.py', piece))
    for what, piece in (
        ('the arguments on the stack, and the return address', 'stack'),
        ('the entries of the thread and of the kernel', 'lookups'),
        ('the time', 'clock'),
        ('room for the event', 'event'),
    )
}
"""What each launch needs -> the probe that does it twice."""
