"""Figures of programs that are hard to measure, beside the truth: a row of the part ``truth`` each."""

from __future__ import annotations

import functools
import json
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.environments import base_python
from benchmarks.peers import BEFORE, CON_DUCT, OURS, PSRECORD, THE_OLDER, Run
from benchmarks.results import Gap
from benchmarks.running import PROGRAMS, output_of, started, wait_for_end
from benchmarks.session import FailedError
from benchmarks.tables import DASH, Table
from benchmarks.truth import ON_DISK, Stage, union_of_frames

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from benchmarks.environments import Environment
    from benchmarks.peers import Peer
    from benchmarks.results import Results
    from benchmarks.session import Session

PART = 'truth'
PEERS = (OURS, BEFORE, THE_OLDER, PSRECORD, CON_DUCT)
_BY_USER = (OURS, BEFORE)
"""Measured as an ordinary user too."""

_PROGRAM = str(PROGRAMS / 'hard.py')
_PREFIX = 'hard: '
_WITHOUT_ROOT = ', without root'
_INTERVALS, _QUICK_INTERVALS, _QUICK_INTERVALS_OF_PEERS = (0.1, 1.0, 10.0), (0.1, 1.0), (1.0,)
_LIVES = (0.1, 0.3, 1.0, 3.0)
_QUIET = 0.4
"""Seconds before a program begins, at least. A random part of the interval comes on top, of 10 s a tenth."""
_MORE_QUIET = {THE_OLDER: 1.0}
_STILL = 0.2
_NEAR = 0.05
_USER_ID = 65534
_BECOME_USER = (
    *('setpriv', f'--reuid={_USER_ID}', f'--regid={_USER_ID}', '--clear-groups'),
    *('--inh-caps=-all', '--bounding-set=-all', '--'),
)
_KINDS = {'peak': 'RAM', 'cpu': 'CPU'}


@dataclass(frozen=True)
class Program:
    """A program of ``programs/hard.py``, or ``dd`` or ``sort``, which end at once and copy their own status.

    :ivar figures: What is compared: ``peak`` (bytes) and ``cpu`` (seconds).
    :ivar interval: Seconds between two samples; None: each of the usual ones.
    """

    title: str
    words: tuple[str, ...]
    figures: tuple[str, ...] = ('peak',)
    interval: float | None = None

    def row(self, interval: float, *, as_user: bool) -> str:
        """Return the row of the figures."""
        return f'{_PREFIX}{self.title}, --st={interval:g}{_WITHOUT_ROOT if as_user else ""}'


_PROGRAMS = (
    Program('100 MB inherited and moved by mremap in 4 forks', ('moved',)),
    Program('25 temporaries of 4 MB in each of 4 forks', ('temporaries',)),
    Program('8 processes that take turns with 100 MB', ('turns',)),
    Program('150 MB, first thread ended, one fork', ('first-thread',)),
    Program('1 s of CPU that dies with its PID namespace', ('namespace',), ('cpu',)),
    Program('an orphan of 100 MB and 0.5 s, with exec', ('orphan',), ('peak', 'cpu')),
    Program('120 MB shared, mapped by 3 children for 0.15 s', ('shared',)),
    Program('100 MB copied by each of 4 forks for 0.2 s', ('copies',)),
    Program('8 shared blocks of 50 MB in one child for 0.15 s', ('blocks', '1')),
    Program('8 shared blocks of 50 MB in 8 children for 0.15 s', ('blocks', '8')),
    Program('a command that ends at once', ('dd',)),
    Program('a command of 10 MB that ends after 20 ms', ('sort',)),
    *(Program(f'a child of {life:g} s and 100 MB', ('child', f'{life:g}'), ('peak', 'cpu'), 1.0) for life in _LIVES),
)


def measure(session: Session) -> None:
    """Run all programs with all peers, as this user and as an ordinary one."""
    for program in _PROGRAMS:
        intervals = _QUICK_INTERVALS if session.quick else _INTERVALS
        for interval in intervals if program.interval is None else (program.interval,):
            for as_user in (False, True) if os.geteuid() == 0 else (False,):
                _measure_row(session, program, interval, as_user=as_user)


