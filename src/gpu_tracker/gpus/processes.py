"""Whose a process on a GPU is, what it runs and since when."""

from __future__ import annotations

import functools
import os
import shlex
import sys
import time

from gpu_tracker.gpus.command_lines import program_of
from gpu_tracker.gpus.model import GpuProcess
from gpu_tracker.gpus.process_ids import IDLE_GUARDIAN, has_open, in_initial_pid_namespace
from gpu_tracker.processes import stat
from gpu_tracker.system.users import user_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from collections.abc import Set as AbstractSet


_LONGEST_COMMAND = 4000
"""Characters of a command line that are kept: it is what any user wants it to be, and may have two million."""
_LONGEST_PROGRAM = 200
_MOST_ANCESTORS = 100


class ProcessLookup:
    """Looks the processes of GPUs up, each once, and each user once: the directory of users may be far away.

    In a container the driver may tell process IDs that mean nothing, or somebody else, there. So in a PID namespace of
    its own only processes that compute on a GPU are taken for those that the driver means.

    :param proc: The folder of proc(5).
    :param compute_files: What a process has open while it computes on a GPU.
    :param is_certain: Whether the driver's process IDs are ours; None: find out.
    :param name_of: Returns the name of the user with an ID.
    """

    def __init__(
        self,
        proc: str = '/proc',
        compute_files: AbstractSet[str] = frozenset(),
        *,
        is_certain: bool | None = None,
        name_of: Callable[[int], str] = user_name,
    ) -> None:
        self._proc = proc
        self._compute_files = compute_files
        self._name_of = functools.cache(name_of)
        self._is_certain = in_initial_pid_namespace() if is_certain is None else is_certain
        self._known: dict[int, GpuProcess] = {}

    def describe(self, entries: Iterable[GpuProcess]) -> tuple[GpuProcess, ...]:
        """Return the processes of a GPU by pid; one that is on it more than once has the sum of its memory."""
        found: dict[int, GpuProcess] = {}
        for entry in entries:
            process = self._process(entry.pid)
            process = process._replace(memory=entry.memory, computes=entry.computes, utilization=entry.utilization)
            earlier = found.get(entry.pid)
            if earlier is not None:
                both = None if None in {earlier.memory, entry.memory} else (earlier.memory or 0) + (entry.memory or 0)
                process = process._replace(memory=both, computes=earlier.computes or entry.computes)
            found[entry.pid] = process
        return tuple(found[pid] for pid in sorted(found))

    def _process(self, pid: int) -> GpuProcess:
        process = self._known.get(pid)
        if process is None:
            is_ours = self._is_certain or has_open(pid, self._compute_files)
            process = self._known[pid] = self._look_up(pid) if is_ours else GpuProcess(pid)
        return process

    def _look_up(self, pid: int) -> GpuProcess:
        if sys.platform != 'linux':
            return _ask_psutil(pid)
        folder = f'{self._proc}/{pid}'
        try:
            owner = os.stat(folder).st_uid  # the folder itself is the effective user's even where its files are root's
            line = _content(f'{folder}/stat')
            words = _content(f'{folder}/cmdline').decode(errors='replace').removesuffix('\0').split('\0')
        except OSError:  # it has ended meanwhile, or /proc hides other users' processes
            return GpuProcess(pid)
        if words == ['']:  # a zombie, or a part of the kernel
            words = [line[line.index(b'(') + 1 : line.rindex(b')')].decode(errors='replace')]
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - stat.start(line) / stat.TICKS_PER_SECOND
        started = time.time() - age  # before the name is asked for, which may take long
        process = _process(pid, self._name_of(owner), started, words)
        return process._replace(is_idle_program=self._is_idle_program(line))

    def _is_idle_program(self, line: bytes) -> bool:
        """Return whether the process with this line of ``stat`` is below the guardian of an idle monitor's program.

        All users may read that of each other's processes. Who pretends it has only said that a process may be ended.
        """
        for _ in range(_MOST_ANCESTORS):
            parent = int(line[line.rindex(b')') + 2 :].split()[1])
            if parent <= 1:
                return False
            try:
                line = _content(f'{self._proc}/{parent}/stat')
            except OSError:
                return False
            if line[line.index(b'(') + 1 : line.rindex(b')')] == IDLE_GUARDIAN:
                return True
        return False


def _process(pid: int, user: str, started: float, words: Sequence[str]) -> GpuProcess:
    command, program = _cut(shlex.join(words), _LONGEST_COMMAND), _cut(program_of(words), _LONGEST_PROGRAM)
    return GpuProcess(pid, user=user, started=started, command=command, program=program)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f'{text[: longest - 1]}…'


def _ask_psutil(pid: int) -> GpuProcess:
    import psutil  # noqa: PLC0415 - on Linux /proc is read, which saves 30 ms

    try:
        process = psutil.Process(pid)
        return _process(pid, process.username(), process.create_time(), process.cmdline() or [process.name()])
    except psutil.Error:
        return GpuProcess(pid)


def _content(path: str) -> bytes:
    with open(path, 'rb') as file:
        return file.read()
