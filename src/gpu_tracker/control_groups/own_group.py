"""The control group of one run, in one hierarchy or in several, and what its own files say of the run.

Version 2 has one hierarchy. Where controllers are still in hierarchies of version 1, which can stand beside it, the run
has a group in each.
"""

from __future__ import annotations

import errno
import os
import time

from gpu_tracker.control_groups import making, marks, storage
from gpu_tracker.control_groups.oom_kills import counter_of, has_reached_limit
from gpu_tracker.control_groups.places import text_in
from gpu_tracker.units import from_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from gpu_tracker.result.usage import OwnGroupUsage
    from gpu_tracker.units import Units

V1, V2, BOTH, SCOPE = 'cgroup v1', 'cgroup v2', 'cgroup v1 and v2', 'systemd scope'
"""Where a group was made."""

FIGURES = (
    'memory_peak',
    'cpu',
    'user_cpu',
    'system_cpu',
    'read',
    'written',
    'max_tasks',
    'oom_kills',
    'left_processes',
)
"""What is known of a run at its end, in bytes, seconds and counts; None where nobody counts it."""

_MICROSECONDS, _NANOSECONDS = 1e-6, 1e-9
LONGEST_END = 7.0
"""Seconds for the end of a group, in which samplers may complete recordings for five.

A process that was killed may have gigabytes to give back before it is gone.
"""
_MISSING = (
    ('memory_peak', 'the peak of memory (it needs the memory controller and Linux 5.19)'),
    ('cpu', 'CPU time'),
    ('read', 'what was read from storage (the io controller)'),
    ('written', 'what was written to storage (the io controller of version 2)'),
    ('max_tasks', 'processes and threads (the pids controller and Linux 6.1)'),
)


