"""What tools say of programs of which it is known what they use, beside the truth.

The truth is found in other ways than the tools have: by the program's own ``getrusage`` and high-water mark, by the CPU
clocks of processes that hold still, and by counting the page frames that processes have mapped.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import pwd
import re
import select
import shutil
import statistics
import tempfile
import time
import uuid
from array import array
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from benchmarks.environments import base_python
from benchmarks.peers import Run
from benchmarks.running import PROGRAMS, output_of, started, wait_for_end
from benchmarks.session import FailedError, reason_of
from benchmarks.tables import DASH, Table

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from benchmarks.environments import Environment
    from benchmarks.peers import Peer

    Look = Callable[[Sequence[int], Mapping[str, float]], dict[str, float]]
    """Returns what is true of processes that hold still; the second argument is what their program has told."""

_PROGRAM = PROGRAMS / 'known.py'
_NEAR = 0.05
"""A peak counts as seen where it is told with no larger error."""

_STILL = 0.75
"""Seconds for which processes hold still before and after they are looked at."""
_ATTACHED = 2.0
"""Seconds that a tool is attached."""
_LONGEST = 60.0
"""Seconds that a run may take."""
ON_DISK = '/var/tmp'  # noqa: S108 - by the standard on a disk, where /tmp may be in memory
_UNPRIVILEGED = 'nobody'
_OTHER = 'daemon'
_PRESENT = 1 << 63
_FRAME = (1 << 55) - 1
_WORD = 8

_FIGURES = {'peak', 'cpu'}
"""What is compared of what peers say, by the names that they have for it."""
_LIBRARIES = ('gpu_tracker', 'memory_profiler')
"""The modules that ``known.py arrays`` can use."""


@dataclass(frozen=True)
class Workload:
    """A program of ``programs/known.py``.

    :ivar title: As the table calls it.
    :ivar words: The program's name and its arguments.
    :ivar figures: What is compared: ``peak`` (bytes) and ``cpu`` (seconds).
    :ivar interval: Seconds between two samples.
    :ivar rounds: The number of rounds where it is not that of the others.
    :ivar frames: The truth needs root: page frames are counted.
    """

    title: str
    words: tuple[str, ...]
    figures: tuple[str, ...] = ('peak',)
    interval: float = 0.1
    rounds: int | None = None
    frames: bool = False


SPIKE = Workload('a spike of 500 MB for 0.1 s, sampled each 1 s', ('spike',), interval=1, rounds=10)
ARRAYS = Workload('5 arrays of 200 MB, allocated before the start', ('arrays',))
OTHER_USER = Workload('200 MB in a child of another user', ('other-user',), frames=True)
WORKLOADS = (
    Workload('200 children of 20 ms, sampled each 0.1 s', ('children',), ('cpu',)),
    Workload('200 children of 20 ms, sampled each 1 s', ('children',), ('cpu',), interval=1),
    SPIKE,
    ARRAYS,
    Workload('a fork tree: 300 MB inherited by 4', ('fork-tree',), frames=True),
    Workload('300 MB of POSIX shared memory in 2 programs', ('shared-memory', 'shm'), frames=True),
    Workload('300 MB of a memfd in 2 programs', ('shared-memory', 'memfd'), frames=True),
    Workload('300 MB of a mapped file in 2 programs', ('shared-memory', 'file'), frames=True),
    Workload('a daemon, forked twice, of 200 MB and 0.5 s', ('daemon',), ('peak', 'cpu'), frames=True),
    OTHER_USER,
)


@dataclass
class Comparison:
    """What a peer said of one figure of a workload in several rounds, beside what was true, in base units.

    :ivar said: One value a round that gave one.
    :ivar truth: What was true in the same rounds.
    :ivar failures: Why rounds gave none.
    """

    workload: str
    figure: str
    interval: float
    peer: str
    said: list[float] = field(default_factory=list)
    truth: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        """What was said divided by what was true, a round each."""
        return [said / truth for said, truth in zip(self.said, self.truth, strict=True)]

    def as_dict(self) -> dict[str, Any]:
        """Return it for a JSON file, with the median."""
        ratios = self.ratios
        return asdict(self) | {
            'ratio': statistics.median(ratios) if ratios else None,
            'near': sum(abs(ratio - 1) <= _NEAR for ratio in ratios),
        }


def run(
    peers: Sequence[Peer],
    environments: Mapping[str, Environment],
    rounds: int,
    progress: Callable[[str], object],
    workloads: Sequence[Workload] = WORKLOADS,
) -> list[dict[str, Any]]:
    """Compare what peers say with what is true; return one item a workload, figure and peer.

    :param environments: By the names of the peers; one that has none is left out, and one that has no such figures.
    """
    able = [peer for peer in peers if peer.name in environments and not peer.cannot.keys() >= _FIGURES]
    compared = []
    for workload in workloads:
        compared += _compare(able, environments, workload, workload.rounds or rounds, progress)
    return [comparison.as_dict() for comparison in compared]


def _compare(
    peers: Sequence[Peer],
    environments: Mapping[str, Environment],
    workload: Workload,
    rounds: int,
    progress: Callable[[str], object],
) -> list[Comparison]:
    """Run a workload with all peers in turn, again and again; a peer that fails is not tried again."""
    comparisons = {
        peer: [Comparison(workload.title, figure, workload.interval, peer.name) for figure in workload.figures]
        for peer in peers
    }
    able = []
    for peer in peers:
        if refusal := _refusal(peer, workload):
            for comparison in comparisons[peer]:
                comparison.failures.append(refusal)
        else:
            able.append(peer)
    for number in range(rounds):
        for peer in able[:]:
            progress(f'truth: {workload.title}, round {number + 1} of {rounds}: {peer.name}')
            if not _compare_once(peer, environments[peer.name], workload, number / rounds, comparisons[peer]):
                able.remove(peer)
    return [comparison for peer in peers for comparison in comparisons[peer]]


def _compare_once(
    peer: Peer, environment: Environment, workload: Workload, phase: float, comparisons: list[Comparison]
) -> bool:
    """Take over what a peer says in one round; tell whether it has not failed."""
    try:
        said, truth = _round(peer, environment, workload, phase)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong with a peer must not end the others' run
        for comparison in comparisons:
            comparison.failures.append(reason_of(error))
        return False
    for comparison in comparisons:
        value = said[comparison.figure]
        if comparison.figure in peer.cannot or value is None:
            comparison.failures.append(peer.cannot.get(comparison.figure, 'does not tell'))
        else:
            comparison.said.append(value)
            comparison.truth.append(truth[comparison.figure])
    return True


def _refusal(peer: Peer, workload: Workload) -> str | None:
    """Return why this need not be tried."""
    if all(figure in peer.cannot for figure in workload.figures):
        return peer.cannot[workload.figures[0]]
    if workload.frames and os.geteuid() != 0:
        return 'the truth needs root'
    if workload is ARRAYS and peer.module not in _LIBRARIES and peer.module not in _ATTACHING:
        return 'starts the program itself, so it is always there before the arrays'
    return None


def _round(
    peer: Peer, environment: Environment, workload: Workload, phase: float
) -> tuple[dict[str, float | None], dict[str, float]]:
    """Run a workload once; return what the peer says of each figure, and what is true.

    :param phase: The part of a sampling interval by which something is to be late.
    """
    with tempfile.TemporaryDirectory(prefix='truth-', dir=ON_DISK) as name:
        folder = Path(name)
        words = [base_python(), str(_PROGRAM), name, *workload.words]
        if workload is ARRAYS:
            return _attached_round(peer, environment, Run([], workload.interval, folder))
        if workload is OTHER_USER:
            return _unprivileged_round(peer, environment, Run(words, workload.interval, folder))
        if workload is SPIKE:
            words.append(f'{1 + phase * workload.interval:.2f}')
        planned = Run(words, workload.interval, folder)
        command = peer.command(environment, planned)
        with Stage(folder) as stage, started(command, folder, environment.variables(), _mark()) as process:
            truth = stage.follow(process, _frames_and_clocks)
        return _said(peer, planned), truth


def _unprivileged_round(
    peer: Peer, environment: Environment, planned: Run
) -> tuple[dict[str, float | None], dict[str, float]]:
    """Do the same with a tool that runs as an unprivileged user, for a program that starts one of another user.

    Neither the checkout, nor the caller's interpreter, nor what is first on the caller's path need be where that user
    may look.
    """
    user = pwd.getpwnam(_UNPRIVILEGED)
    folder = planned.folder
    python = shutil.which('python3', path=os.defpath) or base_python()
    words = [python, shutil.copy(str(_PROGRAM), str(folder)), *planned.program[2:], str(folder / 'dd')]
    planned = Run(words, planned.interval, folder)
    become = ['setpriv', f'--reuid={user.pw_uid}', f'--regid={user.pw_gid}', '--clear-groups', '--']
    variables = environment.variables(HOME=str(folder), PATH=f'{environment.program("")}{os.pathsep}{os.defpath}')

    def look(pids: Sequence[int], told: Mapping[str, float]) -> dict[str, float]:
        if os.stat(f'/proc/{pids[-1]}').st_uid == user.pw_uid:
            raise FailedError('this system starts no set-user-ID programs here')
        return _frames_and_clocks(pids, told)

    with Stage(folder) as stage:
        (folder / 'output').touch()
        for path in (folder, *folder.iterdir()):
            os.chown(path, user.pw_uid, user.pw_gid)
        _make_foreign_program(folder / 'dd')
        command = [*become, *peer.command(environment, planned)]
        with started(command, folder, variables, _mark()) as process:
            truth = stage.follow(process, look)
    return _said(peer, planned), truth


def _make_foreign_program(path: Path) -> None:
    """Make a ``dd`` that runs as another user, whoever starts it, in a folder where only few may look."""
    if os.statvfs(path.parent).f_flag & os.ST_NOSUID:
        raise FailedError('the folder for temporary files has no set-user-ID programs')
    shutil.copyfile(str(shutil.which('dd')), path)
    os.chown(path, pwd.getpwnam(_OTHER).pw_uid, -1)
    path.chmod(0o4755)


def _attached_round(
    peer: Peer, environment: Environment, planned: Run
) -> tuple[dict[str, float | None], dict[str, float]]:
    """Do the same with a library in a program that has its memory already, or with a tool attached to the program."""
    library = peer.module in _LIBRARIES
    python = environment.python if library else base_python()
    words = [python, str(_PROGRAM), str(planned.folder), 'arrays']
    words += [str(peer.module), f'{planned.interval:g}'] if library else ['', '0']

    with (
        Stage(planned.folder) as stage,
        started(words, planned.folder, environment.variables(), _mark()) as program,
        contextlib.ExitStack() as tools,
    ):

        def attach(pids: Sequence[int], _: Mapping[str, float]) -> dict[str, float]:
            command = _ATTACHING[str(peer.module)](environment, planned, pids[0])
            tool = tools.enter_context(started(command, planned.folder, environment.variables(), _mark()))
            tools.callback(wait_for_end, tool)
            time.sleep(_ATTACHED)
            return {'peak': float(_resident(pids[0]))}

        truth = stage.follow(program, attach)
    if library:
        return {'peak': truth['said']}, truth
    return _said(peer, planned), truth


def _psrecord(environment: Environment, planned: Run, pid: int) -> list[str]:
    options = ['--interval', f'{planned.interval:g}', '--include-children', '--log-format', 'csv']
    return [environment.program('psrecord'), str(pid), *options, '--log', str(planned.folder / 'log')]


def _procpath(environment: Environment, planned: Run, pid: int) -> list[str]:
    options = ['-i', f'{planned.interval:g}', '-d', str(planned.folder / 'records'), '-f', 'stat']
    query = f'$..children[?(@.stat.pid == {pid})]'
    return [environment.program('procpath'), 'record', *options, '--stop-without-result', query]


def _denet(environment: Environment, planned: Run, pid: int) -> list[str]:
    milliseconds = round(planned.interval * 1000)
    call = (
        f'import denet; denet.ProcessMonitor.from_pid(pid={pid}, base_interval_ms={milliseconds}, '
        f'max_interval_ms={milliseconds}, output_file={str(planned.folder / "log")!r}, quiet=True).run()'
    )
    return [environment.python, '-c', call]


_ATTACHING: Mapping[str, Callable[[Environment, Run, int], list[str]]] = {
    'psrecord': _psrecord,
    'procpath': _procpath,
    'denet': _denet,
}
"""By its module, how a peer measures a process that runs already, with the same files as else."""


class Stage:
    """The named pipes between a program and those who look at it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in ('told', 'go'):
            os.mkfifo(folder / name)

    def __enter__(self) -> Self:
        """Open the pipes."""
        # Open for both ways: so neither opening waits, and nothing ends when a program does.
        self._told = os.open(self._folder / 'told', os.O_RDWR | os.O_CLOEXEC)
        self._go = os.open(self._folder / 'go', os.O_RDWR | os.O_CLOEXEC)
        return self

    def __exit__(self, *_: object) -> None:
        """Close the pipes."""
        os.close(self._told)
        os.close(self._go)

    def follow(
        self,
        process: subprocess.Popen[bytes],
        look: Look,
    ) -> dict[str, float]:
        """Wait for the end of a process and return what is true of its program.

        :param look: Called while the program holds still, with its processes and with what it has told.
        """
        truth: dict[str, float] = {}
        deadline = time.monotonic() + _LONGEST
        while (line := self._line()) or process.poll() is None:
            if line is not None:
                told = json.loads(line)
                held = told.pop('hold', None)
                truth |= told
                if held:
                    truth |= look(held, told)
                    os.write(self._go, b'\n')
            elif time.monotonic() > deadline:
                raise FailedError(f'did not end within {_LONGEST:.0f} s')
        if not truth:
            raise FailedError(_last_line(self._folder) or 'did not run the program')
        return truth

    def _line(self) -> bytes | None:
        """Return the next line that a program has told; None where it tells nothing for a moment."""
        if not select.select([self._told], [], [], 0.05)[0]:
            return None
        line = b''
        while not line.endswith(b'\n'):
            line += os.read(self._told, 1)
        return line