def _measure_row(session: Session, program: Program, interval: float, *, as_user: bool) -> None:
    row = program.row(interval, as_user=as_user)
    rounds = session.rounds(3)
    moments = random.Random(row)  # noqa: S311 - no secret
    measures = {}
    for peer in PEERS if session.wants(row) else ():
        environment = session.environments.get(peer.name)
        if environment is None or (as_user and peer not in _BY_USER) or set(program.figures) <= peer.cannot.keys():
            continue
        if session.quick and peer not in _BY_USER and interval not in _QUICK_INTERVALS_OF_PEERS:
            continue
        if as_user and (refusal := _refusal(environment)):
            session.results.gaps.append(Gap(PART, row, peer.name, refusal))
            continue
        delays = _delays(rounds, min(interval, 1.0), _QUIET + _MORE_QUIET.get(peer, 0), moments)
        measures[peer.name] = functools.partial(
            _run, peer, environment, program, interval, as_user=as_user, delays=delays
        )
    session.take_turns(PART, row, rounds, measures)


def _delays(rounds: int, width: float, quiet: float, moments: random.Random) -> Iterator[float]:
    """Give the seconds before each round's program begins, spread over a part of the interval."""
    for number in range(rounds):
        yield quiet + width * (number + moments.random()) / rounds


@functools.cache
def _refusal(environment: Environment) -> str:
    """Return why an ordinary user cannot run a peer; empty if it can."""
    if shutil.which('setpriv') is None:
        return 'setpriv is not installed'
    words = [*_BECOME_USER, environment.python, '-c', f'import json, gpu_tracker.cli; open({_PROGRAM!r})']
    done = subprocess.run(words, env=environment.variables(), cwd='/', capture_output=True, check=False)
    return 'an ordinary user cannot read the interpreter, the package or the checkout' if done.returncode else ''


def _run(
    peer: Peer, environment: Environment, program: Program, interval: float, *, as_user: bool, delays: Iterator[float]
) -> dict[str, float]:
    """Return what a peer says of each figure, whether as a lower bound, and what is true."""
    copies_status = program.words[0] in {'dd', 'sort'}
    true = {'peak': _peak(program, as_user=as_user)} if 'peak' in program.figures and not copies_status else {}
    with tempfile.TemporaryDirectory(prefix='truth-', dir=ON_DISK) as name:
        folder = Path(name)
        planned = Run(_words(program, folder, next(delays)), interval, folder)
        command = peer.command(environment, planned)
        command = _as_user(command, folder) if as_user else command
        with started(command, folder, environment.variables(HOME=name), uuid.uuid4().hex) as process:
            wait_for_end(process)
        report = peer.report(planned, output_of(folder))
        true |= _told(folder)
    values: dict[str, float] = {}
    for figure, said in (('peak', report.peak_bytes), ('cpu', report.cpu_seconds)):
        if figure in program.figures and figure not in peer.cannot:
            values |= {f'true {figure}': true[figure], f'{figure} is lower bound': figure in report.lower_bounds}
            values |= {} if said is None else {figure: said}
    return values


def _as_user(command: Sequence[str], folder: Path) -> list[str]:
    """Return the words for an ordinary user to run a command, and give the folder to that user."""
    for path in (folder, *folder.iterdir()):
        os.chown(path, _USER_ID, _USER_ID)
    return [*_BECOME_USER, *command]


def _words(program: Program, folder: Path, delay: float) -> list[str]:
    name, *more = program.words
    if name == 'dd':
        return ['dd', 'if=/proc/self/status', f'of={folder / "status"}', 'bs=64k', 'status=none']
    if name == 'sort':
        (folder / 'lines').write_text(8 * ('x' * 999_999 + '\n'), encoding='ascii')
        return ['sort', '-o', str(folder / 'status'), str(folder / 'lines'), '/proc/self/status']
    return [base_python(), _PROGRAM, str(folder), name, f'{delay:.3f}', *more]