class OwnGroup:
    """The group. Nothing is in it before :meth:`enter`.

    :param unified: The folder of the group of version 2; None: there is none.
    :param legacy: Those of version 1, by controller.
    :param made_in: One of the constants above.
    :param notes: Why it may not count all there is, as parts of a sentence.
    :param close: Called when the groups are removed, to undo what had to be done for them.
    :ivar spares: Whether the process with a pid gets no SIGKILL now; it may be set.
    """

    def __init__(
        self,
        unified: str | None,
        legacy: Mapping[str, str],
        made_in: str,
        close: Callable[[], None] = lambda: None,
        *,
        notes: Sequence[str] = (),
    ) -> None:
        self.unified = unified
        self.legacy = dict(legacy)
        self.made_in = made_in
        self.notes = notes
        self.spares: Callable[[int], bool] = lambda _: False
        self._close = close
        self._kills = counter_of(self._memory_of_unified(), self.legacy.get('memory'))

    @property
    def folders(self) -> list[str]:
        """The folders of the groups, that of version 2 first."""
        unified = [] if self.unified is None else [self.unified]
        return [*unified, *dict.fromkeys(self.legacy.values())]

    def enter(self, pid: int) -> None:
        """Put a process into the group, with all that it will start.

        :raises OSError: That is not permitted, or it has ended.
        """
        for folder in self.folders:
            making.enter(folder, pid)

    def limit_memory(self, size: int) -> None:
        """Let the whole group have no more than ``size`` bytes; past them the kernel ends all of it (version 2).

        In groups of version 1 the kernel ends the process that suits it.

        :raises OSError: The group has no memory controller, does not count whom the kernel ends, or takes no such
            limit.
        """
        folder = self._memory_of_unified()
        if folder is None and 'memory' not in self.legacy:
            raise OSError(errno.ENOENT, 'the control group of the command has no memory controller')
        if self._oom_kills() is None:
            raise OSError(
                errno.ENOENT, 'the control group of the command does not count processes killed for lack of memory'
            )
        if size < os.sysconf('SC_PAGE_SIZE'):  # which the kernel would take for 0
            raise OSError(errno.EINVAL, 'the limit is smaller than one page of memory')
        if folder is not None:
            making.write(f'{folder}/memory.max', str(size))
            _write_if_there(f'{folder}/memory.swap.max', '0')
            _write_if_there(f'{folder}/memory.oom.group', '1')
            return
        making.write(f'{self.legacy["memory"]}/memory.limit_in_bytes', str(size))
        _write_if_there(f'{self.legacy["memory"]}/memory.memsw.limit_in_bytes', str(size))

    def memory_kills(self) -> int:
        """Return how many processes the kernel has ended in the group; 0 where that has not reached its own limit.

        Others may be ended for the limits of groups around it, or of groups that the command has made below it. Whether
        it has reached its limit may be unknown; then it has, for who is ended in it is ended for some limit.
        """
        kills = self._oom_kills() or 0
        folder = self._memory_of_unified()
        if folder is not None:
            events = text_in(folder, 'memory.events.local') or text_in(folder, 'memory.events')
            return kills if events is None or _fields(events).get('oom', 0) > 0 else 0
        if self._kills is None or has_reached_limit(self.legacy['memory']) is False:
            return 0
        return self._kills.unexplained

    def processes(self) -> list[int]:
        """Return the processes in the group, by pid."""
        return making.processes_in(self.folders[0])

    def kill(self, timeout: float = LONGEST_END) -> None:
        """Send SIGKILL to all that is in the group and not spared, and to what is forked meanwhile.

        :param timeout: Seconds in which it is to be done, all folders together.
        """
        deadline = time.monotonic() + timeout
        for folder in self.folders:
            making.kill(folder, deadline - time.monotonic(), self.spares)

    def end(self, timeout: float = LONGEST_END) -> dict[str, Any]:
        """End what is left in the group, remove it, and return its :data:`FIGURES`.

        With them stand ``made_in`` and, where something is unknown or could not be done, ``problem``. Who is spared
        counts for none that was left.

        :param timeout: Seconds to wait for all that, at most.
        """
        left = sum(not self.spares(pid) for pid in self.processes())
        deadline = time.monotonic() + timeout
        making.eventually(lambda: self._is_ended(deadline), timeout)
        found = {**self.figures(), 'left_processes': left, 'made_in': self.made_in}
        stuck = self.remove(deadline - time.monotonic())
        missing = [text for name, text in _MISSING if found[name] is None]
        sentences = [f'not counted: {", ".join(missing)}', *self.notes] if missing else []
        if stuck:
            sentences.append(f'{" and ".join(stuck)} could not be removed: processes in it do not end')
        return {**found, 'problem': '; '.join(sentences) or None}

    def figures(self) -> dict[str, Any]:
        """Return what the group has used so far: those of :data:`FIGURES` that its files have."""
        user = system = cpu = None
        if self.unified is not None:
            stat = _fields(text_in(self.unified, 'cpu.stat'))
            cpu, user, system = (
                _scaled(stat.get(f'{name}_usec'), _MICROSECONDS) for name in ('usage', 'user', 'system')
            )
        elif 'cpuacct' in self.legacy:
            folder = self.legacy['cpuacct']
            cpu = _scaled(_number(text_in(folder, 'cpuacct.usage')), _NANOSECONDS)
            stat = _fields(text_in(folder, 'cpuacct.stat'))
            user, system = (_scaled(stat.get(name), 1 / os.sysconf('SC_CLK_TCK')) for name in ('user', 'system'))
        read, written = self._storage()
        return {
            'memory_peak': self._memory('memory.peak', 'memory.max_usage_in_bytes'),
            'cpu': cpu,
            'user_cpu': user,
            'system_cpu': system,
            'read': read,
            'written': written,
            'max_tasks': self._tasks(),
            'oom_kills': self._oom_kills(),
        }

    def remove(self, timeout: float = LONGEST_END) -> list[str]:
        """Remove the group, in which nothing is any more; return the folders that could not be removed.

        :param timeout: Seconds to wait for that, at most, all folders together.

        Groups of version 1 that have counted kills stay within the group of another tracker's run, which adds them up
        and removes them with its own.
        """
        kept = self._kept_for_run_around()
        deadline = time.monotonic() + timeout
        folders = [folder for folder in self.folders if folder != kept]
        stuck = [folder for folder in folders if not making.remove(folder, deadline - time.monotonic())]
        if self._kills is not None:
            self._kills.close()
        self._close()
        return stuck

    def _is_ended(self, deadline: float) -> bool:
        """Return whether nothing is left in the group, and send SIGKILL to what is."""
        if not any(map(making.processes_in, self.folders)):
            return True
        self.kill(deadline - time.monotonic())
        return False

    def _kept_for_run_around(self) -> str | None:
        folder = self.legacy.get('memory', '')
        return folder if marks.is_of_run(os.path.dirname(folder)) and self._oom_kills() else None

    def _memory_of_unified(self) -> str | None:
        """Return the folder of the group of version 2 if that counts memory."""
        folder = self.unified
        return folder if folder is not None and os.path.exists(f'{folder}/memory.current') else None

    def _memory(self, of_unified: str, of_legacy: str) -> int | None:
        folder = self._memory_of_unified()
        if folder is not None:
            return _number(text_in(folder, of_unified))
        return _number(text_in(self.legacy['memory'], of_legacy)) if 'memory' in self.legacy else None

    def _oom_kills(self) -> int | None:
        return None if self._kills is None else self._kills.read()

    def _tasks(self) -> int | None:
        for folder in (self.unified, self.legacy.get('pids')):
            found = None if folder is None else _number(text_in(folder, 'pids.peak'))
            if found is not None:
                return found
        return None

    def _storage(self) -> tuple[int | None, int | None]:
        found = None if self.unified is None else storage.of_unified(self.unified)
        if found is None and 'blkio' in self.legacy:
            return storage.read_of_legacy(self.legacy['blkio']), None
        return (None, None) if found is None else found