def _frames_and_clocks(pids: Sequence[int], told: Mapping[str, float]) -> dict[str, float]:
    time.sleep(_STILL)
    true = {
        'peak': float(union_of_frames(pids)),
        'cpu': told.get('waited_for', 0.0) + sum(time.clock_gettime(_cpu_clock(pid)) for pid in pids),
    }
    time.sleep(_STILL)
    return true


def _cpu_clock(pid: int) -> int:
    """Return the clock of a process' CPU time, as clock_getcpuclockid(3) makes it."""
    return (~pid << 3) | 2


def _resident(pid: int) -> int:
    """Return VmRSS in bytes."""
    status = Path(f'/proc/{pid}/status').read_text(encoding='utf-8', errors='replace')
    return int(status.partition('\nVmRSS:')[2].split()[0]) * 1024


def _said(peer: Peer, planned: Run) -> dict[str, float | None]:
    """Return what a peer tells after a run."""
    try:
        report = peer.report(planned, output_of(planned.folder))
    except Exception as error:  # a tool that has failed may have left anything
        reason = _last_line(planned.folder) or f'leaves no result ({error!r})'
        raise FailedError(reason) from error
    return {'peak': report.peak_bytes, 'cpu': report.cpu_seconds}


def _last_line(folder: Path) -> str:
    return (output_of(folder).strip().splitlines() or [''])[-1].strip()