def _told(folder: Path) -> dict[str, float]:
    """Return what a program has written about itself."""
    if (folder / 'status').exists():
        status = (folder / 'status').read_text(encoding='utf-8', errors='replace')
        return {'peak': int(status.partition('\nVmHWM:')[2].split()[0]) * 1024.0}
    told: dict[str, float] = json.loads((folder / 'told').read_text(encoding='utf-8'))
    return told


@functools.cache
def _peak(program: Program, *, as_user: bool) -> float:
    """Return the bytes of a program at its largest: the page frames of its processes, which hold still.

    :param as_user: Python may have some megabytes less then.
    """
    if os.geteuid() != 0:
        raise FailedError('the truth needs root')

    def look(pids: Sequence[int], _: Mapping[str, float]) -> dict[str, float]:
        time.sleep(_STILL)
        return {'peak': float(union_of_frames(pids))}

    with tempfile.TemporaryDirectory(prefix='truth-', dir=ON_DISK) as name:
        folder = Path(name)
        words = _words(program, folder, 0)
        with Stage(folder) as stage:
            command = _as_user(words, folder) if as_user else words
            with started(command, folder, {**os.environ, 'HOME': name}, uuid.uuid4().hex) as process:
                return stage.follow(process, look)['peak']


def table(results: Results) -> Table:
    """Return the table of what :func:`measure` has found."""
    rows = [row for row in results.rows(PART) if row.startswith(_PREFIX)]
    peers = [peer.name for peer in PEERS if peer.name in results.peers(PART)]
    cells = []
    for row in rows:
        for figure, kind in _KINDS.items():
            by_peer = [results.rounds(PART, row, peer, f'true {figure}') for peer in peers]
            true = [value for rounds in by_peer for value in rounds.values()]
            if true:
                texts = [_cell(results, row, peer, figure) for peer in peers]
                cells.append([f'{row.removeprefix(_PREFIX)}: {kind}', _plain(figure, true), *texts])
    gaps = [gap for gap in results.gaps if gap.part == PART and gap.row.startswith(_PREFIX)]
    reasons = {(gap.peer, _WITHOUT_ROOT if gap.row.endswith(_WITHOUT_ROOT) else '', gap.reason) for gap in gaps}
    notes = [f'{DASH} {peer}{user}: {reason}' for peer, user, reason in sorted(reasons)]
    return Table(
        'Hard programs: the figure as a multiple of the truth', ['program', 'truth', *peers], cells, _TEXT, notes
    )


_TEXT = (
    '≥: the JSON reports the figure as a lower bound. Bold: more than 5 % too low without that mark, or more than 5 % '
    'too high. Of several rounds: the median, the range if it is wider than 5 %, and the number that is wrong. '
    'The truth of RAM is the number of page frames at the largest moment, counted in a run of its own; commands '
    'that end at once report their high-water mark. The truth of CPU is what the programs report by getrusage. Other '
    'tools are measured as the user that runs the benchmark, with --quick at 1 s only.'
)


def _cell(results: Results, row: str, peer: str, figure: str) -> str:
    said, true, marks = (
        results.rounds(PART, row, peer, kind) for kind in (figure, f'true {figure}', f'{figure} is lower bound')
    )
    if not said:
        return 'unknown' if true else DASH
    ratios = {number: value / true[number] for number, value in said.items()}
    wrong = sum(ratio > 1 + _NEAR or (ratio < 1 - _NEAR and not marks[number]) for number, ratio in ratios.items())
    text = f'{statistics.median(ratios.values()):.3f}'
    if max(ratios.values()) - min(ratios.values()) > _NEAR:
        text += f' ({min(ratios.values()):.2f} to {max(ratios.values()):.2f})'
    text = '≥ ' * any(marks.values()) + text
    if not wrong:
        return text
    return f'**{text}**' + (f' {wrong} of {len(ratios)}' if len(ratios) > 1 else '')


def _plain(figure: str, true: Iterable[float]) -> str:
    value = statistics.median(true)
    return f'{value:.2f} s' if figure == 'cpu' else f'{value / 1e6:,.1f} MB'