def usage_of(found: Mapping[str, Any], wanted: Units) -> OwnGroupUsage:
    """Return the section ``own_group`` of the result.

    :param found: What :meth:`OwnGroup.end` has returned, or the ``problem`` alone where there was no group.
    :raises ValueError: It is something else.
    """
    from gpu_tracker.result.usage import OwnGroupUsage  # noqa: PLC0415 - dataclasses cost 15 ms, and groups need none

    figures = {name: found.get(name) for name in FIGURES}
    texts = {name: found.get(name) for name in ('made_in', 'problem')}
    if not all(value is None or type(value) in {int, float} for value in figures.values()):
        raise ValueError('a field of own_group is not a number')
    if not all(value is None or isinstance(value, str) for value in texts.values()):
        raise ValueError('the field made_in or problem of own_group is not a text')
    return OwnGroupUsage(
        unit=wanted.ram,
        made_in=texts['made_in'],
        memory_peak=from_bytes(figures['memory_peak'], wanted.ram),
        cpu_seconds=figures['cpu'],
        user_cpu_seconds=figures['user_cpu'],
        system_cpu_seconds=figures['system_cpu'],
        read=from_bytes(figures['read'], wanted.ram),
        written=from_bytes(figures['written'], wanted.ram),
        max_tasks=figures['max_tasks'],
        oom_kills=figures['oom_kills'],
        left_processes=figures['left_processes'],
        problem=texts['problem'],
    )


def _fields(text: str | None) -> dict[str, int]:
    """Return the numbers of a file that has a name and a number on each line."""
    pairs = (line.split() for line in (text or '').splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}  # noqa: PLR2004 - a pair


def _number(text: str | None) -> int | None:
    return None if text is None or not text.strip().isdecimal() else int(text)


def _scaled(value: int | None, unit: float) -> float | None:
    return None if value is None else value * unit


def _write_if_there(path: str, text: str) -> None:
    try:
        making.write(path, text)
    except OSError:
        pass  # without swap, without CONFIG_MEMCG_SWAP, or before Linux 4.19