def _mark() -> str:
    """Return what all processes of one run are known by."""
    return uuid.uuid4().hex


def table(compared: Sequence[Mapping[str, Any]]) -> Table:
    """Return the table of what :func:`run` has returned."""
    peers = list(dict.fromkeys(item['peer'] for item in compared))
    cells = {(_row(item), item['peer']): _cell(item) for item in compared}
    truth: dict[str, list[float]] = {}
    reasons: dict[tuple[str, str], list[str]] = {}
    for item in compared:
        truth.setdefault(_row(item), []).extend(item['truth'])
        for reason in dict.fromkeys(item['failures']):
            reasons.setdefault((item['peer'], reason), []).append(_row(item))
    return Table(
        'What is told, as a multiple of what is true',
        ['workload', 'truth', *peers],
        [[row, _plain(row, true), *(cells.get((row, peer), DASH) for peer in peers)] for row, true in truth.items()],
        _TEXT,
        [f'{DASH} {peer}, {"; ".join(rows)}: {reason}' for (peer, reason), rows in reasons.items()],
    )


_NAMES = {'peak': 'peak memory', 'cpu': 'CPU time'}
_TEXT = (
    f'The median of the rounds, with their range where one is more than {_NEAR} off; a spike is seen where the error '
    f'is {_NEAR:.0%} at most. Truth is what the programs tell of themselves by getrusage and their high-water mark; of '
    'several processes, it is their CPU clocks and the number of page frames that they have mapped. Tools that add up '
    'resident sizes count a page once for each process that has it. GNU time tells the size of the largest process.'
)


def _row(item: Mapping[str, Any]) -> str:
    return f'{item["workload"]}: {_NAMES[item["figure"]]}'


def _plain(row: str, true: Sequence[float]) -> str:
    if not true:
        return DASH
    value = statistics.median(true)
    return f'{value:.2f} s' if row.endswith(_NAMES['cpu']) else f'{value / 1e6:,.0f} MB'


def _cell(item: Mapping[str, Any]) -> str:
    if item['ratio'] is None:
        return DASH
    middle = f'{item["ratio"]:.3f}'
    if item['workload'] == SPIKE.title:
        return f'{middle} ({item["near"]} of {len(item["said"])} seen)'
    ratios = [said / true for said, true in zip(item['said'], item['truth'], strict=True)]
    if max(abs(ratio - item['ratio']) for ratio in ratios) > _NEAR:
        return f'{middle} ({min(ratios):.2f} to {max(ratios):.2f})'
    return middle


def union_of_frames(pids: Iterable[int]) -> int:
    """Return the bytes of distinct physical pages that processes have mapped, from /proc/PID/pagemap (root only)."""
    frames: set[int] = set()
    for pid in pids:
        # Without [vdso], [vvar] and the like: those are the kernel's.
        ranges = re.findall(
            r'^([0-9a-f]+)-([0-9a-f]+) (?!.*\[v)',
            Path(f'/proc/{pid}/maps').read_text(encoding='utf-8', errors='replace'),
            re.MULTILINE,
        )
        with open(f'/proc/{pid}/pagemap', 'rb', 0) as pagemap:
            for low, high in ((int(low, 16), int(high, 16)) for low, high in ranges):
                pagemap.seek(low // mmap.PAGESIZE * _WORD)
                entries = array('Q', pagemap.read((high - low) // mmap.PAGESIZE * _WORD))
                frames.update([entry & _FRAME for entry in entries if entry & _PRESENT])
    return len(frames) * mmap.PAGESIZE
